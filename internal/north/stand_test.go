package north

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/internal/store/memory"
)

// get opens the standing stream of a session.
func (f *front) get(session string, more ...string) *tap {
	f.t.Helper()
	h := map[string]string{"Accept": "text/event-stream"}
	if session != "" {
		h["Mcp-Session-Id"] = session
	}
	for i := 0; i+1 < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return f.tap(http.MethodGet, "", h)
}

// told is how a standing stream ended.
type told struct {
	session string
	why     error
}

func stander(ended chan<- told) *rooms {
	return &rooms{stand: func(ctx context.Context, x *Exchange) error {
		if x.Msg.Raw != nil || x.Method != nil || x.Session == nil {
			return errors.New("not a standing stream")
		}
		if _, err := x.Event([]byte(`{"of":"` + x.Session.ID + `"}`)); err != nil {
			return err
		}
		err := x.Wait(ctx, nil)
		ended <- told{x.Session.ID, err}
		return err
	}}
}

func (p *tap) opened() *tap {
	p.t.Helper()
	if p.resp.StatusCode != http.StatusOK || p.resp.Header.Get("Content-Type") != "text/event-stream" {
		p.t.Fatalf("HTTP %d %v", p.resp.StatusCode, p.resp.Header)
	}
	return p
}

func TestGetOpensTheStreamOfASession(t *testing.T) { // checklist 82
	f := open(t, stander(make(chan told, 10)), func(o *Options) { o.InFlight = 1 })
	session := f.initialize("2025-06-18")
	p := f.get(session).opened()
	if e := p.next(); e.data != `{"of":"`+session+`"}` || e.id != "" {
		t.Errorf("%+v", e)
	}
	if f.h.Serving() != 0 || f.h.ongoing.Streams() != 1 {
		t.Errorf("%d served, %d streams", f.h.Serving(), f.h.ongoing.Streams())
	}
	if g := f.legacy(session, ping); g.status != 200 {
		t.Errorf("beside it: HTTP %d", g.status)
	}
	for _, c := range []struct {
		session, accept, version string
		status                   int
	}{
		{session, "application/json", "", http.StatusNotAcceptable},
		{"", "text/event-stream", "", http.StatusBadRequest},
		{"never", "text/event-stream", "", http.StatusNotFound},
		{session, "text/event-stream", "2030-01-01", http.StatusBadRequest},
		{"", "text/event-stream", "2026-07-28", http.StatusMethodNotAllowed},
	} {
		more := []string{"Accept", c.accept}
		if c.version != "" {
			more = append(more, "Mcp-Protocol-Version", c.version)
		}
		r := f.get(c.session, more...)
		body, _ := io.ReadAll(r.resp.Body)
		if r.resp.StatusCode != c.status {
			t.Errorf("%+v: HTTP %d %s", c, r.resp.StatusCode, body)
		}
	}
	g := f.send("OPTIONS", "/mcp", "", map[string]string{"Origin": "http://localhost:1"})
	if allow := g.header.Get("Allow"); allow != "GET, POST, DELETE, OPTIONS" || g.header.Get("Access-Control-Allow-Methods") != allow {
		t.Errorf("%v", g.header)
	}
	p.hangUp()
	eventually(t, "no stream", func() bool { return f.h.ongoing.Streams() == 0 })
}

// The headers are there before there is anything to say.
func TestAStandingStreamIsOpenAtOnce(t *testing.T) {
	f := open(t, &rooms{})
	f.get(f.initialize("2025-06-18")).opened()
}

func TestStandingStreamsAreBounded(t *testing.T) {
	f := open(t, &rooms{}, func(o *Options) { o.Streams = 1 })
	f.get(f.initialize("2025-06-18")).opened()
	if p := f.get(f.initialize("2025-06-18")); p.resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("HTTP %d", p.resp.StatusCode)
	}
}

