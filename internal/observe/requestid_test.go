package observe

import (
	"strings"
	"sync"
	"testing"
)

func TestRequestIDsAreShortAndUnique(t *testing.T) {
	const sides, each = 8, 5000
	ids := make([][]string, sides)
	var wg sync.WaitGroup
	for side := range sides {
		wg.Go(func() {
			for range each {
				ids[side] = append(ids[side], NewRequestID())
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, of := range ids {
		for _, id := range of {
			if len(id) != idPrefix+idCounter || seen[id] || strings.Trim(id, digits) != "" {
				t.Fatalf("%q (seen before: %v)", id, seen[id])
			}
			seen[id] = true
		}
	}
}

func TestProcessesDifferInTheirRequestIDs(t *testing.T) {
	if a, b := newPrefix(), newPrefix(); a == b {
		t.Errorf("%s twice", a)
	}
}

func TestRequestIDAllocatesItselfOnly(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	if n := testing.AllocsPerRun(500, func() { NewRequestID() }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
