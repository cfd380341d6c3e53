package taskcost_test

import (
	"path/filepath"
	"runtime"
	"testing"
)

// pollAllocs is what one tasks/get may allocate between the handler and the socket of
// the upstream. It was 62 when written, most of it HTTP heads and contexts; a higher
// number needs a reason.
const pollAllocs = 68

func TestAPollAllocatesAsMuchAmongManyTasksAsAmongFew(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	allocs := func(n int) float64 {
		h := newHouse(t, "sqlite:"+filepath.Join(t.TempDir(), "penstock.db"))
		all := h.mint(n, 64)
		var polls []*request
		for i := range 400 {
			of := all[i*7919%n]
			polls = append(polls, h.poll(of.caller, of.id))
		}
		for _, q := range polls {
			if q.serve(h); q.w.status != 200 {
				t.Fatalf("HTTP %d %s", q.w.status, q.w.body)
			}
		}
		i := 0
		return testing.AllocsPerRun(2*len(polls), func() {
			polls[i%len(polls)].serve(h)
			i++
		})
	}
	few, many := allocs(10), allocs(5000)
	t.Logf("%.0f allocations a poll among 10 tasks, %.0f among 5,000", few, many)
	if few > pollAllocs || many > few+1 {
		t.Errorf("%.1f allocations a poll among 10 tasks, %.1f among 5,000; at most %d are expected", few, many, pollAllocs)
	}
}

// What a gateway holds in memory of a task is its cached owner.
func TestATaskCostsAtMost300BytesOfMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector counts in")
	}
	const n = 10_000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	h := newHouse(t, "sqlite:"+filepath.Join(t.TempDir(), "penstock.db"))
	h.mint(2*callers, 64)
	before := heap()
	h.mint(n, 64)
	each := float64(heap()-before) / n
	t.Logf("%.0f bytes a task, of %d", each, n)
	if each > 300 {
		t.Errorf("a task costs %.0f bytes of memory", each)
	}
	runtime.KeepAlive(h)
}
