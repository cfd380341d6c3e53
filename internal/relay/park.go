package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// Park is one call that outlives the requests it is made for: each of them visits
// it, until the upstream asks or answers.
//
// What goes on between requests is a sequence of rounds. A round is offered to
// the client, answered once, and followed by the next, or by the final answer.
type Park struct {
	ps     *Parks
	s      *Start
	id     string
	short  string // in the keys of its questions
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}  // closed when the call has ended; its answer may still be streaming
	work   sync.WaitGroup // the call itself, and telling its upstream that nobody answers

	mu      sync.Mutex    // guards what follows; never held across I/O
	changed chan struct{} // closed, and made anew, when visitors have something to look at
	visits  []*Visit      // those that wait; events go to the last
	open    []*asked      // questions without an answer, oldest first
	minted  int           // keys so far
	offers  []*Offer      // one for each round
	answers [][sha256.Size]byte
	over    bool // final and err are set
	final   Final
	err     error
	given   bool // a final that streams was given to a visitor
	counted bool // against the bounds on waiting calls
	timer   Timer
	armed   int // tells a timer that was replaced from the current one
}

// Offer is one round of questions. It is immutable.
type Offer struct {
	ID    string // of the park
	Round int    // counts from 1
	Asked []Asked
}

// Asked is a question under the key that its answer is to come under.
type Asked struct {
	Key string
	*Question
}

// Turn is what a visit waited for: a round of questions, or the end of the call.
type Turn struct {
	Offer *Offer
	Final Final
	Err   error
	Asked bool // whether the call has asked anything, so that it has certainly run
}

// run makes the call.
func (p *Park) run() {
	defer p.work.Done()
	defer p.ps.ended(p)
	defer close(p.done)
	defer func() {
		if r := recover(); r != nil {
			p.ps.log.Error("panic in a parked call", "panic", r, "stack", string(debug.Stack()))
			p.finish(nil, errors.New("relay: the call failed within the gateway"))
		}
	}()
	p.finish(p.s.Run(p.ctx, p))
}

// Event hands a notification of the call to the request that waits for it now,
// and returns when it was written or nobody takes it: between rounds there is
// nobody (checklist 6.1). It is called by the goroutine that runs the call.
func (p *Park) Event(s *wire.Answer) error {
	p.mu.Lock()
	var v *Visit
	if n := len(p.visits); n > 0 {
		v = p.visits[n-1]
	}
	p.mu.Unlock()
	if v == nil {
		return nil
	}
	select {
	case v.events <- s:
		<-v.taken
	case <-v.left:
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
	return nil
}

// Ask puts a question to the client. Either it is open from now on, and the
// response comes by Call.Respond; or the response is returned at once.
func (p *Park) Ask(q *Question) (response []byte, deferred bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
		return q.Nobody(), false
	case len(p.open) == maxOpen:
		p.ps.dropped("a call has more questions open than it may; the rest are refused")
		return q.Nobody(), false
	case !p.counted && !p.ps.reserve(p):
		p.ps.dropped("a call asks while too many others wait for answers; it was ended")
		p.endLocked(ErrQuota, patience)
		return q.Nobody(), false
	}
	p.counted = true
	p.open = append(p.open, &asked{Question: q})
	p.signal()
	return nil, true
}

// finish notes how the call ended.
func (p *Park) finish(a Final, err error) {
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		if a != nil {
			a.Close() // the clients were told before
		}
		return
	}
	waiting := len(p.offers) > len(p.answers)
	if err != nil && waiting {
		err = ErrLost // the upstream dropped a question that is with the user
	}
	p.over, p.final, p.err, p.open = true, a, err, nil
	p.signal()
	lost := waiting && err != nil
	var victim *Park
	if !waiting {
		victim = p.settle()
	}
	p.mu.Unlock()
	if lost {
		p.drop()
	}
	if victim != nil {
		victim.drop()
	}
}

// settle keeps the end of the call for a while, for a client that loses its
// answer. It is called with mu held, once the last round has its answer; what it
// returns is dropped without.
func (p *Park) settle() (victim *Park) {
	if !p.counted {
		return nil // it asked nothing, and nobody can come back for it
	}
	p.uncount()
	p.arm(keep, p.drop)
	return p.ps.retain(p)
}

// uncount gives back what reserve took. It is called with mu held.
func (p *Park) uncount() {
	if p.counted {
		p.counted = false
		p.ps.release(p)
	}
}

