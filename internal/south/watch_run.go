package south

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

const (
	// steadyTime is how long a stream must have been there for its end to count as
	// the first.
	steadyTime = 10 * time.Second
	// quietPause is how long an upstream is left alone that takes the request for a
	// stream and says nothing, or refuses the gateway.
	quietPause = time.Minute
	// leastPause is the least wait between two streams, whatever the upstream asks
	// for.
	leastPause = time.Second
	// goodbyeTime bounds what is told to an upstream after Close.
	goodbyeTime = 2 * time.Second
)

// ending is what follows the end of a way.
type ending uint8

const (
	wayLost  ending = iota // it is opened again soon
	wayQuiet               // it is opened again after a long while
	wayDeaf                // it is not opened before something has changed
	wayOver                // there is something else to do at once
)

// outcome is how watching over one way ended.
type outcome struct {
	how    ending
	err    error         // why
	opened bool          // it was there before
	retry  time.Duration // how long the upstream asked to wait; 0: it did not
	// stubborn says that it will be deaf to something else that is wanted, too.
	stubborn bool
}

func newWatchBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = 250*time.Millisecond, 10*time.Second, 2
	return b
}

// run keeps a way open while anything is wanted.
func (w *Watch) run() {
	defer close(w.done)
	defer w.leave(w.each)
	defer w.letGo()
	moves := 0
	for w.ctx.Err() == nil {
		want, turn := w.wanted()
		if want.Empty() {
			w.letGo()
			w.rested(turn)
			w.resume = resume{}
			w.pause(pause{until: forever, turn: turn, turns: true, news: w.news.Load()})
			continue
		}
		began := time.Now()
		l, err := w.link()
		news := w.news.Load()
		out := outcome{err: err}
		if err == nil {
			out = w.attend(l)
			if w.unreached(l, out) && moves+1 < len(w.each) {
				moves++
				continue // another replica may be there
			}
		}
		moves = 0
		if w.ctx.Err() == nil && out.how != wayOver {
			w.after(out, began, news)
		}
	}
}

// link returns the way to the upstream, or to one of its replicas.
func (w *Watch) link() (*Link, error) {
	if w.among != nil {
		return w.among.Link(w.ctx, w.key)
	}
	return w.at.Link(w.ctx, w.key)
}

// unreached takes a replica out of turn that could not be asked for a stream.
func (w *Watch) unreached(l *Link, out outcome) bool {
	if w.among == nil || out.how != wayLost || out.opened || w.ctx.Err() != nil {
		return false
	}
	switch fault.From(out.err).Code {
	case fault.UpstreamUnavailable, fault.ConnectionLost:
		w.missed(out.err, false)
		w.among.Unreached(l, w.key)
		return true
	}
	return false
}

// attend watches over one way until it is lost, or something else is to be done.
func (w *Watch) attend(l *Link) outcome {
	switch {
	case l.Era == mcp.Modern:
		return w.listen(l)
	case l.process != nil:
		return w.overhear(l)
	default:
		return w.follow(l)
	}
}

// errMoved is a way that another replica is better than.
var errMoved = errors.New("its replica is taken out of turn")

// misplaced reports whether a replica is taken out of turn while there is another.
func (w *Watch) misplaced(l *Link) bool {
	if w.among == nil {
		return false
	}
	here, other := true, false
	for i, u := range w.each {
		if u == l.Upstream {
			here = w.among.usable(i)
		} else {
			other = other || w.among.usable(i)
		}
	}
	return !here && other
}

// after waits as long as the end of a way demands.
func (w *Watch) after(out outcome, began time.Time, news uint64) {
	_, turn := w.wanted()
	p := pause{turn: turn, news: news, told: true}
	switch out.how {
	case wayDeaf:
		w.missed(out.err, false)
		w.at.o.Log.Debug("upstream does not tell of changes", "upstream", w.at.o.Key, "error", out.err)
		p.until, p.turns = forever, !out.stubborn
	case wayQuiet:
		w.missed(out.err, true)
		p.until = time.Now().Add(quietPause)
	default:
		if out.opened && time.Since(began) >= steadyTime {
			w.backoff.Reset()
			w.losses = 0
		}
		w.losses++
		wait := w.backoff.NextBackOff()
		if out.retry > 0 {
			wait = max(out.retry, leastPause)
		}
		// A stream that was there is mostly there again at the first try.
		p.told = !out.opened
		w.missed(out.err, p.told)
		if !p.told {
			w.at.o.Log.Debug("upstream's stream ended", "upstream", w.at.o.Key, "error", out.err)
		}
		// News of the upstream end the wait; but what an attempt itself brings about
		// is no reason to make the next one at once.
		p.news, p.until = w.news.Load(), time.Now().Add(wait)
		p.floor = began.Add(min(time.Duration(w.losses)*w.backoff.InitialInterval, 2*time.Second))
	}
	if p.told {
		w.settle(turn, mcp.Filter{})
	}
	w.pause(p)
}

// forever is a time that does not come.
var forever = time.Now().AddDate(100, 0, 0)

// pause is a wait that news may shorten.
type pause struct {
	until time.Time
	news  uint64    // that are known; later ones end the wait
	floor time.Time // but not before
	turn  uint64    // of what is wanted
	turns bool      // something else that is wanted ends the wait
	told  bool      // otherwise, that nothing of it is there is told at once
}

func (w *Watch) pause(p pause) {
	t := time.NewTimer(time.Until(p.until))
	defer t.Stop()
	for {
		if want, turn := w.wanted(); turn != p.turn {
			if p.turns || want.Empty() {
				return
			}
			if p.turn = turn; p.told {
				w.settle(turn, mcp.Filter{})
			}
		}
		if w.news.Load() != p.news && p.floor.Before(p.until) {
			p.until = p.floor
			t.Reset(time.Until(p.until))
		}
		select {
		case <-w.ctx.Done():
			return
		case <-t.C:
			return
		case <-w.poke:
		}
	}
}

// goodbye is a context for what is still told to an upstream after Close.
func (w *Watch) goodbye() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.hurry, goodbyeTime)
}
