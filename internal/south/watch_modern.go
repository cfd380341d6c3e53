package south

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

var (
	errNothingOffered = errors.New("nothing of what is wanted is offered")
	errNoAck          = errors.New("subscriptions/listen was not acknowledged in time")
	errListenEnded    = errors.New("the upstream ended it")
)

// listening is one subscriptions/listen in flight. What arrives for it comes on
// one goroutine, that of its stream or of its process.
type listening struct {
	w     *Watch
	id    []byte // raw
	asked mcp.Filter
	turn  uint64        // of what is wanted, when it was asked
	close func()        // gives it up; nothing comes afterwards, and it may be called again
	part  func()        // of a child's: close after the child has said that it is over, or had its time to
	acked chan struct{} // closed when it was acknowledged
	ended chan struct{} // closed when nothing more comes

	confirmed bool       // the acknowledgement came; the arrivals' goroutine's own
	honoured  mcp.Filter // by it; read after acked

	once sync.Once
	out  outcome // read after ended
}

// listen keeps a subscriptions/listen open at a modern upstream (checklist 58 to
// 61, 6.4). A filter cannot be changed: for another one a second listen is opened
// and acknowledged before the first is closed. A child has one at a time, with a
// gap between: servers on the Go SDK keep one per session, so that the end of the
// first would silence the second.
func (w *Watch) listen(l *Link) outcome {
	var cur *listening
	defer func() {
		if cur != nil {
			cur.close()
		}
	}()
	var failed struct { // a listen that was to take the place of cur
		turn, news uint64
		again      <-chan time.Time
	}
	for {
		want, turn := w.wanted()
		news := w.news.Load()
		switch i := l.Upstream.Info(); {
		case w.ctx.Err() != nil, want.Empty():
			return outcome{how: wayOver}
		case i != nil && i.Era != l.Era:
			w.missed(nil, false)
			return outcome{how: wayOver}
		case cur != nil && w.misplaced(l):
			return outcome{err: errMoved, opened: true}
		}
		asked := within(want, l.Capabilities())
		if asked.Empty() {
			return outcome{how: wayDeaf, err: errNothingOffered, opened: cur != nil}
		}
		if cur == nil || !cur.asked.Equal(asked) && (turn != failed.turn || news != failed.news) {
			next, out := w.replace(l, &cur, asked, turn)
			switch {
			case next != nil:
				if cur != nil {
					cur.close()
				}
				cur = next
			case cur == nil || out.how == wayOver:
				return out
			default:
				failed.turn, failed.news, failed.again = turn, news, nil
				switch out.how {
				case wayLost:
					failed.again = time.After(leastPause)
				case wayQuiet:
					failed.again = time.After(quietPause)
				}
				w.complain("upstream does not take another filter", out.err)
				w.settle(turn, meet(cur.honoured, want))
			}
		} else if cur.turn != turn && cur.asked.Equal(asked) {
			cur.turn = turn
			w.settle(turn, meet(cur.honoured, want))
		}
		select {
		case <-w.ctx.Done():
		case <-w.poke:
		case <-failed.again:
			failed.turn, failed.again = 0, nil
		case <-cur.ended:
			return cur.out
		}
	}
}

// replace is open where there may be a listen already. A child's is over then, and
// opened again when the child does not take the other filter.
func (w *Watch) replace(l *Link, cur **listening, asked mcp.Filter, turn uint64) (*listening, outcome) {
	before := *cur
	if l.process == nil || before == nil {
		return w.open(l, asked, turn)
	}
	w.missed(nil, false)
	before.part()
	*cur = nil
	next, out := w.open(l, asked, turn)
	if next == nil && out.how != wayOver {
		if *cur, _ = w.open(l, before.asked, before.turn); *cur == nil {
			return nil, outcome{err: out.err, opened: true}
		}
	}
	return next, out
}

// open asks for a filter and waits for the acknowledgement.
func (w *Watch) open(l *Link, asked mcp.Filter, turn uint64) (*listening, outcome) {
	g := &listening{
		w: w, id: l.NextID(nil), asked: asked, turn: turn,
		acked: make(chan struct{}), ended: make(chan struct{}),
	}
	if l.process != nil {
		g.overLine(l.process)
	} else {
		g.overHTTP(l.Upstream)
	}
	t := time.NewTimer(l.Upstream.o.ProbeTimeout)
	defer t.Stop()
	select {
	case <-g.acked:
		return g, outcome{}
	case <-g.ended:
		g.close()
		select {
		case <-g.acked:
			return g, outcome{} // its end is seen next
		default:
			return nil, g.out
		}
	case <-t.C:
		g.close()
		return nil, outcome{how: wayQuiet, err: errNoAck}
	case <-w.ctx.Done():
		g.close()
		return nil, outcome{how: wayOver}
	}
}

