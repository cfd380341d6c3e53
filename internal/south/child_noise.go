package south

import (
	"bytes"
	"sync"
	"time"
)

const (
	maxLogLine    = 8 << 10 // bytes of one line of a child's that are logged
	maxLogPerTick = 50      // lines of one child that are logged in a second
)

// noise logs what a child says beside its messages, at a bounded rate. It is
// safe for concurrent use.
type noise struct {
	u *Upstream

	mu      sync.Mutex // guards what follows
	since   time.Time
	lines   int // in this second
	dropped int
}

func newNoise(u *Upstream) *noise { return &noise{u: u} }

// log passes one line on, cut to its bound. What goes beyond the rate is only
// counted.
func (n *noise) log(kind string, line []byte) {
	line = bytes.TrimRight(line, " \t\r\n")
	if len(line) == 0 {
		return
	}
	n.mu.Lock()
	now := time.Now()
	dropped := 0
	if now.Sub(n.since) >= time.Second {
		dropped = n.dropped
		n.since, n.lines, n.dropped = now, 0, 0
	}
	n.lines++
	over := n.lines > maxLogPerTick
	if over {
		n.dropped++
	}
	n.mu.Unlock()
	if dropped > 0 {
		n.u.o.Log.Warn("upstream says more than is logged", "upstream", n.u.o.Key, "lines_dropped", dropped)
	}
	if !over {
		n.u.o.Log.Info(kind, "upstream", n.u.o.Key, "line", string(line[:min(len(line), maxLogLine)]))
	}
}
