package grant

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// What a caller gets was granted for that caller and through that Exchange, in
// whatever order calls, refusals, failures and the end of tokens come.
func TestSubjectsNeverShareATokenProperty(t *testing.T) {
	type step struct {
		pause          time.Duration
		exchange, who  int
		refuse, forget bool
	}
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			pause:    time.Duration(rapid.IntRange(0, 40_000).Draw(t, "pause")) * time.Millisecond,
			exchange: rapid.IntRange(0, 1).Draw(t, "exchange"), who: rapid.IntRange(0, 2).Draw(t, "who"),
			refuse: rapid.IntRange(0, 3).Draw(t, "refuse") == 0, forget: rapid.IntRange(0, 9).Draw(t, "forget") == 0,
		}
	}), 1, 12)
	rapid.Check(t, func(r *rapid.T) {
		callers := rapid.SliceOfN(steps, 2, 6).Draw(r, "callers")
		life := rapid.SampledFrom([]any{0, 15, 60, 3600}).Draw(r, "life")
		downAt := time.Duration(rapid.IntRange(0, 100).Draw(r, "down")) * time.Second
		entries := rapid.SampledFrom([]int{1, 100}).Draw(r, "entries")
		var faults []string
		synctest.Test(t, func(t *testing.T) {
			var fs [2]*fake
			var xs [2]*Exchange
			for n := range xs {
				// Their requests take different times, so that they interleave.
				fs[n] = &fake{takes: time.Duration(700*(n+1)) * time.Millisecond, life: life}
				xs[n] = fs[n].exchange(t, Options{Upstream: "github", ClientID: "c", Entries: entries})
			}
			var mu sync.Mutex // guards faults and granted
			granted := [2]map[string]bool{{}, {}}
			var all sync.WaitGroup
			for _, mine := range callers {
				all.Go(func() {
					for _, s := range mine {
						time.Sleep(s.pause)
						who := subject(fmt.Sprint(s.who))
						token, err := xs[s.exchange].Token(t.Context(), who)
						if err != nil {
							continue // the provider is down, or the upstream refuses all
						}
						mu.Lock()
						if _, for_ := of(token); for_ != who.Token {
							faults = append(faults, fmt.Sprintf("%s got %s", who.Token, token))
						}
						granted[s.exchange][token] = true
						mu.Unlock()
						if s.refuse {
							xs[s.exchange].Refused(who, token)
						}
						if s.forget {
							xs[s.exchange].Forget(who.Hash)
						}
					}
				})
			}
			all.Go(func() {
				time.Sleep(downAt)
				fs[0].set(503)
				time.Sleep(5 * time.Second)
				fs[0].set(0)
			})
			all.Wait()
			for n := range xs {
				xs[n].Close()
				if fs[n].most > 1 && entries > 1 && !forgets(callers, func(s step) bool { return s.forget }) {
					faults = append(faults, fmt.Sprintf("%d requests at once for one subject", fs[n].most))
				}
				if len(granted[n]) > fs[n].n {
					faults = append(faults, fmt.Sprintf("%d tokens of %d requests", len(granted[n]), fs[n].n))
				}
			}
		})
		if len(faults) > 0 {
			r.Fatal(faults)
		}
	})
}

// forgets says whether any step does: then a second request may run beside one
// whose outcome is no longer wanted.
func forgets[S any](callers [][]S, does func(S) bool) bool {
	for _, mine := range callers {
		for _, s := range mine {
			if does(s) {
				return true
			}
		}
	}
	return false
}
