package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// script asks one form and says what it heard.
func oneForm(c *talk) {
	c.ask("1", askForm)
	if r := c.reply("1"); r != "" {
		c.done("heard " + r)
	}
}

// T40: a round is answered once. An identical retry joins the first or gets the
// answer again; one that differs is refused.
func TestAnswersAreDeliveredOnce(t *testing.T) {
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	u := talks(func(c *talk) {
		c.ask("1", askForm)
		r := c.reply("1")
		<-held
		c.done("heard " + r)
	})
	defer release() // the upstream must not wait for a test that has failed
	h := serving(t, map[string]*up{"u": u.up})
	clock := h.timed()
	q := h.asking("").round(t)
	got := make(chan out, 3)
	same := []string{accept, `{ "content":{},"action":"\u0061ccept"}`, accept}
	for _, a := range same {
		go func() { got <- h.asking(q.answered(a)) }()
	}
	settled(t, "the answer was delivered", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.replies) == 1 && len(u.up.got("")) > 0
	})
	if g := h.asking(q.answered(`{"action":"decline"}`)); g.code(t) != -32602 {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
	release()
	var texts []string
	for range same {
		texts = append(texts, receive(t, "an answer", got).text(t))
	}
	texts = append(texts, h.asking(q.answered(accept)).text(t)) // its answer was lost on the way
	for _, text := range texts {
		if text != texts[0] || !strings.Contains(text, "ccept") {
			t.Errorf("%q", texts)
		}
	}
	responses := 0
	for _, m := range u.up.got("") {
		if m.verb == "POST" && m.id != "" {
			responses++
		}
	}
	if len(u.got("tools/call")) != 1 || responses != 1 {
		t.Errorf("%d calls, %d responses", len(u.got("tools/call")), responses)
	}
	clock.move(61 * time.Second)
	if g := h.asking(q.answered(accept)); g.code(t) != -32602 || !strings.Contains(g.body, "input request expired; call again without requestState") {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
	if r, w, k := h.parks.State(); r != 0 || w != 0 || k != 0 {
		t.Errorf("%d running, %d waiting, %d kept", r, w, k)
	}
}

// The call's clock stands still: a user who answers after twenty minutes works.
// After input_timeout the upstream hears that nobody answers, and is cancelled
// when it does not end (checklist 7.3, X12).
func TestAQuestionStaysOpenAsLongAsTheUserMayTake(t *testing.T) {
	u := talks(oneForm)
	h := serving(t, map[string]*up{"u": u.up}, "limits: {call_timeout: 300ms, call_timeout_max: 300ms}")
	clock := h.timed()
	q := h.asking("").round(t)
	clock.move(20 * time.Minute)
	time.Sleep(500 * time.Millisecond) // more than the call has
	if g := h.asking(q.answered(accept)); !strings.Contains(g.text(t), "accept") {
		t.Errorf("%s", g.body)
	}
	heard := make(chan string, 4)
	stubborn := talks(func(c *talk) {
		c.ask("1", askForm)
		c.ask("2", `"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}`)
		c.ask("3", `"method":"roots/list"`)
		for _, id := range []string{"1", "2", "3"} {
			heard <- c.reply(id)
		}
		<-c.ctx.Done()
	})
	h = serving(t, map[string]*up{"u": stubborn.up})
	clock = h.timed()
	q = h.asking("").round(t)
	clock.move(30 * time.Minute)
	for _, want := range []string{`"result":{"action":"cancel"}`, `"code":-1,`, `"code":-32603`} {
		if got := receive(t, "an answer", heard); !strings.Contains(got, want) {
			t.Errorf("the upstream heard %s, want %s", got, want)
		}
	}
	if id := receive(t, "the cancel", stubborn.gone); id != stubborn.last(t, "tools/call").id {
		t.Errorf("cancelled %s", id)
	}
	for range 2 {
		if g := h.asking(q.answered(`{"action":"accept"}`)); g.code(t) != -32602 || !strings.Contains(g.body, "input request expired") {
			t.Errorf("HTTP %d %s", g.status, g.body)
		}
	}
	if n := len(stubborn.got("tools/call")); n != 1 {
		t.Errorf("%d calls", n)
	}
	settled(t, "everything is free", func() bool { r, w, k := h.parks.State(); return r+w+k == 0 })
}

// An upstream that ends by itself while it is asked nothing more is not cancelled.
func TestAnUpstreamMayEndWhenNobodyAnswers(t *testing.T) {
	u := talks(oneForm)
	h := serving(t, map[string]*up{"u": u.up})
	clock := h.timed()
	h.asking("").round(t)
	clock.move(31 * time.Minute)
	settled(t, "everything is free", func() bool { r, w, k := h.parks.State(); return r+w+k == 0 })
	if len(u.gone) != 0 {
		t.Error("it was cancelled, too")
	}
}

// Checklist 35: a client that leaves before it was asked has cancelled its call.
func TestAClientThatLeavesBeforeItIsAskedCancels(t *testing.T) {
	started := make(chan struct{})
	u := talks(func(c *talk) {
		close(started)
		<-c.ctx.Done()
	})
	h := serving(t, map[string]*up{"u": u.up})
	ctx, leave := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		h.asks(ctx, "tools/call", "u__add", everything, `"name":"u__add"`)
	}()
	receive(t, "the call", started)
	leave()
	receive(t, "the end of the request", over)
	if id := receive(t, "the cancel", u.gone); id != u.last(t, "tools/call").id {
		t.Errorf("cancelled %s", id)
	}
	settled(t, "everything is free", func() bool { r, w, k := h.parks.State(); return r+w+k == 0 })
}

