package north

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// Ongoing is what goes on when another document takes over: open streams and
// how many each principal has, and what the sessions of legacy clients have
// under way and can come back to. Every handler of a process is given the same one (Options.Ongoing).
// It holds no goroutine and is safe for concurrent use.
type Ongoing struct {
	streaming  context.Context // ends with ErrStreamsEnd
	endStreams context.CancelCauseFunc
	talks      [lives]talk
	oddities   fault.Seldom // what clients send that is dropped
	tallies    tallies

	mu         sync.Mutex           // guards what follows
	streams    map[[32]byte]int     // open streams by principal key; none is 0
	standing   map[string]*standing // standing streams by session id
	generation uint64               // of the last claim that is in no store
}

// NewOngoing returns an Ongoing without anything in it.
func NewOngoing() *Ongoing {
	g := &Ongoing{streams: map[[32]byte]int{}, standing: map[string]*standing{}}
	for i := range g.talks {
		g.talks[i].begin()
	}
	g.streaming, g.endStreams = context.WithCancelCause(context.Background())
	return g
}

// End ends all streams of all handlers, each with the goodbye of its kind, and
// every stream that is opened later. It does not wait for them.
func (g *Ongoing) End() { g.endStreams(ErrStreamsEnd) }

// Streams is the number of open streams.
func (g *Ongoing) Streams() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, of := range g.streams {
		n += of
	}
	return n
}

func (g *Ongoing) talkOf(session string) *talk { return &g.talks[share(session)] }

// sweep throws away what is kept of streams that ended some time ago.
func (g *Ongoing) sweep(now time.Time) {
	for i := range g.talks {
		g.talks[i].sweep(now.Add(-keptFor))
	}
}

// enter counts a stream of a principal, unless it has as many as it may.
func (g *Ongoing) enter(p *Principal, limit int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if limit > 0 && g.streams[p.Key] >= limit {
		return false
	}
	g.streams[p.Key]++
	return true
}

// leave undoes enter.
func (g *Ongoing) leave(p *Principal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams[p.Key]--; g.streams[p.Key] == 0 {
		delete(g.streams, p.Key)
	}
}
