package south

import "sync"

// window is how much of an answer is held; a longer one streams through
// (DESIGN section 3).
const window = 64 << 10

// little is enough for most answers whose length is known beforehand, so that
// many calls at once do not hold a window each.
const little = 8 << 10

var (
	windows = sync.Pool{New: func() any { b := make([]byte, window); return &b }}
	littles = sync.Pool{New: func() any { b := make([]byte, little); return &b }}
)

func getWindow() *[]byte { return windows.Get().(*[]byte) }

// getRoom returns a buffer for a body of a known length, or a window.
func getRoom(length int64) *[]byte {
	if length >= 0 && length < little {
		return littles.Get().(*[]byte)
	}
	return getWindow()
}

// putWindow takes a buffer back. What grew past the window is left to the collector.
func putWindow(b *[]byte) {
	if b == nil {
		return
	}
	*b = (*b)[:cap(*b)]
	switch cap(*b) {
	case window:
		windows.Put(b)
	case little:
		littles.Put(b)
	}
}
