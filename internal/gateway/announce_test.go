package gateway

import (
	"slices"
	"testing"
)

func TestMissingNamesAreThoseOfOneSide(t *testing.T) {
	old, now := []string{"a__x", "b__y", "c"}, []string{"b__y", "c", "d"}
	if got := missing(old, now); !slices.Equal(got, []string{"d"}) {
		t.Errorf("added %q", got)
	}
	if got := missing(now, old); !slices.Equal(got, []string{"a__x"}) {
		t.Errorf("removed %q", got)
	}
	if got := missing(nil, nil); got != nil {
		t.Errorf("%q", got)
	}
}
