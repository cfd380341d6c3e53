package south

import "sync"

// window is how much of an answer is held; a longer one streams through
// (DESIGN section 3).
const window = 64 << 10

var windows = sync.Pool{New: func() any { b := make([]byte, window); return &b }}

func getWindow() *[]byte { return windows.Get().(*[]byte) }

// putWindow takes a buffer back. What grew past the window is left to the collector.
func putWindow(b *[]byte) {
	if b != nil && cap(*b) == window {
		*b = (*b)[:window]
		windows.Put(b)
	}
}
