package south

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// subscribeAgain is how long a resources/subscribe waits that was not answered.
const subscribeAgain = 5 * time.Second

// subscriptions counts the watches that hold each resource of one legacy session
// or process, so that the upstream is asked once and told when the last is gone
// (checklist 6.4). It is safe for concurrent use.
type subscriptions struct {
	token chan struct{}  // holds a token while one is changed, also across I/O
	by    map[string]int // by URI; owned by the token's holder
}

func newSubscriptions() *subscriptions {
	return &subscriptions{token: make(chan struct{}, 1), by: map[string]int{}}
}

// asker sends one request about a resource, and tells whether the answer is a
// result. An error says that there was no answer.
type asker func(ctx context.Context, method, uri string) (bool, error)

// hold counts one more watch. ok is false when the upstream refuses.
func (s *subscriptions) hold(ctx context.Context, uri string, ask asker) (ok bool, err error) {
	select {
	case s.token <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-s.token }()
	if s.by[uri] == 0 {
		if ok, err = ask(ctx, mcp.Subscribe, uri); err != nil || !ok {
			return false, err
		}
	}
	s.by[uri]++
	return true, nil
}

// release counts one watch less.
func (s *subscriptions) release(ctx context.Context, uri string, ask asker) error {
	select {
	case s.token <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.token }()
	if s.by[uri]--; s.by[uri] > 0 {
		return nil
	}
	delete(s.by, uri)
	_, err := ask(ctx, mcp.Unsubscribe, uri)
	return err
}

// holding is what one watch has subscribed to, and where.
type holding struct {
	l    *Link
	live *wireSession    // nil: a process
	at   *subscriptions  // nil: nowhere yet
	uris map[string]bool // false: the upstream refuses it
}

// holdAt makes a session or process the one that is subscribed at. What was held
// at another one ended with it.
func (w *Watch) holdAt(l *Link, live *wireSession, at *subscriptions) {
	if w.held.at != at {
		w.held = holding{l: l, live: live, at: at, uris: map[string]bool{}}
	}
}

// subscribe brings what is held in line with what is wanted, and returns what of
// it the upstream has taken. whole is false when some was not answered.
func (w *Watch) subscribe(ctx context.Context, want []string, turn uint64) (got []string, whole bool) {
	f := mcp.Filter{URIs: want}
	for uri, ok := range w.held.uris {
		if f.HasURI(uri) {
			continue
		}
		delete(w.held.uris, uri)
		if ok {
			w.releaseOne(ctx, uri)
		}
	}
	whole = true
	for _, uri := range want {
		ok, known := w.held.uris[uri]
		if !known && whole {
			if _, now := w.wanted(); now != turn || ctx.Err() != nil {
				return nil, false
			}
			var err error
			if ok, err = w.held.at.hold(ctx, uri, w.ask); err != nil {
				w.at.o.Log.Debug("resource not subscribed to", "upstream", w.at.o.Key, "error", err)
				ok, whole = false, false
			} else {
				w.held.uris[uri] = ok
			}
		}
		if ok {
			got = append(got, uri)
		}
	}
	return got, whole
}

// letGo releases all that is held, as far as there is time.
func (w *Watch) letGo() {
	if len(w.held.uris) > 0 {
		ctx, cancel := w.goodbye()
		defer cancel()
		for uri, ok := range w.held.uris {
			if ok {
				w.releaseOne(ctx, uri)
			}
		}
	}
	w.held = holding{}
}

func (w *Watch) releaseOne(ctx context.Context, uri string) {
	if err := w.held.at.release(ctx, uri, w.ask); err != nil {
		w.at.o.Log.Debug("resource not unsubscribed from", "upstream", w.at.o.Key, "error", err)
	}
}

// ask is the asker of what is held.
func (w *Watch) ask(ctx context.Context, method, uri string) (bool, error) {
	l := w.held.l
	u := l.Upstream
	id := l.NextID(nil)
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"`+method+`","params":{"uri":`...)
	body, _ = jsontext.AppendQuote(body, uri) // invalid UTF-8 is replaced
	body = append(body, `}}`...)
	ctx, cancel := context.WithTimeout(ctx, u.o.ProbeTimeout)
	defer cancel()
	if l.process != nil {
		s, err := l.process.ask(ctx, id, body)
		return err == nil && s.Result.Ok(), err
	}
	if method == mcp.Unsubscribe {
		return true, w.unsubscribe(ctx, body)
	}
	a, err := l.Send(ctx, &Request{Method: method, ID: id, Body: body, Safe: true})
	if err != nil {
		switch fault.From(err).Code {
		case fault.InvalidAnswer, fault.TooLarge:
			return false, nil // an answer of a kind, and not the one that was hoped for
		}
		return false, err
	}
	defer a.Close()
	return a.Whole != nil && a.Scan.Result.Ok(), nil
}

// unsubscribe tells one wire session. It makes none anew: a session that is
// forgotten has no subscriptions.
func (w *Watch) unsubscribe(ctx context.Context, body []byte) error {
	live := w.held.live
	if w.held.l.session.current() != live {
		return nil
	}
	resp, err := w.held.l.Upstream.guarded(ctx, body, &head{session: live.id, version: live.version()})
	if err != nil {
		return err
	}
	drain(resp.body)
	return nil
}
