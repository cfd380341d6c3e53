package north

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// What ends a standing stream is not said on it: it carries no response, and
// nothing of the kind is repeated later (checklist 95). Listeners too slow for
// their notifications end so.
func TestAStandingStreamThatFailsSaysNothing(t *testing.T) {
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		fails := true
		g := &rooms{stand: func(ctx context.Context, x *Exchange) error {
			if _, err := x.Event([]byte(`{"n":1}`)); err != nil {
				return err
			}
			if fails {
				fails = false
				return fault.New(fault.AtCapacity, "too slow")
			}
			return x.Wait(ctx, nil)
		}}
		f := open(t, g, resuming)
		session := f.initialize(revision)
		p := f.get(session).opened()
		last := ""
		for _, e := range p.ended() {
			if strings.Contains(e.data, `"error"`) {
				t.Errorf("%s: a response on the stream: %+v", revision, e)
			}
			if e.data == `{"n":1}` {
				last = e.id
			}
		}
		if p.err == nil {
			t.Errorf("%s: the stream looks complete", revision)
		}
		if revision == "2025-11-25" {
			if e := f.back(session, last).opened().next(); strings.Contains(e.data, `"error"`) {
				t.Errorf("repeated: %+v", e)
			}
		}
	}
}

// One that panics is cut, too.
func TestAStandingStreamThatPanicsSaysNothing(t *testing.T) {
	f := open(t, &rooms{stand: func(_ context.Context, x *Exchange) error {
		_, _ = x.Event([]byte(`{"n":1}`))
		panic("stand")
	}}, resuming)
	p := f.get(f.initialize("2025-11-25")).opened()
	for _, e := range p.ended() {
		if strings.Contains(e.data, `"error"`) {
			t.Errorf("a response on the stream: %+v", e)
		}
	}
}

// An older stream that ends late does not end what is kept of the newer one.
func TestALateEndOfTheOlderLeavesTheNewer(t *testing.T) {
	release, gone, say := make(chan struct{}), make(chan struct{}), make(chan string)
	first := make(chan bool, 1)
	first <- true
	g := &rooms{stand: func(ctx context.Context, x *Exchange) error {
		select {
		case <-first:
			_, _ = x.Event([]byte(`{"older":1}`))
			<-release
			close(gone)
			return context.Cause(ctx)
		default:
		}
		for {
			select {
			case text := <-say:
				if _, err := x.Event([]byte(text)); err != nil {
					return err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}}
	f := open(t, g, resuming)
	session := f.initialize("2025-11-25")
	older := f.get(session).opened()
	older.next()
	older.next()
	newer := f.get(session).opened()
	newer.next()
	close(release)
	<-gone
	older.ended()
	say <- `{"a":1}`
	before := newer.next()
	say <- `{"b":1}`
	newer.next()
	again := f.back(session, before.id).opened()
	select {
	case e := <-again.events:
		if e.data != `{"b":1}` {
			t.Errorf("%+v", e)
		}
	case <-time.After(3 * time.Second):
		t.Error("what the newer stream said is not kept")
	}
}

// Streams of which nothing is kept are bounded as well as events.
func TestStreamsWithoutEventsAreBounded(t *testing.T) {
	var tk talk
	tk.begin()
	for range 2000 {
		s := tk.newStream("s", ofCall, 10)
		tk.add(s, []byte("1"), false)
		tk.cannotKeep(s) // as for every answer of unknown length
		tk.finish(s)
	}
	if n := len(tk.logs["s"].streams); n > 100 {
		t.Errorf("%d streams are remembered where 10 events are kept", n)
	}
}

// A client that takes nothing but event streams is primed for a long answer, too.
func TestALongAnswerIsPrimed(t *testing.T) { // checklist 93
	g := &rooms{serve: func(_ context.Context, x *Exchange) error {
		w, err := x.Begin()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		return errors.Join(err, x.End())
	}}
	f := open(t, g, resuming)
	h := sessionHeaders(f.initialize("2025-11-25"))
	h["Accept"] = "text/event-stream"
	p := f.tap(http.MethodPost, slow, h)
	if e := p.next(); e.id == "" || e.data != "" {
		t.Errorf("not primed: %+v", e)
	}
}
