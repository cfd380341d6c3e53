package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// heapFloor keeps the collector from running for every few megabytes of
	// short lived buffers while the heap is small: the goal of a collection is in
	// proportion to what is live, and this counts as live. It is never written,
	// so it takes address space and no memory.
	heapFloor = 3 << 20

	// heapGrowth is how far, in percent, the heap may grow over what is live
	// before a collection. Nearly all that a gateway allocates is dead when its
	// request is, so collections are cheap, and half of Go's default holds the
	// memory of a burst down at no cost that can be measured.
	heapGrowth = 50
)

// holdHeapFloor sets the collector's pace, unless GOGC in the environment does,
// and returns what must be called when the process ends.
func holdHeapFloor() (release func()) {
	b := make([]byte, heapFloor)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	return func() { runtime.KeepAlive(b) }
}
