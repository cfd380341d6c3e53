package governance_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limited holds a refusal over a rate: HTTP 429, Retry-After in whole seconds, and -31005.
func limited(t *testing.T, what string, r *reaction) {
	t.Helper()
	after, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if r.Status != http.StatusTooManyRequests || r.Code != rateLimited || err != nil || after < 1 {
		t.Errorf("%s: want HTTP 429, Retry-After and %d, got Retry-After %q, %v", what, rateLimited, r.Header.Get("Retry-After"), r)
	}
}

// full holds a refusal for want of room.
func full(t *testing.T, what string, r *reaction) {
	t.Helper()
	if r.Status != http.StatusServiceUnavailable || r.Code != atCapacity {
		t.Errorf("%s: want HTTP 503 and %d, got %v", what, atCapacity, r)
	}
}

func TestACallerOverItsRateIsRefusedAndDisturbsNobody(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	h := build(t, over(m, keyed("ready", "alice", "bob")+"rate: {per_principal: 6/m, burst: 5}\n"))
	h.known(secretOf("ready"))
	sent := len(m.calls(""))
	for n := range 10 {
		r := h.do(&query{Params: echo("by-alice"), Key: secretOf("alice")})
		if n < 5 && !r.served() {
			t.Errorf("call %d of 5: %v", n+1, r)
		} else if n >= 5 {
			limited(t, fmt.Sprintf("call %d over 5", n+1), r)
		}
	}
	if n := len(m.calls("")) - sent; n != 5 {
		t.Errorf("the upstream saw %d calls", n)
	}
	for n := range 5 {
		if r := h.do(&query{Params: echo("by-bob"), Key: secretOf("bob")}); !r.served() {
			t.Errorf("bob's call %d: %v", n+1, r)
		}
	}
	// Whatever it is, it counts: a list, a handshake, a stream, the end of a session, what is malformed.
	for name, q := range map[string]query{
		"list":      {Method: "tools/list"},
		"handshake": {Legacy: true, Method: "initialize", Params: `"protocolVersion":"2025-11-25","capabilities":{}`},
		"stream":    {Verb: http.MethodGet, Session: "unknown"},
		"end":       {Verb: http.MethodDelete, Session: "unknown"},
		"malformed": {Body: "{"},
	} {
		q.Key = secretOf("alice")
		limited(t, name, h.do(&q))
	}
	if n := h.counts(); n.sum("penstock_limited_total", `scope="principal"`) != 10 || n.sum("penstock_requests_total", `code="rate_limited"`) != 10 {
		t.Errorf("ten were refused; the counters tell %d and %d", n.sum("penstock_limited_total", `scope="principal"`), n.sum("penstock_requests_total", `code="rate_limited"`))
	}
}

func TestAllCallersTogetherMeetTheGlobalRate(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	h := build(t, over(m, keyed("alice", "bob")+"rate: {global: 6/m, burst: 8}\n"))
	served := 0
	var last *reaction
	for n := range 20 {
		last = h.do(&query{Params: echo("it"), Key: secretOf([]string{"alice", "bob"}[n%2])})
		if last.Code == rateLimited {
			break
		}
		served++
	}
	if served < 8 || served > 9 { // a slow machine gets one back
		t.Errorf("%d were served", served)
	}
	limited(t, "over the global rate", last)
	limited(t, "the other one, too", h.do(&query{Params: echo("it"), Key: secretOf("alice")}))
	if n := h.counts().sum("penstock_limited_total", `scope="global"`); n != 2 {
		t.Errorf("two were refused, and the counter tells %d", n)
	}
}

func TestAnUpstreamsRateCountsItsCallsAndNotItsLists(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	m.more = ", rate: 30/m" // three at once
	h := build(t, over(m, keyed("alice", "bob")))
	for range 5 {
		if r := h.do(&query{Method: "tools/list", Key: secretOf("alice")}); r.Code != 0 {
			t.Fatalf("a list: %v", r)
		}
	}
	session := h.session("2025-11-25", "{}", secretOf("bob"))
	if r := h.do(&query{Params: echo("one"), Key: secretOf("alice")}); !r.served() {
		t.Errorf("the first: %v", r)
	}
	if r := h.do(&query{Method: "prompts/get", Params: `"name":"greet"`, Key: secretOf("bob")}); r.Code != 0 {
		t.Errorf("the second: %v", r)
	}
	if r := h.do(&query{Session: session, Params: echo("three"), Key: secretOf("bob")}); !r.served() {
		t.Errorf("the third: %v", r)
	}
	var sent, refused int
	for n := range 6 {
		q := &query{Params: echo("over"), Key: secretOf("alice")}
		if n%2 == 1 {
			q = &query{Session: session, Params: echo("over"), Key: secretOf("bob")}
		}
		r := h.do(q)
		if r.served() {
			sent++
			continue
		}
		refused++
		limited(t, "over the upstream's rate", r)
		if !strings.Contains(r.Said, `"up"`) {
			t.Errorf("the refusal does not name the upstream: %s", r.Said)
		}
	}
	if refused < 3 || m.arrived("over") != sent {
		t.Errorf("%d served, %d refused, and the upstream saw %d", sent, refused, m.arrived("over"))
	}
	if n := h.counts().sum("penstock_limited_total", `scope="upstream"`); n != refused {
		t.Errorf("%d were refused, and the counter tells %d", refused, n)
	}
}

