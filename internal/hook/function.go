package hook

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
)

// mostRuns is how many runs of a function there are at a time, those that
// nobody waits for included.
const mostRuns = 64

// function is a hook in Go. Each run has a goroutine of its own, so that one
// that ignores its deadline holds up nobody; it keeps its place until it returns.
type function struct {
	f        Func
	panicked func(p any, stack []byte) // logs
	places   chan struct{}             // one for each run
	deserted atomic.Int32              // runs that nobody waits for
}

func newFunction(f Func, panicked func(p any, stack []byte)) *function {
	return &function{f: f, panicked: panicked, places: make(chan struct{}, mostRuns)}
}

// run is one run of a function. Whoever moves ended from false to true first
// says what becomes of it: the run, that its answer counts; or the one who
// waits, that it does not.
type run struct {
	ended  atomic.Bool
	answer chan answer // holds one
}

type answer struct {
	v   Verdict
	err error
}

// ask runs the function on a copy of c.
func (f *function) ask(ctx context.Context, c *Call) (Verdict, error) {
	if err := f.enter(ctx); err != nil {
		return Verdict{}, err
	}
	r := &run{answer: make(chan answer, 1)}
	go f.run(ctx, c.clone(), r)
	select {
	case a := <-r.answer:
		return a.v, a.err
	case <-ctx.Done():
	}
	if !r.ended.CompareAndSwap(false, true) {
		a := <-r.answer // at the same moment: it counts
		return a.v, a.err
	}
	f.deserted.Add(1)
	return Verdict{}, context.Cause(ctx)
}

// enter takes a place, and waits for one unless all are lost.
func (f *function) enter(ctx context.Context) error {
	select {
	case f.places <- struct{}{}:
		return nil
	default:
	}
	if f.deserted.Load() >= mostRuns {
		return &failure{kind: stragglers}
	}
	select {
	case f.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run calls the function, and always leaves an answer and its place.
func (f *function) run(ctx context.Context, c *Call, r *run) {
	a := answer{err: &failure{kind: funcError, err: errors.New("it ended its goroutine")}}
	defer func() {
		if p := recover(); p != nil {
			f.panicked(p, debug.Stack())
			a = answer{err: &failure{kind: panicked}}
		}
		if r.ended.CompareAndSwap(false, true) {
			r.answer <- a
		} else {
			f.deserted.Add(-1)
		}
		<-f.places
	}()
	e := c.Event // c is the function's
	v, err := f.f(ctx, c)
	if err != nil {
		a = answer{err: &failure{kind: funcError, err: err}}
		return
	}
	a = own(v, e)
}

// own copies what the verdict rewrites and reads it strictly, as the answer of
// an endpoint is read. The function may hold on to the bytes and change them.
func own(v Verdict, e Event) answer {
	for _, raw := range []*[]byte{&v.Arguments, &v.Result} {
		if *raw == nil {
			continue
		}
		*raw = bytes.Clone(bytes.Trim(*raw, " \t\r\n"))
		if err := strictObject(*raw); err != nil {
			return answer{err: &failure{kind: badAnswer, err: err}}
		}
	}
	return answer{v: v}
}

func (f *function) close() {}
