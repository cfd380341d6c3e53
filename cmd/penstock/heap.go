package main

import "runtime"

// heapFloor keeps the collector from running for every few megabytes of short
// lived buffers while the heap is small: the goal of a collection is in
// proportion to what is live, and this counts as live. It is never written, so
// it takes address space and no memory.
const heapFloor = 2 << 20

// holdHeapFloor returns what must be kept until the process ends.
func holdHeapFloor() (release func()) {
	b := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(b) }
}