// answer takes a retry.
func (p *Park) answer(round int, in Inputs, can func(*Question) bool) (*Visit, error) {
	p.mu.Lock()
	if round < 1 || round > len(p.offers) {
		p.mu.Unlock()
		return nil, ErrLost
	}
	if round <= len(p.answers) {
		defer p.mu.Unlock()
		if p.answers[round-1] != in.digest {
			p.ps.dropped("a client answered a question again, and otherwise; it was refused")
			return nil, ErrAnswered
		}
		return p.visitLocked(round, can), nil
	}
	for _, a := range p.offers[round-1].Asked {
		if r := in.Get(a.Key); r != nil && !a.Fits(r) {
			p.mu.Unlock()
			return nil, ErrInputs
		}
	}
	p.answers = append(p.answers, in.digest)
	var victim *Park
	p.disarm()
	if p.over {
		victim = p.settle()
	}
	var deliver []*asked
	rest := p.open[:0]
	for _, q := range p.open {
		if q.key != "" && in.Get(q.key) != nil {
			deliver = append(deliver, q)
		} else {
			rest = append(rest, q)
		}
	}
	p.open = rest
	v := p.visitLocked(round, can)
	p.mu.Unlock()
	if victim != nil {
		victim.drop()
	}
	for _, q := range deliver {
		// The answers were accepted: that the client leaves now changes nothing.
		if err := p.s.Call.Respond(p.ctx, q.Response(in.Get(q.key))); err != nil {
			p.end(err, 0)
		}
	}
	return v, nil
}

// offer makes the next round of what is open and can be asked. Questions that
// cannot are returned, for their refusal. It is called with mu held.
func (p *Park) offer(can func(*Question) bool) (refused []*asked) {
	rest := p.open[:0]
	for _, q := range p.open {
		if can(q.Question) {
			rest = append(rest, q)
		} else {
			refused = append(refused, q)
		}
	}
	p.open = rest
	switch {
	case len(p.open) == 0:
		return refused
	case len(p.offers) == maxRounds:
		p.endLocked(ErrRounds, patience)
		return refused
	}
	o := &Offer{ID: p.id, Round: len(p.offers) + 1}
	for _, q := range p.open {
		p.minted++
		q.key = "g" + p.short + "-" + strconv.Itoa(p.minted)
		o.Asked = append(o.Asked, Asked{q.key, q.Question})
	}
	p.offers = append(p.offers, o)
	p.arm(p.s.Wait, func() { p.expire(o.Round) })
	p.signal()
	return refused
}

// expire ends a call whose question nobody answered in time (checklist 7.3).
func (p *Park) expire(round int) {
	p.mu.Lock()
	late := len(p.answers) < round
	p.mu.Unlock()
	if late {
		p.end(ErrLost, patience)
		p.drop()
	}
}

// abandon ends a call whose client did not come back.
func (p *Park) abandon() {
	p.mu.Lock()
	alone := len(p.visits) == 0 && !p.over
	p.mu.Unlock()
	if alone {
		p.end(errAbandoned, 0)
		p.drop()
	}
}

var errAbandoned = errors.New("relay: the client left")

// end ends the call for its clients, if it has not ended: they get err. The
// upstream hears of what it asked that nobody answers, has as long as patient to
// end by itself, and is told that nobody waits for it any more.
func (p *Park) end(err error, patient time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked(err, patient)
}

func (p *Park) endLocked(err error, patient time.Duration) {
	if p.over {
		return
	}
	open := p.open
	p.over, p.err, p.open = true, err, nil
	p.signal()
	var victim *Park
	if len(p.offers) == len(p.answers) {
		victim = p.settle()
	}
	p.work.Add(1) // before the call's own Done, for it has not finished
	go func() {
		defer p.work.Done()
		if victim != nil {
			victim.drop()
		}
		p.farewell(open, err, patient)
	}()
}

func (p *Park) farewell(open []*asked, err error, patient time.Duration) {
	ctx, cancel := context.WithTimeout(p.ctx, farewellTime)
	defer cancel()
	for _, q := range open {
		if err := p.s.Call.Respond(ctx, q.Nobody()); err != nil {
			break
		}
	}
	if patient > 0 {
		t := time.NewTimer(patient)
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.done:
		}
	}
	p.cancel(fmt.Errorf("%w: %w", context.Canceled, err))
}

// drop forgets the call.
func (p *Park) drop() {
	p.mu.Lock()
	p.disarm()
	p.uncount()
	a := p.final
	if p.given || a == nil || !a.Once() {
		a = nil
	}
	p.given = p.given || a != nil
	p.mu.Unlock()
	p.ps.forget(p)
	if a != nil {
		a.Close()
	}
}

// signal makes visitors look again. It is called with mu held.
func (p *Park) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// arm starts the one timer of the park, in place of the one before. It is called
// with mu held.
func (p *Park) arm(d time.Duration, f func()) {
	p.disarm()
	mine := p.armed
	p.timer = p.ps.after(d, func() {
		p.mu.Lock()
		current := p.armed == mine
		p.mu.Unlock()
		if current {
			f()
		}
	})
}

func (p *Park) disarm() {
	p.armed++
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
