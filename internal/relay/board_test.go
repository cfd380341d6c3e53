package relay

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

var (
	all   = mcp.Filter{Tools: true, Prompts: true, Resources: true}
	tools = mcp.Filter{Tools: true}
)

func TestAChangeReachesEverybodyWhoAskedForItOnce(t *testing.T) {
	at(t, []string{"a", "b"}, func(t *testing.T, b *Board, h *house) {
		one := b.Listen(View{Server: "s"}, all, nil)
		two := b.Listen(View{Server: "s", Principal: [32]byte{2}}, tools, nil)
		prompts := b.Listen(View{Server: "s"}, mcp.Filter{Prompts: true}, nil)
		other := b.Listen(View{Server: "elsewhere"}, all, nil)
		for _, l := range []*Listener{one, two, prompts, other} {
			expect(t, l, "before anything changed")
		}
		h.set(func() { h.lists["s tools"] = "changed" })
		for range 100 {
			h.watch("a").hub.Changed(mcp.Tools)
		}
		expect(t, one, "a burst of list_changed", "tools")
		expect(t, two, "another principal", "tools")
		expect(t, prompts, "who asked for prompts alone")
		expect(t, other, "another server")
		expect(t, one, "afterwards")
		if len(h.stale) < 100 || h.stale[0] != "a tools" {
			t.Errorf("invalidated: %d", len(h.stale))
		}
	})
}

// What an upstream itself says is passed on, also where its list is the same;
// what only concerns tools that this view hides is not.
func TestOnlyWhatAViewShowsChangesForIt(t *testing.T) {
	at(t, []string{"a"}, func(t *testing.T, b *Board, h *house) {
		l := b.Listen(View{Server: "s"}, tools, nil)
		expect(t, l, "before")
		h.watch("a").hub.Changed(mcp.Tools)
		expect(t, l, "list_changed of a list that is the same", "tools")
		h.set(func() { h.hidden["s tools"] = "hidden" })
		h.watch("a").hub.Changed(mcp.Tools)
		expect(t, l, "a change of what is hidden")
		b.Recheck("a")
		expect(t, l, "a look without a change")
		h.set(func() { h.lists["s tools"] = "late" })
		b.Recheck("a")
		expect(t, l, "an upstream that came late", "tools")
		h.set(func() { h.down = true })
		b.Recheck("a")
		expect(t, l, "an upstream that is away")
		h.set(func() { h.down = false })
		b.Recheck("a")
		expect(t, l, "and back")
	})
}

func TestOneSubscriptionPerUpstream(t *testing.T) {
	at(t, []string{"a", "b"}, func(t *testing.T, b *Board, h *house) {
		var ls []*Listener
		for i := range 1000 {
			ls = append(ls, b.Listen(View{Server: "s"}, tools, []Resource{{Upstream: "a", URI: fmt.Sprintf("u%d", i%3), Exposed: "x"}}))
		}
		synctest.Wait()
		if h.opened != 2 || b.Upstreams() != 2 {
			t.Errorf("%d watches opened, %d upstreams heard", h.opened, b.Upstreams())
		}
		if f := h.watch("a").last(); !f.Tools || f.Prompts || !slices.Equal(f.URIs, []string{"u0", "u1", "u2"}) {
			t.Errorf("a is asked for %s", f.Append(nil))
		}
		if n := len(h.watch("a").wants); n != 3 {
			t.Errorf("1000 listeners asked %d times", n)
		}
		for _, l := range ls {
			l.Close()
			l.Close()
		}
		if f := h.watch("a").last(); f.Empty() {
			t.Error("it is let go of at once")
		}
		time.Sleep(linger + time.Second)
		if f := h.watch("a").last(); !f.Empty() || b.Upstreams() != 0 {
			t.Errorf("nobody listens, and a is asked for %s", f.Append(nil))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.groups) != 0 || len(b.hubs["a"].uris) != 0 || b.hubs["a"].lists != [mcp.NumKinds]int{} {
			t.Errorf("left: %d groups, %+v", len(b.groups), b.hubs["a"])
		}
	})
}

