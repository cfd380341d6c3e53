package config

import (
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSizesAreBytes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "7B": 7, "64KiB": 65536, "4MiB": 4 << 20, "2GiB": 2 << 30, "9223372036854775807": 1<<63 - 1} {
		var s Size
		if err := s.set(text); err != nil || s.Bytes() != want {
			t.Errorf("%q is %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "B", "-1", "+1", "1.5MiB", "4MB", "4 MiB", "9223372036854775808", "9007199254740993GiB", "1_000"} {
		var s Size
		if err := s.set(text); err == nil {
			t.Errorf("%q is accepted as %d", text, s)
		}
	}
}

func TestSizeReadsWhatItPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Size(rapid.Int64Min(0).Draw(t, "bytes"))
		var got Size
		if err := got.set(want.String()); err != nil || got != want {
			t.Fatalf("%s reads as %d, %v", want, got, err)
		}
	})
}

func TestRatesAreEventsPerTime(t *testing.T) {
	for text, want := range map[string]Rate{"10/s": {10, time.Second}, "600/m": {600, time.Minute}, "1/h": {1, time.Hour}} {
		var r Rate
		if err := r.set(text); err != nil || r != want || r.String() != text {
			t.Errorf("%q is %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "10", "0/s", "-1/s", "1/d", "/s", "01/s", "1/ s", "9999999999/s"} {
		var r Rate
		if err := r.set(text); err == nil {
			t.Errorf("%q is accepted as %v", text, r)
		}
	}
}

// The pattern of a scalar goes into the schema: what set accepts has to match it.
func TestScalarsAcceptNothingBeyondTheirPattern(t *testing.T) {
	fresh := map[string]func() scalar{
		"duration": func() scalar { return new(Duration) },
		"size":     func() scalar { return new(Size) },
		"toggle":   func() scalar { return new(Toggle) },
		"rate":     func() scalar { return new(Rate) },
		"store":    func() scalar { return new(Store) },
		"glob":     func() scalar { return new(Glob) },
	}
	for name, zero := range fresh {
		pattern := regexp.MustCompile(zero().form().pattern)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := rapid.StringMatching(`[-+]?[0-9]{0,4}(\.[0-9]{1,2})?(ns|us|ms|s|m|h|B|KiB|MiB|/s|/m|/h|on|off|true|sqlite:x|memory:|postgres://h/d|a[*?]|[][{}]|\\\\)?`).Draw(t, "text")
				if zero().set(text) == nil && !pattern.MatchString(text) {
					t.Fatalf("%q is accepted and does not match %s", text, pattern)
				}
			})
		})
	}
}

func TestNearestWordIsTheLikelyOne(t *testing.T) {
	candidates := []string{"sessions", "sessions_per_principal", "url", "urls", "era"}
	for word, want := range map[string]string{"sesions": "sessions", "ur": "url", "URL": "", "utl": "url", "ear": "era", "zzz": "", "": "", "x": ""} {
		if got := nearest(word, candidates); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}