func TestEachMessageOfABatchCounts(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	h := build(t, over(m, keyed("ready", "alice")+"rate: {per_principal: 6/m, burst: 8}\n"))
	h.known(secretOf("ready"))
	session := h.session("2025-03-26", "{}", secretOf("alice")) // the first of eight
	var parts []string
	for n := range 10 {
		q := &query{Legacy: true, ID: strconv.Itoa(n), Params: echo("batched")}
		parts = append(parts, q.message())
	}
	r := h.do(&query{Session: session, Key: secretOf("alice"), Body: "[" + strings.Join(parts, ",") + "]"})
	var answers []struct {
		ID    int
		Error struct{ Code int }
	}
	if err := json.Unmarshal([]byte(r.Message), &answers); err != nil || len(answers) != 10 {
		t.Fatalf("%v: %v", err, r)
	}
	refused := 0
	for _, a := range answers {
		if a.Error.Code == rateLimited {
			refused++
		} else if a.Error.Code != 0 {
			t.Errorf("%d: error %d", a.ID, a.Error.Code)
		}
	}
	if refused != 3 || m.arrived("batched") != 7 {
		t.Errorf("%d of 10 were refused, and the upstream saw %d; seven had been left", refused, m.arrived("batched"))
	}
}

func TestAClientOverStdioHasARateToo(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		m := newMill(t, false)
		h := build(t, over(m, "allow_anonymous: true\n"+keyed("ready")+"rate: {per_principal: 6/m, burst: 3}\n"))
		h.known(secretOf("ready"))
		l, _ := h.line()
		var codes []int
		if legacy {
			codes = append(codes, l.do(&query{Legacy: true, Method: "initialize", Params: `"protocolVersion":"2025-11-25","capabilities":{}`}).Code)
		}
		for len(codes) < 5 {
			codes = append(codes, l.do(&query{Legacy: legacy, Params: echo("piped")}).Code)
		}
		if want := []int{0, 0, 0, rateLimited, rateLimited}; fmt.Sprint(codes) != fmt.Sprint(want) {
			t.Errorf("legacy %v: the codes are %v", legacy, codes)
		}
		// Neither a handshake nor a stream goes around it.
		if legacy {
			if r := l.do(&query{Legacy: true, Method: "logging/setLevel", Params: `"level":"info"`}); r.Code != rateLimited {
				t.Errorf("a level: %v", r)
			}
		} else if r := l.do(&query{Method: "subscriptions/listen", Params: `"notifications":{"toolsListChanged":true}`}); r.Code != rateLimited {
			t.Errorf("a stream: %v", r)
		}
	}
}

func TestStreamsCountForTheRate(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	h := build(t, over(m, keyed("ready", "alice")+"rate: {per_principal: 6/m, burst: 3}\n"))
	h.known(secretOf("ready"))
	session := h.session("2025-11-25", "{}", secretOf("alice"))
	for range 2 {
		if s := h.stream(&query{Verb: http.MethodGet, Session: session, Key: secretOf("alice")}); s.Status != http.StatusOK {
			t.Fatalf("a stream: HTTP %d", s.Status)
		}
	}
	limited(t, "the third stream", h.do(&query{Verb: http.MethodGet, Session: session, Key: secretOf("alice")}))
	limited(t, "a listener", h.do(&query{Method: "subscriptions/listen", Params: `"notifications":{"toolsListChanged":true}`, Key: secretOf("alice")}))
}

// Who is refused has been read no further than the headers: the answer comes while the body has no end.
func TestARefusedRequestIsNotRead(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	h := build(t, over(m, keyed("ready", "alice")+"rate: {per_principal: 6/m, burst: 1}\n"))
	h.known(secretOf("ready"))
	h.do(&query{Params: echo("the-only-one"), Key: secretOf("alice")})
	before := h.counts().sum("penstock_request_received_bytes_total")
	for name, length := range map[string]string{"long": "Content-Length: 4000000", "endless": "Transfer-Encoding: chunked"} {
		for who, status := range map[string]int{secretOf("alice"): http.StatusTooManyRequests, "unknown": http.StatusUnauthorized} {
			c, err := net.Dial("tcp", strings.TrimPrefix(h.front.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			_, err = fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json\r\n%s\r\n\r\n", who, length)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != status {
				t.Errorf("%s: %v, %v", name, resp, err)
			} else {
				resp.Body.Close()
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("%s: answered after %s", name, d)
			}
			c.Close()
		}
	}
	if n := h.counts().sum("penstock_request_received_bytes_total") - before; n != 0 {
		t.Errorf("%d bytes of refused requests were read", n)
	}
}

func TestWhatWasCountedSurvivesAReloadThatChangesNoRate(t *testing.T) {
	t.Parallel()
	m := newMill(t, false)
	doc := func(more string) string { return over(m, keyed("ready", "alice")+more) }
	const rates = "rate: {per_principal: 6/m, burst: 2}\n"
	h := build(t, doc(rates))
	h.known(secretOf("ready"))
	q := &query{Params: echo("it"), Key: secretOf("alice")}
	for h.do(q).served() {
	}
	limited(t, "before", h.do(q))
	h.reload(doc(rates + "policy: [{id: all, allow: {tools: ['*']}}]\n"))
	limited(t, "after a reload", h.do(q))
	h.reload(doc("rate: {per_principal: 6/m, burst: 3}\n"))
	if r := h.do(q); !r.served() {
		t.Errorf("under another rate: %v", r)
	}
	// So does an upstream's.
	m.more = ", rate: 1/h"
	h.reload(doc(""))
	for h.do(q).served() {
	}
	limited(t, "the upstream's, before", h.do(q))
	h.reload(doc(rates))
	limited(t, "the upstream's, after a reload", h.do(q))
}
