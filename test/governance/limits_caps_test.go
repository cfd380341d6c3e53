package governance_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRequestsInFlightAreBoundedForEachCaller(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	m.limits = ", in_flight_per_principal: 2"
	h := build(t, over(m, keyed("alice", "bob")))
	h.known(secretOf("bob"))
	done := make(chan *reaction, 2)
	for range 2 {
		go func() { done <- h.do(&query{Params: tool("slow", "{}"), Key: secretOf("alice")}) }()
	}
	wait(t, "the slow ones", 20*time.Second, func() bool { return m.arrived(`"slow"`) == 2 })
	for _, q := range []*query{
		{Params: echo("third")},
		{Method: "tools/list"},
		{Legacy: true, Method: "initialize", Params: `"protocolVersion":"2025-11-25","capabilities":{}`},
	} {
		q.Key = secretOf("alice")
		full(t, "the third of alice", h.do(q))
	}
	if m.arrived("third") != 0 {
		t.Error("the upstream saw it")
	}
	if r := h.do(&query{Params: echo("of-bob"), Key: secretOf("bob")}); !r.served() {
		t.Errorf("bob: %v", r)
	}
	if n := h.counts().sum("penstock_limited_total", `scope="in_flight"`); n != 3 {
		t.Errorf("three were refused, and the counter tells %d", n)
	}
	m.release()
	for range 2 {
		if r := <-done; !r.served() {
			t.Errorf("a slow one: %v", r)
		}
	}
	if r := h.do(&query{Params: echo("later"), Key: secretOf("alice")}); !r.served() {
		t.Errorf("alice, later: %v", r)
	}
}

func TestParkedCallsAreBoundedForEachCaller(t *testing.T) {
	t.Parallel()
	m := newMill(t, true)
	m.limits = ", parked_per_principal: 1"
	h := build(t, over(m, keyed("alice", "bob")))
	h.known(secretOf("bob"))
	ask := func(who string) *query {
		return &query{Params: tool("ask", "{}"), Caps: canElicit, Key: secretOf(who)}
	}
	first := h.do(ask("alice"))
	if first.Type != "input_required" {
		t.Fatalf("no question: %v", first)
	}
	if r := h.do(ask("alice")); !r.IsError || !strings.Contains(r.Text, "too many calls wait") {
		t.Errorf("the second of alice: %v", r)
	}
	of := h.do(ask("bob"))
	if of.Type != "input_required" {
		t.Errorf("bob: %v", of)
	}
	if r := h.do(answering(t, ask("alice"), first)); !r.served() {
		t.Errorf("the answer of alice: %v", r)
	}
	if r := h.do(ask("alice")); r.Type != "input_required" {
		t.Errorf("alice, after her answer: %v", r)
	}
	if r := h.do(answering(t, ask("bob"), of)); !r.served() {
		t.Errorf("the answer of bob: %v", r)
	}
}

func TestSessionsAreBoundedInAllAndForEachCaller(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	m.limits = ", sessions: 3"
	h := build(t, over(m, keyed("alice", "bob")))
	for _, who := range []string{"alice", "alice", "bob"} {
		h.session("2025-11-25", "{}", secretOf(who))
	}
	_, r := h.open("2025-11-25", "{}", secretOf("bob"))
	full(t, "the fourth session", r)

	own := newMill(t, false)
	own.limits = ", sessions_per_principal: 1"
	g := build(t, over(own, keyed("alice", "bob")))
	first := g.session("2025-11-25", "{}", secretOf("alice"))
	if _, r := g.open("2025-11-25", "{}", secretOf("alice")); r.Status != http.StatusOK {
		full(t, "the second session of alice, at once", r)
	}
	g.session("2025-11-25", "{}", secretOf("bob"))
	time.Sleep(1200 * time.Millisecond) // it is idle now
	second := g.session("2025-11-25", "{}", secretOf("alice"))
	if r := g.do(&query{Session: first, Method: "ping", Key: secretOf("alice")}); r.Status != http.StatusNotFound || r.Code != -32001 {
		t.Errorf("the session that made room: %v", r)
	}
	if r := g.do(&query{Session: second, Method: "ping", Key: secretOf("alice")}); r.Code != 0 {
		t.Errorf("the one that it made room for: %v", r)
	}
}

func TestStreamsAreBoundedForEachCaller(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	m.limits = ", streams_per_principal: 1"
	h := build(t, over(m, keyed("alice", "bob")))
	h.known(secretOf("bob"))
	session := h.session("2025-11-25", "{}", secretOf("alice"))
	listen := func(who string) *query {
		return &query{Method: "subscriptions/listen", Params: `"notifications":{"toolsListChanged":true}`, Key: secretOf(who)}
	}
	first := h.stream(listen("alice"))
	first.next(t) // it is acknowledged
	full(t, "the second stream of alice", h.do(listen("alice")))
	full(t, "her stream of a session", h.do(&query{Verb: http.MethodGet, Session: session, Key: secretOf("alice")}))
	h.stream(listen("bob")).next(t)
	if r := h.do(&query{Params: echo("it"), Key: secretOf("alice")}); !r.served() {
		t.Errorf("a call beside a stream: %v", r)
	}
	first.end()
	wait(t, "room", 10*time.Second, func() bool {
		s := h.stream(&query{Verb: http.MethodGet, Session: session, Key: secretOf("alice")})
		defer s.end()
		return s.Status == http.StatusOK
	})
}
