package task

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// Question is a request of a legacy upstream that belongs to a task. It does not
// change once it was asked.
type Question struct {
	ID     string // the upstream's own, raw JSON
	Method string
	Params []byte // raw, as inputRequests have them; nil: none
	// Patience is how long the question may stay open.
	Patience time.Duration
	// Fits reports whether a result has the shape that answers it.
	Fits func(result []byte) bool
	// Respond hands the upstream an answer, a raw result. ErrUnheard says that it
	// never got there, ErrWithdrawn that the upstream does not wait for it any more.
	Respond func(ctx context.Context, result []byte) error
	// Nobody tells the upstream that there will be none.
	Nobody func(ctx context.Context)
}

// What becomes of an answer that an upstream does not take.
var (
	ErrUnheard   = errors.New("task: the answer did not reach the upstream")
	ErrWithdrawn = errors.New("task: the upstream does not wait for the answer")
)

// ErrMisshapen is an answer that has not the shape which its question asks for.
var ErrMisshapen = errors.New("task: the answer has not the shape that was asked for")

// posed is a question that waits for its answer, under a key that no other question
// of the task ever has.
type posed struct {
	*Question
	key    string
	when   time.Time
	adrift bool        // the stream that it came on is over
	noted  bool        // the upstream said that the task waits for input while it was open
	over   *time.Timer // gives up on the client
}

const (
	// maxPosed bounds the open questions of one task.
	maxPosed = 32
	// siblings is how long questions are gathered that belong together.
	siblings = 30 * time.Millisecond
	// nobodyTime bounds telling an upstream that nobody answers.
	nobodyTime = 5 * time.Second
)

// Ask opens a question. It reports false when there is no room for it; one that comes
// again, or in the place of one whose stream is over, keeps its key.
func (v *Vigil) Ask(q *Question) bool {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || v.gone || v.outcome != nil {
		return false
	}
	for _, p := range v.open {
		same := p.ID == q.ID || p.adrift && p.Method == q.Method && string(p.Params) == string(q.Params)
		if same {
			p.Question, p.adrift = q, false
			v.stir()
			return true
		}
	}
	if len(v.open) == maxPosed {
		return false
	}
	v.minted++
	p := &posed{Question: q, key: v.short + "-" + strconv.Itoa(v.minted), when: time.Now()}
	p.over = time.AfterFunc(q.Patience, func() { v.expire(p) })
	v.open = append(v.open, p)
	v.stir()
	return true
}

// Withdraw closes the question of an id: the upstream does not wait for it any more.
func (v *Vigil) Withdraw(id string) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.close(func(p *posed) bool { return p.ID == id })
}

// close closes the questions that match. s.mu is held.
func (v *Vigil) close(match func(*posed) bool) {
	n := len(v.open)
	v.open = slices.DeleteFunc(v.open, func(p *posed) bool {
		if !match(p) {
			return false
		}
		p.over.Stop()
		return true
	})
	if len(v.open) != n {
		v.stir()
	}
}

// expire gives up on a client that does not answer.
func (v *Vigil) expire(p *posed) {
	s := v.s
	s.mu.Lock()
	if s.closed || !slices.Contains(v.open, p) {
		s.mu.Unlock()
		return
	}
	v.close(func(o *posed) bool { return o == p })
	s.work.Add(1)
	s.mu.Unlock()
	defer s.work.Done()
	ctx, cancel := context.WithTimeout(s.ctx, nobodyTime)
	defer cancel()
	p.Nobody(ctx)
}

// Requests are the open questions as inputRequests have them; nil: there is none.
// waits says what the upstream says of it. It need not say so while a stream is open
// that a question came on; but what it once waited for, and does not any more, is
// closed.
func (v *Vigil) Requests(waits bool) []byte {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if !waits {
		v.close(func(p *posed) bool { return p.noted || p.adrift })
	}
	if len(v.open) == 0 {
		return nil
	}
	out := []byte{'{'}
	for i, p := range v.open {
		p.noted = p.noted || waits
		if i > 0 {
			out = append(out, ',')
		}
		out = append(wire.AppendString(out, p.key), `:{"method":`...)
		out = wire.AppendString(out, p.Method)
		if p.Params != nil {
			out = append(append(out, `,"params":`...), p.Params...)
		}
		out = append(out, '}')
	}
	return append(out, '}')
}

// Answer hands in the answers that get has, by key; what is under other keys is
// nobody's. Each goes to the upstream once: it is open no more when this returns,
// unless it certainly was not heard.
func (v *Vigil) Answer(ctx context.Context, get func(key string) []byte) error {
	s := v.s
	s.mu.Lock()
	var taken []*posed
	for _, p := range v.open {
		r := get(p.key)
		if r == nil {
			continue
		}
		if !p.Fits(r) {
			s.mu.Unlock()
			return ErrMisshapen
		}
		taken = append(taken, p)
	}
	v.close(func(p *posed) bool { return slices.Contains(taken, p) })
	s.mu.Unlock()
	var failed error
	for _, p := range taken {
		err := p.Respond(ctx, get(p.key))
		switch {
		case err == nil, errors.Is(err, ErrWithdrawn):
			continue
		case errors.Is(err, ErrUnheard):
			v.reopen(p)
		}
		failed = err
	}
	return failed
}

// reopen undoes the closing of a question whose answer was not heard.
func (v *Vigil) reopen(p *posed) {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || v.gone || v.outcome != nil {
		return
	}
	p.over = time.AfterFunc(max(p.Patience-time.Since(p.when), time.Second), func() { v.expire(p) })
	v.open = append(v.open, p)
}

// Asked waits, as long as ctx allows, until a question is open and its siblings had
// their time, or until nothing is waited for at the upstream.
func (v *Vigil) Asked(ctx context.Context) {
	asked := false
	for {
		v.s.mu.Lock()
		changed := v.changed
		ripe := asked || len(v.open) > 0 && time.Since(v.open[len(v.open)-1].when) > siblings
		fresh, waiting := len(v.open) > 0, v.waiting != nil
		v.s.mu.Unlock()
		switch {
		case ripe, !fresh && !waiting:
			return
		case fresh:
			asked = true
			t := time.NewTimer(siblings)
			select {
			case <-t.C:
			case <-ctx.Done():
			}
			t.Stop()
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
