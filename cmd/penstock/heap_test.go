package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The goal of a collection, as Go makes it of a percentage, is what is live and what
// it may grow by.
func TestTheHeapGrowsByWhatItMay(t *testing.T) {
	for _, live := range []int{0, 1 << 10, 100 << 10, 1 << 20, 3 << 20, 4 << 20, 5 << 20, 50 << 20, 5 << 30} {
		percent := percentFor(live)
		goal := max(live+live/100*percent, (4<<20)/100*percent)
		want := live + max(leastGrowth, live)
		if percent < 1 || goal < want*9/10 || goal > want {
			t.Errorf("with %d live: %d %%, a goal of %d, want %d", live, percent, goal, want)
		}
	}
}

// The pace follows what is live, from one collection to the next, and no more once
// it is ended.
func TestThePaceFollowsTheHeap(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Setenv("GOGC", "")
	}
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	end := paceCollections()
	now := func() int {
		p := debug.SetGCPercent(1)
		debug.SetGCPercent(p)
		return p
	}
	small := now()
	held := make([]byte, 64<<20)
	for i := 0; i < 200 && now() != 100; i++ {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
	if p := now(); p != 100 || small <= 0 {
		t.Errorf("with 64 MiB live it is %d %%, and was %d before", p, small)
	}
	runtime.KeepAlive(held)
	end()
}