func TestTheNewerStreamOfASessionClosesTheOlder(t *testing.T) { // T27
	ended := make(chan told, 10)
	f := open(t, stander(ended))
	session, other := f.initialize("2025-06-18"), f.initialize("2025-06-18")
	bystander := f.get(other)
	bystander.next()
	older := f.get(session)
	older.next()
	begun := time.Now()
	newer := f.get(session)
	newer.next()
	if rest := older.ended(); len(rest) != 0 || older.err != nil {
		t.Errorf("the older ends with %v, %v", rest, older.err)
	}
	if took := time.Since(begun); took > 900*time.Millisecond {
		t.Errorf("it closed after %v", took)
	}
	if e := <-ended; e.session != session || !errors.Is(e.why, errNewerStream) {
		t.Errorf("%+v", e)
	}
	f.reloaded()
	newest := f.get(session)
	newest.next()
	newer.ended()
	select {
	case <-bystander.events:
		t.Error("the stream of another session ended, too")
	default:
	}
}

// Two instances share sessions and claims.
func TestTheNewerStreamWinsAcrossInstances(t *testing.T) { // checklist 7, DESIGN section 7
	st, err := engine.Open(t.Context(), engine.Options{URL: "memory:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	instance := func(name string) *front {
		ended := make(chan told, 10)
		f := build(t, stander(ended), func(o *Options) { o.Claims, o.Instance = st.Claims(), name })
		f.h = New(f.options, f.rooms, st.Sessions())
		f.serveHandler()
		return f
	}
	a, b := instance("a"), instance("b")
	session := a.initialize("2025-06-18")
	older := a.get(session)
	older.next()
	if err := a.h.CheckClaims(t.Context()); err != nil {
		t.Fatal(err)
	}
	newer := b.get(session)
	newer.next()
	if c, err := st.Claims().Get(t.Context(), session); err != nil || c.Owner != "b" {
		t.Errorf("%+v %v", c, err)
	}
	for _, h := range []*Handler{a.h, b.h} {
		if err := h.CheckClaims(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	older.ended()
	back := a.get(session)
	back.next()
	if err := b.h.CheckClaims(t.Context()); err != nil {
		t.Fatal(err)
	}
	newer.ended()
	back.hangUp()
	eventually(t, "the claim is released", func() bool {
		c, err := st.Claims().Get(t.Context(), session)
		return err == nil && c.Owner == ""
	})
	// Its session ends elsewhere.
	last := a.get(session)
	last.next()
	b.send(http.MethodDelete, "/mcp", "", map[string]string{"Mcp-Session-Id": session})
	if err := a.h.CheckClaims(t.Context()); err != nil {
		t.Fatal(err)
	}
	last.ended()
}

// failingClaims are out of order.
type failingClaims struct{ store.Claims }

func (failingClaims) Take(context.Context, string, string) (store.Claim, error) {
	return store.Claim{}, fmt.Errorf("dial: %w", store.ErrUnavailable)
}

func TestAStreamThatCannotBeClaimedIsRefused(t *testing.T) {
	f := open(t, &rooms{}, func(o *Options) { o.Claims = failingClaims{} })
	p := f.get(f.initialize("2025-06-18"))
	body, _ := io.ReadAll(p.resp.Body)
	if p.resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(string(body), "dial") {
		t.Errorf("HTTP %d %s", p.resp.StatusCode, body)
	}
}

func TestTheEndOfASessionEndsItsStream(t *testing.T) {
	ended := make(chan told, 10)
	now := time.Unix(1000, 0)
	g := stander(ended)
	f := build(t, g)
	g.caller = &Principal{Key: [32]byte{1}}
	f.h = New(f.options, g, memory.NewSessions(10, 2, time.Hour, func() time.Time { return now }))
	f.serveHandler()
	deleted, idle := f.initialize("2025-06-18"), f.initialize("2025-06-18")
	a, b := f.get(deleted), f.get(idle)
	a.next()
	b.next()
	f.send(http.MethodDelete, "/mcp", "", map[string]string{"Mcp-Session-Id": deleted})
	a.ended()
	if e := <-ended; e.session != deleted || !errors.Is(e.why, errSessionOver) {
		t.Errorf("%+v", e)
	}
	now = now.Add(2 * time.Hour)
	if err := f.h.Sweep(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	b.ended()
	if e := <-ended; e.session != idle || !errors.Is(e.why, errSessionOver) {
		t.Errorf("%+v", e)
	}
	// And eviction: the least recently used gives way.
	first := f.initialize("2025-06-18")
	c := f.get(first)
	c.next()
	now = now.Add(time.Minute)
	f.initialize("2025-06-18")
	f.initialize("2025-06-18")
	c.ended()
}

func TestEndClosesStandingStreams(t *testing.T) {
	ended := make(chan told, 10)
	f := open(t, stander(ended))
	p := f.get(f.initialize("2025-06-18"))
	p.next()
	f.h.ongoing.End()
	if rest := p.ended(); len(rest) != 0 || p.err != nil {
		t.Errorf("%v %v", rest, p.err)
	}
	if e := <-ended; !errors.Is(e.why, ErrStreamsEnd) {
		t.Error(e.why)
	}
}

func TestAnOpenStreamKeepsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := memory.NewSessions(10, 2, time.Hour, time.Now)
		f := build(t, &rooms{})
		f.h = New(f.options, f.rooms, sessions)
		if _, err := sessions.Create(t.Context(), &store.Session{ID: "s"}); err != nil {
			t.Fatal(err)
		}
		ctx, over := context.WithCancelCause(t.Context())
		u := f.h.inUse("s", over)
		for range 20 {
			time.Sleep(20 * time.Minute)
			if gone, err := sessions.Expire(t.Context(), time.Now().Add(-time.Hour)); len(gone) != 0 || err != nil {
				t.Fatalf("%v %v", gone, err)
			}
		}
		u.stop()
		time.Sleep(2 * time.Hour)
		if gone, _ := sessions.Expire(t.Context(), time.Now().Add(-time.Hour)); len(gone) != 1 {
			t.Error("the session is used without a stream")
		}
		defer f.h.inUse("s", over).stop()
		time.Sleep(20 * time.Minute)
		if !errors.Is(context.Cause(ctx), errSessionOver) {
			t.Errorf("the stream of a session that is gone: %v", context.Cause(ctx))
		}
	})
}

func TestAStandingStreamOverStdio(t *testing.T) {
	ended := make(chan told, 10)
	f := build(t, stander(ended))
	c := connect(t, f, 5*time.Second)
	const ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	c.send(ready) // before the handshake it says nothing
	c.ask(hello)
	c.send(ready)
	if got := c.next(); !strings.HasPrefix(got, `{"of":"`) {
		t.Error(got)
	}
	c.send(ready) // once is enough
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); m.ID != 1.0 {
		t.Errorf("%+v", m)
	}
	begun := time.Now()
	_ = c.in.Close()
	if e := <-ended; !errors.Is(e.why, ErrStreamsEnd) {
		t.Error(e.why)
	}
	if err := <-c.done; err != nil || time.Since(begun) > 3*time.Second {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	if len(ended) != 0 {
		t.Error("there were two streams")
	}
}

func TestEndClosesTheStandingStreamOverStdio(t *testing.T) {
	ended := make(chan told, 10)
	f := build(t, stander(ended))
	c := connect(t, f, time.Second)
	c.ask(hello)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.next()
	f.h.ongoing.End()
	if e := <-ended; !errors.Is(e.why, ErrStreamsEnd) {
		t.Error(e.why)
	}
}

// A newer stream does not wait for an older one that cannot be written to.
func TestTheNewerStreamDoesNotWaitLong(t *testing.T) {
	release := make(chan struct{})
	first := true
	g := &rooms{stand: func(ctx context.Context, x *Exchange) error {
		if first {
			first = false
			_, _ = x.Event([]byte(`{}`))
			<-release
			return nil
		}
		_, err := x.Event([]byte(`{"newer":1}`))
		return err
	}}
	f := open(t, g)
	defer close(release)
	session := f.initialize("2025-06-18")
	f.get(session).next()
	begun := time.Now()
	f.get(session).next()
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it waited %v", took)
	}
}