// body is the request itself (checklist 107).
func (g *listening) body() []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), g.id...)
	b = append(b, `,"method":"`+mcp.Listen+`","params":{"_meta":{"`+mcp.MetaProtocolVersion+`":"`+mcp.LatestModern.String()+`","`+mcp.MetaClientInfo+`":`...)
	b = append(b, g.w.at.o.ClientInfo...)
	b = append(b, `,"`+mcp.MetaClientCapabilities+`":{`...)
	if len(g.asked.TaskIDs) > 0 {
		b = append(b, `"extensions":{"`+mcp.ExtensionTasks+`":{}}`...)
	}
	b = append(b, `}},"notifications":`...)
	return append(g.asked.Append(b), `}}`...)
}

// finish says that nothing more comes. Only the first reason counts.
func (g *listening) finish(out outcome) {
	g.once.Do(func() {
		g.out = out
		close(g.ended)
	})
}

// overHTTP sends it as a POST whose answer is its stream.
func (g *listening) overHTTP(u *Upstream) {
	ctx, cancel := context.WithCancel(g.w.ctx)
	gone := make(chan struct{})
	g.close = func() {
		cancel()
		<-gone
	}
	go func() {
		defer close(gone)
		g.finish(g.read(ctx, u))
	}()
}

func (g *listening) read(ctx context.Context, u *Upstream) outcome {
	h := head{method: mcp.Listen, version: mcp.LatestModern.String()}
	resp, err := u.knock(ctx, http.MethodPost, g.body(), &h)
	if err != nil {
		return outcome{err: err}
	}
	if !isStream(resp) {
		drain(resp.body)
		return noStream(resp.status)
	}
	f := newFeed(resp.body)
	defer f.close()
	for {
		data, err := f.next()
		if err != nil {
			if errors.Is(err, errEventLarge) {
				g.w.complain("upstream's stream is given up", err)
			}
			return outcome{err: err, opened: g.confirmed, retry: f.events.retry}
		}
		g.w.messages(data, g.heard)
		select {
		case <-g.ended:
			return g.out
		default:
		}
	}
}

// heard takes one message that came for it. A notification that names another
// subscription is not ours (checklist 121).
func (g *listening) heard(s *wire.Answer) {
	switch s.Kind() {
	case wire.Response:
		if id := s.ID.Of(s.Raw); !sameID(id, g.id) && !s.Error.Ok() {
			return
		}
		g.answered(s)
	case wire.Notification:
		id := subscription(s)
		switch {
		case id != nil && !sameID(id, g.id):
		case g.confirmed:
			g.w.notice(s, false)
		case text(s.Method.Of(s.Raw)) == mcp.Acknowledged:
			g.acknowledged(s)
		}
	}
}

// answered is the end of it: a result is the upstream's goodbye (checklist 60),
// an error before anything else says that it cannot notify.
func (g *listening) answered(s *wire.Answer) {
	switch {
	case !s.Error.Ok():
		g.finish(outcome{err: errListenEnded, opened: g.confirmed})
	case g.confirmed:
		g.finish(outcome{err: fmt.Errorf("%w with code %d", errListenEnded, s.ErrorCode), opened: true})
	default:
		g.finish(outcome{how: wayDeaf, err: fmt.Errorf("subscriptions/listen was refused with code %d: %s", s.ErrorCode, text(s.ErrorMessage.Of(s.Raw)))})
	}
}

// acknowledged takes what the upstream confirms, and of it what was asked for. An
// acknowledgement that cannot be read confirms nothing.
func (g *listening) acknowledged(s *wire.Answer) {
	g.confirmed = true
	f, err := mcp.ParseFilter(memberOf(s.Params.Of(s.Raw), "notifications"))
	if err != nil {
		g.w.complain("upstream acknowledges what cannot be read", err)
		f = mcp.Filter{}
	}
	g.honoured = meet(f, g.asked)
	g.w.opened(g.turn, g.honoured)
	close(g.acked)
}

// over tells that the process behind it is gone, or gave no answer that can be
// read.
func (g *listening) over(err error) {
	g.finish(outcome{err: err, opened: g.confirmed})
}

// subscription is the raw id of the listen that a notification is for, or nil.
func subscription(s *wire.Answer) []byte {
	return memberOf(s.ParamsMeta.Of(s.Raw), mcp.MetaSubscriptionID)
}

// sameID compares the raw id of a message with one of ours, which is a string.
func sameID(id, ours []byte) bool {
	if string(id) == string(ours) {
		return true
	}
	return len(id) > 0 && id[0] == '"' && text(id) == text(ours)
}
