package durable

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSubmitCommits: a submission is one commit before it is claimed, and two on
// its way; a poll that changes nothing is none; and an end is one.
func TestSubmitCommits(t *testing.T) {
	r := newRig(t, Penstock, nil)
	lease, last := r.lease(), int64(0)
	since := func() int64 {
		before := last
		last = r.store.Commits()
		return last - before
	}
	atCall := int64(0)
	r.w.in = func(method string) {
		if method == "tools/call" {
			atCall = r.store.Commits() - last
		}
	}
	const n = 20
	since()
	var first *said
	for i := range n {
		s, err := r.send(lease, r.task(fmt.Sprint("k", i)))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = s
		}
		if got := since(); got != 3 || atCall != 2 {
			t.Errorf("a submission was %d commits, %d of them before the call", got, atCall)
		}
	}
	r.get(first.TaskID)
	if got := since(); got != 0 {
		t.Errorf("a poll was %d commits", got)
	}
	if _, err := r.send("", r.task("k0")); err != nil || since() != 0 {
		t.Errorf("a retry wrote: %v", err)
	}
	r.w.finish = "completed"
	r.get(first.TaskID)
	if got := since(); got != 1 {
		t.Errorf("an end was %d commits", got)
	}
}

// BenchmarkSubmit is a submission alone, and 64 at once, with the commits that
// each took.
func BenchmarkSubmit(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			r := newRig(b, Penstock, func(o *Options) { o.MaxRoutes, o.MaxRoutesPerCaller = 1<<30, 1<<30 })
			lease := r.lease()
			var next atomic.Int64
			before := r.store.Commits()
			b.ResetTimer()
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if _, err := r.send(lease, r.task(fmt.Sprint("k", i))); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(r.store.Commits()-before)/float64(b.N), "commits/op")
		})
	}
}

// TestSubmissionsShareCommits: 64 at once take far fewer commits than three each.
func TestSubmissionsShareCommits(t *testing.T) {
	r := newRig(t, Penstock, nil)
	lease, before := r.lease(), r.store.Commits()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if _, err := r.send(lease, r.task(fmt.Sprint("k", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := r.store.Commits() - before
	t.Logf("64 submissions at once took %d commits", got)
	if got > 96 {
		t.Error("they do not share them")
	}
}