func TestUpdatesGoToWhoSubscribedAndToNobodyElse(t *testing.T) {
	at(t, []string{"a", "b"}, func(t *testing.T, b *Board, h *house) {
		file := b.Listen(View{Server: "s"}, mcp.Filter{}, []Resource{{"a", "file:///d/f", "A"}})
		folder := b.Listen(View{Server: "s"}, mcp.Filter{}, []Resource{{"a", "file:///d", "D"}, {"a", "file:///d/f", "A"}})
		foreign := b.Listen(View{Server: "s"}, mcp.Filter{}, []Resource{{"b", "file:///d/f", "B"}})
		hub := h.watch("a").hub
		hub.Updated("file:///d/f", []byte(`1`))
		expect(t, file, "an update", "A 1")
		expect(t, folder, "one subscribed to it and to its folder", "A 1")
		expect(t, foreign, "the same URI of another upstream")
		hub.Updated("file:///d/g", []byte(`2`))
		expect(t, file, "an update of a neighbour")
		expect(t, folder, "an update below a folder", "a:file:///d/g 2")
		hub.Updated("file:///dd", []byte(`3`))
		expect(t, folder, "an update of what only begins alike")
		for i := range 3 {
			hub.Updated("file:///d/f", fmt.Append(nil, i))
		}
		expect(t, file, "updates in a burst", "A 2")
		if !file.Remove("A") || file.Remove("A") {
			t.Error("a subscription is not removed exactly once")
		}
		hub.Updated("file:///d/f", []byte(`4`))
		expect(t, file, "after unsubscribing")
		expect(t, folder, "who is still subscribed", "A 4")
	})
}

// What a call's stream says is that caller's, and listeners may be anybody.
func TestWhatStraysFromACallTellsNothingButTheChange(t *testing.T) {
	at(t, []string{"a", "b"}, func(t *testing.T, b *Board, h *house) {
		b.Strayed("a", "file:///d/f") // nobody listens
		file := b.Listen(View{Server: "s"}, mcp.Filter{}, []Resource{{"a", "file:///d/f", "A"}})
		folder := b.Listen(View{Server: "s", Principal: [32]byte{1}}, mcp.Filter{}, []Resource{{"a", "file:///d", "D"}, {"a", "file:///x", "X"}})
		foreign := b.Listen(View{Server: "s"}, mcp.Filter{}, []Resource{{"b", "file:///d/f", "B"}})
		b.Strayed("a", "file:///d/f")
		expect(t, file, "a change during a call", "A ")
		expect(t, folder, "a change below a folder", "D ")
		expect(t, foreign, "the same URI of another upstream")
	})
}

func TestWhoDoesNotKeepUpIsToldSoAlone(t *testing.T) {
	at(t, []string{"a"}, func(t *testing.T, b *Board, h *house) {
		slow := b.Listen(View{Server: "s"}, mcp.Filter{}, []Resource{{"a", "d", "D"}})
		quick := b.Listen(View{Server: "s"}, mcp.Filter{}, []Resource{{"a", "d", "D"}})
		for i := range 5 { // the board holds 4
			h.watch("a").hub.Updated(fmt.Sprintf("d/%d", i), nil)
			if _, updates, end := quick.Take(); len(updates) != 1 || end != nil {
				t.Errorf("who takes in time gets %d, %v", len(updates), end)
			}
		}
		expect(t, slow, "one too many", "a:d/0 ", "a:d/1 ", "a:d/2 ", "a:d/3 ", ErrSlow.Error())
	})
}

func TestAfterALostStreamEverythingIsLookedAt(t *testing.T) {
	at(t, []string{"a"}, func(t *testing.T, b *Board, h *house) {
		l := b.Listen(View{Server: "s"}, tools, []Resource{{"a", "u", "U"}})
		expect(t, l, "before")
		h.watch("a").hub.Reopened()
		expect(t, l, "nothing changed meanwhile", "U ")
		h.set(func() { h.lists["s tools"] = "other" })
		h.watch("a").hub.Reopened()
		expect(t, l, "the list changed meanwhile", "tools", "U ")
	})
}

// The upstream was away when it was asked; what changed until it confirmed was
// never heard of.
func TestWhatIsConfirmedLateIsLookedAt(t *testing.T) {
	at(t, []string{"a"}, func(t *testing.T, b *Board, h *house) {
		first := b.Listen(View{Server: "s"}, mcp.Filter{Prompts: true}, nil)
		synctest.Wait()
		h.watch("a").honours = false
		l := b.Listen(View{Server: "s"}, tools, []Resource{{"a", "u", "U"}})
		expect(t, l, "while it is away")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := l.Confirmed(ctx); len(got) != 0 {
			t.Errorf("confirmed: %v", got)
		}
		h.set(func() { h.lists["s tools"] = "other" })
		f := h.watch("a").last()
		h.watch("a").hub.Honoured(f, f)
		expect(t, l, "after it confirmed", "tools", "U ")
		expect(t, first, "who asked for something else")
		if got := l.Confirmed(t.Context()); len(got) != 1 {
			t.Errorf("confirmed: %v", got)
		}
	})
}

