package north

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// scripted is a gateway whose tools/call does what the test says, step by step.
type scripted struct {
	*rooms
	steps chan func(context.Context, *Exchange) error // nil: the answer
	did   chan error
}

func script() *scripted {
	s := &scripted{steps: make(chan func(context.Context, *Exchange) error), did: make(chan error, 100)}
	s.rooms = &rooms{serve: func(ctx context.Context, x *Exchange) error {
		if x.Msg.Method != "tools/call" {
			return x.Result([]byte(`{}`))
		}
		for {
			select {
			case step := <-s.steps:
				if step == nil {
					return x.Result([]byte(`{"done":true}`))
				}
				err := step(ctx, x)
				s.did <- err
				if errors.Is(err, errScriptEnd) {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}}
	return s
}

var errScriptEnd = errors.New("the script ends so")

func (s *scripted) do(t *testing.T, step func(context.Context, *Exchange) error) {
	t.Helper()
	s.steps <- step
	if err := <-s.did; err != nil {
		t.Fatal(err)
	}
}

func (s *scripted) say(t *testing.T, text string) {
	t.Helper()
	s.do(t, func(_ context.Context, x *Exchange) error {
		if sent, err := x.Event([]byte(text)); err != nil || !sent {
			return fmt.Errorf("sent %v: %w", sent, err)
		}
		return nil
	})
}

// begin starts a call in the background; its headers come with its first event.
func (f *front) begin(body string, header map[string]string) (answer func() *tap) {
	c := make(chan *tap, 1)
	go func() { c <- f.tap(http.MethodPost, body, header) }()
	return func() *tap { return <-c }
}

// call starts a call that says something.
func (s *scripted) call(t *testing.T, f *front, session, body, text string) *tap {
	t.Helper()
	answer := f.begin(body, sessionHeaders(session))
	s.say(t, text)
	return answer()
}

const done = `{"jsonrpc":"2.0","id":1,"result":{"done":true}}`

func resuming(o *Options) { o.ResumeEvents = 1000 }

// back is a GET that says what the client has.
func (f *front) back(session, last string) *tap {
	f.t.Helper()
	return f.get(session, "Last-Event-ID", last)
}

func TestEventStreamsAreThoseOfTheRevision(t *testing.T) { // checklist 93, T26
	for _, c := range []struct {
		revision string
		keep     int
		primed   bool
	}{{"2025-11-25", 10, true}, {"2025-11-25", 0, false}, {"2025-06-18", 10, false}, {"2025-03-26", 10, false}} {
		s := script()
		f := open(t, s.rooms, func(o *Options) { o.ResumeEvents = c.keep })
		session := f.initialize(c.revision)
		call := s.call(t, f, session, slow, `{"n":1}`)
		s.steps <- nil
		events := call.ended()
		if !c.primed {
			if fmt.Sprint(events) != fmt.Sprint([]sse{{data: `{"n":1}`}, {data: done}}) {
				t.Errorf("%+v: %+v", c, events)
			}
			continue
		}
		if len(events) != 3 || events[0].data != "" || events[0].retry != "1000" || events[1].data != `{"n":1}` || events[2].data != done {
			t.Fatalf("%+v: %+v", c, events)
		}
		ids := map[string]bool{}
		for _, e := range events {
			ids[e.id] = true
		}
		if len(ids) != 3 || ids[""] {
			t.Errorf("ids %v", ids)
		}
		// A plain answer is none of this.
		if g := f.legacy(session, ping); g.header.Get("Content-Type") != "application/json" {
			t.Errorf("%v", g.header)
		}
	}
	// Nor is a modern client's stream.
	f := open(t, listener(make(chan error, 1)), resuming)
	if e := f.listen().next(); e.id != "" || e.data != `{"hello":1}` {
		t.Errorf("%+v", e)
	}
}

func TestACallGoesOnWithoutItsClientAndIsReadAgain(t *testing.T) { // checklist 93, 134
	s := script()
	f := open(t, s.rooms, resuming)
	session := f.initialize("2025-11-25")
	call := s.call(t, f, session, slow, `{"n":1}`)
	call.next()
	first := call.next()
	call.hangUp()
	for n := range 50 { // into a connection that breaks on the way
		s.say(t, fmt.Sprintf(`{"n":%d}`, n+2))
	}
	got := f.back(session, first.id).opened()
	for n := range 50 {
		if e := got.next(); e.data != fmt.Sprintf(`{"n":%d}`, n+2) || !strings.HasPrefix(e.id, first.id[:10]) {
			t.Fatalf("%d: %+v", n, e)
		}
	}
	s.say(t, `{"live":1}`)
	if e := got.next(); e.data != `{"live":1}` {
		t.Errorf("%+v", e)
	}
	s.steps <- nil
	if rest := got.ended(); len(rest) != 1 || rest[0].data != done || got.err != nil {
		t.Errorf("%+v %v", rest, got.err)
	}
	// And all of it once more, for a connection that broke right before the end.
	if rest := f.back(session, first.id).ended(); len(rest) != 52 || rest[51].data != done {
		t.Errorf("%+v", rest)
	}
	if f.h.ongoing.Streams() != 0 {
		eventually(t, "no stream", func() bool { return f.h.ongoing.Streams() == 0 })
	}
}

// What the official suite's server-sse-polling wants to see, over both versions of HTTP.
func TestACallCanBeSuspended(t *testing.T) { // checklist 93, 134
	for _, start := range []func(*testing.T, *rooms, ...func(*Options)) *front{open, open2} {
		for _, said := range []int{0, 1} {
			s := script()
			f := start(t, s.rooms, resuming)
			session := f.initialize("2025-11-25")
			header := sessionHeaders(session)
			answer := f.begin(slow, header)
			for range said {
				s.say(t, `{"n":1}`)
			}
			s.do(t, func(_ context.Context, x *Exchange) error { return x.Suspend(250 * time.Millisecond) })
			events := answer().ended()
			if len(events) != 1+2*said || events[0].id == "" || events[0].data != "" || events[len(events)-1].retry != "250" {
				t.Fatalf("%+v", events)
			}
			if n := f.h.Serving(); n != 1 {
				t.Errorf("%d requests are being served", n)
			}
			s.say(t, `{"away":1}`)
			back := f.back(session, events[0].id).opened()
			for range said {
				back.next()
			}
			if e := back.next(); e.data != `{"away":1}` {
				t.Errorf("%+v", e)
			}
			s.do(t, func(_ context.Context, x *Exchange) error { return x.Suspend(time.Second) }) // there is nothing to close
			s.steps <- nil
			if rest := back.ended(); len(rest) != 1 || rest[0].data != done {
				t.Errorf("%+v", rest)
			}
			eventually(t, "nothing in flight", func() bool { return f.h.Serving() == 0 && f.caller.tally().inFlight.Load() == 0 })
		}
	}
}

func TestSuspendLeavesOtherClientsAlone(t *testing.T) {
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		s := script()
		f := open(t, s.rooms, resuming)
		header := sessionHeaders(f.initialize(revision))
		if revision == "2025-11-25" {
			header["Accept"] = "application/json"
		}
		answer := f.begin(slow, header)
		s.do(t, func(_ context.Context, x *Exchange) error { return x.Suspend(time.Second) })
		s.steps <- nil
		if p := answer(); p.resp.StatusCode != 200 || p.resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: HTTP %d %v", revision, p.resp.StatusCode, p.resp.Header)
		}
	}
}

func TestNobodyElsesStreamIsReadAgain(t *testing.T) { // checklist 94
	s := script()
	f := open(t, s.rooms, resuming)
	mine, other := f.initialize("2025-11-25"), f.initialize("2025-11-25")
	call := s.call(t, f, mine, slow, `{"secret":1}`)
	primed := call.next()
	quiet := f.begin(strings.Replace(slow, `"id":1`, `"id":2`, 1), sessionHeaders(mine))
	eventually(t, "both calls", func() bool { return strings.Count(strings.Join(f.reached(), " "), "tools/call") == 2 })
	// Each step is taken by either call.
	for n := range 40 {
		s.say(t, fmt.Sprintf(`{"n":%d}`, n))
	}
	s.steps <- nil
	s.steps <- nil
	first, second := call.ended(), quiet().ended()
	if len(first)+len(second) != 1+40+1+2 || len(second) < 3 {
		t.Fatalf("%d and %d events", len(first), len(second))
	}
	if back := f.back(mine, primed.id).ended(); fmt.Sprint(back) != fmt.Sprint(first) {
		t.Errorf("%+v, want %+v", back, first)
	}
	for id, session := range map[string]string{primed.id: other, "p-1": mine, "pX-0": mine, "banana": mine, primed.id + "999": mine} {
		g := f.send(http.MethodGet, "/mcp", "", map[string]string{"Accept": "text/event-stream", "Mcp-Session-Id": session, "Last-Event-ID": id})
		if g.status != http.StatusBadRequest || g.code(t) != -32600 || strings.Contains(g.body, "secret") {
			t.Errorf("%s: HTTP %d %s", id, g.status, g.body)
		}
	}
}

func TestTheNewestConnectionReadsACall(t *testing.T) { // checklist 94: a message is on one stream
	s := script()
	f := open(t, s.rooms, resuming)
	session := f.initialize("2025-11-25")
	call := s.call(t, f, session, slow, `{"n":1}`)
	call.next()
	last := call.next().id
	first := f.back(session, last).opened()
	second := f.back(session, last).opened()
	if rest := first.ended(); len(rest) != 0 {
		t.Errorf("%+v", rest)
	}
	s.say(t, `{"n":2}`)
	if e := second.next(); e.data != `{"n":2}` {
		t.Errorf("%+v", e)
	}
	if rest := call.ended(); len(rest) != 0 { // the client had not closed it
		t.Errorf("%+v", rest)
	}
	s.steps <- nil
	if rest := second.ended(); len(rest) != 1 {
		t.Errorf("%+v", rest)
	}
}

func TestFailuresAndCancelsEndAStreamThatIsReadAgain(t *testing.T) {
	s := script()
	f := open(t, s.rooms, resuming)
	session := f.initialize("2025-11-25")
	begin := func() (*tap, string) {
		call := s.call(t, f, session, slow, `{"n":1}`)
		return call, call.next().id
	}
	call, id := begin()
	s.steps <- func(context.Context, *Exchange) error { return errScriptEnd }
	<-s.did
	if rest := call.ended(); len(rest) != 2 || !strings.Contains(rest[1].data, `"code":-32603`) || call.err != nil {
		t.Errorf("%+v %v", rest, call.err)
	}
	if rest := f.back(session, id).ended(); len(rest) != 2 || !strings.Contains(rest[1].data, `"code":-32603`) {
		t.Errorf("%+v", rest)
	}
	call, _ = begin()
	s.steps <- func(context.Context, *Exchange) error { panic("boom") }
	if rest := call.ended(); len(rest) != 2 || !strings.Contains(rest[1].data, `"code":-32603`) {
		t.Errorf("%+v", rest)
	}
	call, id = begin()
	call.hangUp()
	back := f.back(session, id).opened()
	f.legacy(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if rest := back.ended(); len(rest) != 1 || rest[0].data != `{"n":1}` || back.err != nil {
		t.Errorf("a cancelled call: %+v %v", rest, back.err)
	}
	call, id = begin()
	call.hangUp()
	back = f.back(session, id).opened()
	f.send(http.MethodDelete, "/mcp", "", map[string]string{"Mcp-Session-Id": session})
	back.ended()
	f.h.ongoing.talkOf(session).mu.Lock()
	defer f.h.ongoing.talkOf(session).mu.Unlock()
	if f.h.ongoing.talkOf(session).logs[session] != nil {
		t.Error("something is kept of a session that is over")
	}
}

// Shutdown ends standing streams first, and not what still has an answer to come.
func TestEndLeavesACallThatIsReadAgain(t *testing.T) {
	s := script()
	f := open(t, s.rooms, resuming)
	session := f.initialize("2025-11-25")
	call := s.call(t, f, session, slow, `{"n":1}`)
	id := call.next().id
	call.hangUp()
	back := f.back(session, id).opened()
	back.next()
	f.h.ongoing.End()
	select {
	case e, ok := <-back.events:
		t.Errorf("open %v: %+v", ok, e)
	case <-time.After(100 * time.Millisecond): // nothing is what is to happen
	}
	s.steps <- nil
	if rest := back.ended(); len(rest) != 1 || rest[0].data != done {
		t.Errorf("%+v", rest)
	}
}

func TestAQuestionWaitsForAClientThatIsAway(t *testing.T) {
	g := asker()
	ask := g.serve
	suspended := make(chan error, 1)
	g.serve = func(ctx context.Context, x *Exchange) error {
		if x.Msg.Method == "tools/call" {
			suspended <- x.Suspend(time.Second)
		}
		return ask(ctx, x)
	}
	f := open(t, g, resuming)
	session := f.initialize("2025-11-25")
	events := f.tap(http.MethodPost, slow, sessionHeaders(session)).ended()
	if err := <-suspended; err != nil || len(events) != 1 {
		t.Fatalf("%+v %v", events, err)
	}
	f.reloaded()
	back := f.back(session, events[0].id).opened()
	id := questionID(t, back.next().data)
	f.legacy(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"n":"mine"}}`, id))
	if rest := back.ended(); len(rest) != 1 || !strings.Contains(rest[0].data, `"mine"`) {
		t.Errorf("%+v", rest)
	}
}

func TestLargeAnswersToAClientThatIsAway(t *testing.T) {
	for _, size := range []int{100 << 10, maxKeptBytes} {
		s := script()
		f := open(t, s.rooms, resuming)
		session := f.initialize("2025-11-25")
		answer := f.begin(slow, sessionHeaders(session))
		s.do(t, func(_ context.Context, x *Exchange) error { return x.Suspend(time.Second) })
		events := answer().ended()
		s.steps <- func(_ context.Context, x *Exchange) error {
			w, err := x.Begin()
			for n := 0; n < size && err == nil; n += 1024 {
				_, err = w.Write([]byte(strings.Repeat("a", 1024)))
			}
			if err != nil {
				return fmt.Errorf("%w: %w", errScriptEnd, err)
			}
			return x.End()
		}
		if err := <-s.did; err == nil {
			go func() {
				s.steps <- func(context.Context, *Exchange) error { return errScriptEnd }
			}()
		}
		e := f.back(session, events[0].id).next()
		if small := size < maxKeptBytes; small != (len(e.data) == size) || small == strings.Contains(e.data, `"code":-31008`) {
			t.Errorf("%d bytes: %.200s", size, e.data)
		}
	}
}
