package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// A gateway's heap is small, and nearly all that it allocates is dead when its
// request is: a collection is cheap by what is live and dear by being one at all.
// So the heap may grow by leastGrowth before the next, however little is live, and
// by as much as is live where that is more, as Go has it. Go's own least goal of
// 4 MiB is collected for a few hundred requests at a time.
const leastGrowth = 7 << 19

// pacer sets the collector's percentage behind each collection, by what it found
// alive.
type pacer struct {
	percent int // as set; used by the runtime's cleanups alone, one at a time
	live    []metrics.Sample
	off     atomic.Bool
}

// paceCollections begins to set the collector's pace, unless GOGC in the
// environment does. What it returns ends it.
func paceCollections() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &pacer{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	p.set()
	return func() { p.off.Store(true) }
}

// set decides on the percentage, and has itself called behind the next collection:
// that finds the little object that nobody holds.
func (p *pacer) set() {
	if p.off.Load() {
		return
	}
	metrics.Read(p.live)
	live := int(p.live[0].Value.Uint64())
	if next := percentFor(live); next != p.percent {
		p.percent = next
		debug.SetGCPercent(next)
	}
	mark := new([16]byte)
	runtime.AddCleanup(mark, func(p *pacer) { p.set() }, p)
}

// percentFor is the percentage by which the next collection comes when the heap
// has grown by leastGrowth, or by what is live. Go scales its least goal of 4 MiB
// by the percentage too, and takes the greater of the two goals.
func percentFor(live int) int {
	const least = 4 << 20
	growth := max(leastGrowth, live)
	percent := 100 * (live + growth) / least
	if live > 0 {
		percent = min(percent, 100*growth/live)
	}
	return percent
}