func TestConfirmedWaitsForTheUpstreamAndNotForEver(t *testing.T) {
	at(t, []string{"a", "b"}, func(t *testing.T, b *Board, h *house) {
		b.Listen(View{Server: "s"}, mcp.Filter{Prompts: true}, nil)
		w := h.watch("a")
		synctest.Wait()
		w.silent = true
		l := b.Listen(View{Server: "s"}, mcp.Filter{}, []Resource{{"a", "u", "U"}})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if got := l.Confirmed(ctx); len(got) != 0 || time.Since(start) != 3*time.Second {
			t.Errorf("a silent upstream: %v after %v", got, time.Since(start))
		}
		go func() {
			time.Sleep(time.Second)
			f := w.last()
			w.hub.Honoured(f, f)
		}()
		start = time.Now()
		if got := l.Confirmed(t.Context()); len(got) != 1 || time.Since(start) != time.Second {
			t.Errorf("a slow upstream: %v after %v", got, time.Since(start))
		}
		// Of one resource another upstream's silence is of no matter.
		other := b.Listen(View{Server: "s"}, tools, []Resource{{"b", "v", "V"}})
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if !other.Honours(ctx, Resource{"b", "v", "V"}) || time.Since(start) != 0 {
			t.Errorf("after %v", time.Since(start))
		}
		if other.Honours(ctx, Resource{"b", "w", "W"}) {
			t.Error("what nobody subscribed to is honoured")
		}
	})
}

// An upstream that was let go of has to confirm anew.
func TestWhatWasLetGoOfIsConfirmedAnew(t *testing.T) {
	at(t, []string{"a"}, func(t *testing.T, b *Board, h *house) {
		r := []Resource{{"a", "u", "U"}}
		l := b.Listen(View{Server: "s"}, tools, r)
		if len(l.Confirmed(t.Context())) != 1 {
			t.Fatal("not confirmed")
		}
		synctest.Wait()
		w := h.watch("a")
		w.mu.Lock()
		w.silent = true // it does not even say that it has let go
		w.mu.Unlock()
		l.Close()
		time.Sleep(linger + time.Second)
		l = b.Listen(View{Server: "s"}, tools, r)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if got := l.Confirmed(ctx); len(got) != 0 || time.Since(start) != time.Second {
			t.Errorf("confirmed %v after %v by an upstream that is silent", got, time.Since(start))
		}
	})
}

func TestListenersOutliveTheDocument(t *testing.T) {
	at(t, []string{"a", "gone"}, func(t *testing.T, b *Board, h *house) {
		l := b.Listen(View{Server: "s"}, tools, nil)
		lost := b.Listen(View{Server: "t"}, tools, nil)
		expect(t, l, "before")
		kept, old := h.watch("a"), h.watch("gone")
		next := newHouse("a", "new")
		next.lists["s tools"] = "other"
		next.identity["gone"] = 1
		b.Rebind(next)
		expect(t, l, "another document with another list", "tools")
		expect(t, lost, "a server that is gone", ErrEnded.Error())
		if kept.closed || !old.closed || next.watch("new") == nil || !next.watch("new").last().Tools {
			t.Errorf("kept closed: %v, replaced closed: %v", kept.closed, old.closed)
		}
		kept.hub.Changed(mcp.Tools)
		expect(t, l, "an upstream that both documents have", "tools")
		next.watch("new").hub.Changed(mcp.Tools)
		expect(t, l, "a new upstream", "tools")
		l.Close()
		time.Sleep(linger + time.Second)
		if b.Upstreams() != 0 {
			t.Errorf("%d upstreams are heard for nobody", b.Upstreams())
		}
	})
}

func kept(b *Board) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.standing)
}

func TestALegacySessionIsToldWhatItMissedWithinAMinute(t *testing.T) {
	at(t, []string{"a"}, func(t *testing.T, b *Board, h *house) {
		r := []Resource{{"a", "u", "U"}}
		l := b.Standing("session", View{Server: "s"}, nil)
		if b.Standing("session", View{Server: "s"}, r) != l {
			t.Error("one session has two listeners")
		}
		expect(t, l, "before")
		b.Leave("session")
		b.Leave("session")
		h.set(func() { h.lists["s tools"] = "other" })
		h.watch("a").hub.Changed(mcp.Tools)
		h.watch("a").hub.Updated("u", nil)
		time.Sleep(30 * time.Second)
		again := b.Standing("session", View{Server: "s"}, nil)
		if again != l {
			t.Error("what waited is lost")
		}
		expect(t, again, "back after half a minute", "tools", "U ")
		b.Unsubscribe("session", "U")
		h.watch("a").hub.Updated("u", nil)
		expect(t, again, "after it unsubscribed")
		b.Leave("session")
		time.Sleep(stayed + linger + time.Second)
		if kept(b) != 0 || b.Upstreams() != 0 {
			t.Errorf("nobody came back, and %d sessions and %d upstreams are left", kept(b), b.Upstreams())
		}
		b.Standing("session", View{Server: "s"}, r)
		b.Ended("session")
		b.Leave("session")
		b.Ended("session")
		time.Sleep(linger + time.Second)
		if kept(b) != 0 || b.Upstreams() != 0 {
			t.Error("the session ended, and is listened for")
		}
	})
}