// Checklist 7.3: a client that loses its connection during a retry may send it
// again within a few seconds; after that its call is cancelled, with what it had
// open answered first.
func TestAClientThatLeavesDuringARetryMayComeBack(t *testing.T) {
	for _, back := range []bool{true, false} {
		release, started := make(chan struct{}), make(chan struct{}, 1)
		u := talks(func(c *talk) {
			c.ask("1", askForm)
			c.reply("1")
			started <- struct{}{}
			select {
			case <-release:
				c.done("done")
			case <-c.ctx.Done():
			}
		})
		h := serving(t, map[string]*up{"u": u.up})
		clock := h.timed()
		q := h.asking("").round(t)
		ctx, leave := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			h.asks(ctx, "tools/call", "u__add", everything, `"name":"u__add",`+q.answered(accept))
		}()
		receive(t, "the answer", started)
		leave()
		receive(t, "the end of the request", over)
		if !back {
			clock.move(6 * time.Second)
			if id := receive(t, "the cancel", u.gone); id != u.last(t, "tools/call").id {
				t.Errorf("cancelled %s", id)
			}
			if g := h.asking(q.answered(accept)); g.code(t) != -32602 {
				t.Errorf("HTTP %d %s", g.status, g.body)
			}
			continue
		}
		clock.move(4 * time.Second)
		again := make(chan out, 1)
		go func() { again <- h.asking(q.answered(accept)) }()
		settled(t, "the retry is there", func() bool { return h.handler.Serving() == 1 })
		time.Sleep(20 * time.Millisecond)
		clock.move(time.Minute)
		close(release)
		if g := receive(t, "the answer", again); g.text(t) != "done" || len(u.gone) != 0 {
			t.Errorf("%s", g.body)
		}
	}
}

// What was asked while nobody was there is in the next round, or answered before
// the call is cancelled.
func TestWhatIsAskedBetweenRoundsIsInTheNext(t *testing.T) {
	heard := make(chan string, 2)
	asked := make(chan struct{}, 1)
	more := make(chan struct{})
	u := talks(func(c *talk) {
		c.ask("1", askForm)
		<-more
		c.ask("2", `"method":"roots/list"`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + c.id + `,"progress":1}}`)
		asked <- struct{}{}
		c.reply("1")
		heard <- c.reply("2")
		<-c.ctx.Done()
	})
	h := serving(t, map[string]*up{"u": u.up})
	clock := h.timed()
	first := h.asking("", `,"progressToken":1`).round(t)
	close(more)
	receive(t, "the question", asked)
	time.Sleep(100 * time.Millisecond) // until both have been read
	g := h.asking(first.answered(accept), `,"progressToken":1`)
	second := g.round(t)
	if second.key(t, "roots/list"); len(second.Result.Requests) != 1 || strings.Contains(g.body, `"progress":1`) {
		t.Errorf("%s", g.body)
	}
	clock.move(31 * time.Minute)
	if got := receive(t, "an answer", heard); !strings.Contains(got, `"id":2,"error":{"code":-32603`) {
		t.Errorf("the upstream heard %s", got)
	}
	receive(t, "the cancel", u.gone)
}

