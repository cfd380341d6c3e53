package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// What becomes of a retry that finds no call to go on with, and of a call that
// cannot go on.
var (
	// ErrLost is a parked call that is not here any more: its time is over, its
	// upstream lost it, or it never was (checklist 7.3, X12).
	ErrLost = errors.New("relay: the parked call is gone")
	// ErrAnswered is a retry whose round was answered before, and otherwise.
	ErrAnswered = errors.New("relay: the question was answered otherwise before")
	// ErrTaken is a retry whose call has ended with an answer that went to
	// another request and was too large to keep.
	ErrTaken = errors.New("relay: the answer went to another request")
	// ErrRounds is a call that asks more often than one may.
	ErrRounds = errors.New("relay: the call has more rounds of questions than one may")
	// ErrQuota is a call that asks while too many others wait for their answers.
	ErrQuota = errors.New("relay: too many calls wait for answers")
	// ErrClosed is a call whose gateway ended, or let its upstream go.
	ErrClosed = errors.New("relay: the call was ended with its gateway")
)

// Bounds on what is parked.
const (
	maxParked    = 1024 // calls that wait for an answer, of all principals
	maxKept      = 256  // calls that have ended and whose answer is kept
	maxOpen      = 32   // open questions of one call
	maxRounds    = 10   // of one call (checklist 7.4)
	siblings     = 30 * time.Millisecond
	grace        = 5 * time.Second  // for a client that lost its connection to come back
	keep         = 60 * time.Second // for a client that lost its answer
	patience     = time.Second      // for an upstream to end after nobody answered it
	farewellTime = 5 * time.Second  // for telling an upstream that nobody answers
)

// Timer is one that can be stopped, such as a *time.Timer.
type Timer interface{ Stop() bool }

// Parks holds the calls of modern clients at legacy upstreams that may ask the
// client while they run (checklist 7.3). It is bounded: per principal and in all.
// It is safe for concurrent use.
type Parks struct {
	log   *slog.Logger
	after func(time.Duration, func()) Timer

	mu      sync.Mutex // guards what follows; taken after a Park's own, never before
	running map[*Park]struct{}
	byID    map[string]*Park // those that have asked
	held    map[[32]byte]int // calls that wait for an answer, by principal
	total   int
	kept    []*Park // those that have ended, oldest first
	closed  bool

	oddities fault.Seldom // what is dropped
}

// NewParks returns an empty one. after is what starts a timer; nil: time.AfterFunc.
func NewParks(log *slog.Logger, after func(time.Duration, func()) Timer) *Parks {
	if after == nil {
		after = func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
	}
	return &Parks{
		log: log, after: after, running: map[*Park]struct{}{}, byID: map[string]*Park{},
		held: map[[32]byte]int{},
	}
}

// Call is the upstream's side of a call.
type Call interface {
	// Respond hands the upstream the response to one of its requests. It is
	// called once for each, in any goroutine, also after the call has ended.
	Respond(ctx context.Context, response []byte) error
}

// Final is the answer of a call.
type Final interface {
	// Once reports whether only one request can be given it, since it streams.
	Once() bool
	// Close frees what it holds; it is called when nobody was given one that
	// streams. Whoever was given it closes it.
	Close()
}

// Start is what a call begins with.
type Start struct {
	Principal [32]byte
	Upstream  any // of which EndFor ends the calls
	Call      Call
	Parked    int           // calls of the principal that may wait for an answer; 0: no bound
	Wait      time.Duration // how long each of its questions may stay open
	// Can reports whether the client can be asked a question.
	Can func(*Question) bool
	// Run makes the call, on a goroutine of the park's own. It passes what
	// arrives on to Event and Ask, and returns when ctx ends.
	Run func(ctx context.Context, p *Park) (Final, error)
}

// Begin starts a call and returns the visit of the request that it is for, which
// must Wait.
func (ps *Parks) Begin(s *Start) (*Visit, error) {
	p := &Park{
		ps: ps, s: s, id: rand.Text(), short: strings.ToLower(rand.Text()[:6]), changed: make(chan struct{}), done: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	ps.mu.Lock()
	if ps.closed {
		ps.mu.Unlock()
		p.cancel(ErrClosed)
		return nil, ErrClosed
	}
	ps.running[p] = struct{}{}
	p.work.Add(1) // before EndFor can find it and wait
	ps.mu.Unlock()
	v := p.visit(0, s.Can)
	go p.run()
	return v, nil
}

// Return is a retry: the answers to a round of a parked call. They are handed to
// the upstream once; an identical retry joins the first, and one that differs is
// ErrAnswered. What has not the shape of an answer is ErrInputs, and the call
// goes on waiting for one that has. The visit returned must Wait.
func (ps *Parks) Return(id string, principal [32]byte, round int, in Inputs, can func(*Question) bool) (*Visit, error) {
	ps.mu.Lock()
	p := ps.byID[id]
	ps.mu.Unlock()
	if p == nil || p.s.Principal != principal {
		return nil, ErrLost
	}
	return p.answer(round, in, can)
}

// EndFor ends the calls whose upstream matches, and waits for them as long as ctx
// allows: what they asked is answered as by a user who gives none.
func (ps *Parks) EndFor(ctx context.Context, match func(upstream any) bool) {
	ps.mu.Lock()
	all := map[*Park]struct{}{}
	for p := range ps.running {
		all[p] = struct{}{}
	}
	for _, p := range ps.byID {
		all[p] = struct{}{}
	}
	ps.mu.Unlock()
	for p := range all {
		if !match(p.s.Upstream) {
			delete(all, p)
			continue
		}
		p.end(ErrClosed, 0)
		p.drop()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range all {
			p.work.Wait()
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Close ends every call, and takes no more.
func (ps *Parks) Close(ctx context.Context) {
	ps.mu.Lock()
	ps.closed = true
	ps.mu.Unlock()
	ps.EndFor(ctx, func(any) bool { return true })
}

// State tells how many calls are running, wait for an answer, and are remembered
// after their end.
func (ps *Parks) State() (running, waiting, kept int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.running), ps.total, len(ps.kept)
}

// reserve counts a call that is about to ask, if there is room for it.
func (ps *Parks) reserve(p *Park) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	who := p.s.Principal
	if ps.closed || ps.total >= maxParked || (p.s.Parked > 0 && ps.held[who] >= p.s.Parked) {
		return false
	}
	ps.held[who]++
	ps.total++
	ps.byID[p.id] = p
	return true
}

// release undoes what reserve counted.
func (ps *Parks) release(p *Park) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	who := p.s.Principal
	if ps.held[who]--; ps.held[who] == 0 {
		delete(ps.held, who)
	}
	ps.total--
}

// retain notes a call whose answer is kept, and returns one that must make way.
func (ps *Parks) retain(p *Park) (victim *Park) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.byID[p.id] != p {
		return nil
	}
	ps.kept = append(ps.kept, p)
	if len(ps.kept) > maxKept {
		victim = ps.kept[0]
	}
	return victim
}

// forget takes a call out of the table.
func (ps *Parks) forget(p *Park) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.byID, p.id)
	for i, k := range ps.kept {
		if k == p {
			ps.kept = append(ps.kept[:i], ps.kept[i+1:]...)
			break
		}
	}
}

// ended notes that a call runs no more.
func (ps *Parks) ended(p *Park) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.running, p)
}

// dropped says, once a minute at most, that something of a kind was dropped.
func (ps *Parks) dropped(what string) { ps.oddities.Say(ps.log, slog.LevelWarn, what) }