// An upstream that answers by itself while the user thinks: the retry gets it.
func TestACallMayEndWhileTheUserThinks(t *testing.T) {
	for _, size := range []int{10, 300 << 10} {
		now := make(chan struct{})
		u := talks(func(c *talk) {
			c.ask("1", askForm)
			<-now
			c.done("never mind" + strings.Repeat(".", size))
		})
		h := serving(t, map[string]*up{"u": u.up}, "limits: {call_timeout: 300ms, call_timeout_max: 300ms}")
		q := h.asking("").round(t)
		close(now)
		settled(t, "the call is over", func() bool { r, _, _ := h.parks.State(); return r == 0 })
		time.Sleep(500 * time.Millisecond) // more than the call has
		if g := h.asking(q.answered(accept)); !strings.HasPrefix(g.text(t), "never mind") {
			t.Errorf("%.200s", g.body)
		}
		g := h.asking(q.answered(accept))
		if size < 1000 && !strings.HasPrefix(g.text(t), "never mind") || size > 1000 && g.code(t) != -32602 {
			t.Errorf("size %d: %.200s", size, g.body)
		}
		if r, w, _ := h.parks.State(); r+w != 0 {
			t.Errorf("%d running, %d waiting", r, w)
		}
	}
	// And one that breaks: its question is lost (checklist 7.3).
	now := make(chan struct{})
	u := talks(func(c *talk) {
		c.ask("1", askForm)
		<-now
		panic(abort)
	})
	h := serving(t, map[string]*up{"u": u.up})
	q := h.asking("").round(t)
	close(now)
	settled(t, "the call is over", func() bool { r, w, k := h.parks.State(); return r+w+k == 0 })
	if g := h.asking(q.answered(accept)); g.code(t) != -32602 || len(u.got("tools/call")) != 1 {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
}

// A large answer after a question streams through, and is given once.
func TestALargeAnswerAfterAQuestionStreams(t *testing.T) {
	u := talks(func(c *talk) {
		c.ask("1", askForm)
		c.reply("1")
		c.done(strings.Repeat("x", 3<<20))
	})
	h := serving(t, map[string]*up{"u": u.up})
	q := h.asking("").round(t)
	if g := h.asking(q.answered(accept)); len(g.text(t)) != 3<<20 || !strings.Contains(g.body[len(g.body)-500:]+g.body[:500], "penstock/upstream") {
		t.Errorf("%.200s", g.body)
	}
	settled(t, "everything is free", func() bool { return h.upstreams["u"].State().InFlight == 0 })
}

// Checklist 7.3, 7.4: quota and rounds. The upstream hears a cancel, the client of
// a failed tool.
func TestParkedCallsAreBounded(t *testing.T) {
	heard := make(chan string, 32)
	u := talks(func(c *talk) {
		for i := 1; ; i++ {
			id := fmt.Sprintf(`"%s-%d"`, strings.Trim(c.id, `"`), i) // a session's ids are its own
			c.ask(id, askForm)
			r := c.reply(id)
			if r == "" {
				return
			}
			heard <- r
			if strings.Contains(r, "cancel") || strings.Contains(r, "decline") {
				c.done("given up")
				return
			}
		}
	})
	h := serving(t, map[string]*up{"u": u.up}, "limits: {parked_per_principal: 2}")
	q := h.asking("").round(t)
	h.asking("").round(t)
	if g := h.asking(""); !strings.HasPrefix(g.text(t), "error: ") || !strings.Contains(receive(t, "a cancel", heard), `"action":"cancel"`) {
		t.Errorf("%s", g.body)
	}
	if g := h.asks(t.Context(), "prompts/get", "u__greet", everything, `"name":"u__greet"`); g.code(t) != -32603 {
		t.Errorf("%s", g.body)
	}
	receive(t, "a cancel", heard)
	undo := h.as("another")
	h.asking("").round(t) // another principal's is its own
	undo()
	for round := 1; round < 10; round++ {
		q = h.asking(q.answered(accept)).round(t)
		receive(t, "an answer", heard)
	}
	g := h.asking(q.answered(accept))
	if text := g.text(t); !strings.HasPrefix(text, "error: ") || !strings.Contains(text, "more often") {
		t.Errorf("%s", g.body)
	}
	if a, b := receive(t, "the last answer", heard), receive(t, "a cancel", heard); !strings.Contains(a, "accept") || !strings.Contains(b, "cancel") {
		t.Errorf("%s, %s", a, b)
	}
	if again := h.asking(q.answered(accept)); again.text(t) != g.text(t) {
		t.Errorf("%s", again.body)
	}
	h.asking("").round(t) // there is room again
}
