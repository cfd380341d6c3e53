package south

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

const ackOf = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$ID},"notifications":`

// listener is a modern upstream that acknowledges a listen with what ack returns.
func listener(t *testing.T, caps string, ack func(a arrived) string) (*stub, *holder) {
	t.Helper()
	h := &holder{}
	return (&stub{caps: caps, on: func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.method != "subscriptions/listen" {
			return false
		}
		h.serve(w, r, a, ack(a))
		return true
	}}).start(t), h
}

// agreeing acknowledges all that is asked for.
func agreeing(a arrived) string { return ackOf + asked(a) + `}}` }

// asked is the filter of a listen.
func asked(a arrived) string {
	var m struct {
		Params struct{ Notifications json.RawMessage }
	}
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		panic(err)
	}
	return string(m.Params.Notifications)
}

func TestAListenIsAcknowledgedFirstAndBringsWhatWasAskedFor(t *testing.T) { // checklist 58, 59, 61, 106 to 108, 6.4
	leakless(t)
	s, h := listener(t, tells, func(arrived) string {
		// What comes before the acknowledgement is none of the stream's.
		return changed(mcp.Tools) + "\n\ndata: " + ackOf + `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a://x","b://y"]}}}`
	})
	w, n := watching(t, reach(t, s.url))
	if len(s.got("")) != 0 {
		t.Error("a watch that wants nothing asked the upstream")
	}
	w.Want(mcp.Filter{Tools: true, Resources: true, URIs: []string{"a://x", "a://z/d"}})
	up := h.stream(t, 1)
	n.await(t, `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://x"]}`)
	up.event(changed(mcp.Tools))
	up.event(changed(mcp.Prompts)) // not asked for
	up.event(updated("a://x"))
	up.event(updated("a://q"))     // not asked for
	up.event(updated("a://z/d/e")) // below what was asked for
	up.event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
	up.event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"another"}}}`)
	up.event(`{"jsonrpc":"2.0","id":7,"method":"ping"}`) // a modern upstream must not ask
	up.write(": a comment\n\nevent: ping\ndata: x\n\nevent: message\n")
	up.event(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{"_meta":{"io.modelcontextprotocol\/subscriptionId":$ID}}}`)
	n.await(t, `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://x"]}`,
		"changed tools", `updated a://x {"uri":"a://x"}`, `updated a://z/d/e {"uri":"a://z/d/e"}`, "changed resources")
	if d := cmp.Diff(`{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a://x","a://z/d"]}`, asked(up.arrived)); d != "" {
		t.Error(d)
	}
	if !strings.Contains(up.body, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"gw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`) {
		t.Errorf("body %s", up.body)
	}
	if g := up.header; g.Get("Mcp-Method") != "subscriptions/listen" || g.Get("Mcp-Protocol-Version") != "2026-07-28" || !strings.Contains(g.Get("Accept"), "text/event-stream") {
		t.Errorf("headers %v", g)
	}
	w.Want(mcp.Filter{})
	settle(t, "the end of the stream", func() bool { return isGone(up) })
	settle(t, "honoured {}", func() bool { return n.count("honoured {}") == 1 })
}

func TestAnotherFilterIsAcknowledgedBeforeTheOneBeforeItIsClosed(t *testing.T) { // checklist 6.4
	leakless(t)
	release := make(chan struct{})
	var second atomic.Bool
	s, h := listener(t, tells, agreeing)
	inner := s.on
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.method == "subscriptions/listen" && strings.Contains(a.body, "promptsListChanged") {
			second.Store(true)
			<-release
		}
		return inner(w, r, a)
	}
	w, n := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{Tools: true})
	first := h.stream(t, 1)
	n.await(t, `honoured {"toolsListChanged":true}`)
	w.Want(mcp.Filter{Tools: true, Prompts: true})
	settle(t, "the second listen", second.Load)
	first.event(changed(mcp.Tools))
	n.await(t, `honoured {"toolsListChanged":true}`, "changed tools")
	if isGone(first) {
		t.Fatal("the first was closed before the second was acknowledged")
	}
	close(release)
	up := h.stream(t, 2)
	settle(t, "the end of the first", func() bool { return isGone(first) })
	up.event(changed(mcp.Prompts))
	n.await(t, `honoured {"toolsListChanged":true}`, "changed tools", `honoured {"toolsListChanged":true,"promptsListChanged":true}`, "changed prompts")
	if isGone(up) {
		t.Error("the second was closed, too")
	}
	w.Want(mcp.Filter{Tools: true, Prompts: true}) // the same again
	time.Sleep(50 * time.Millisecond)
	if k := h.len(); k != 2 {
		t.Errorf("%d streams", k)
	}
}

func TestAFilterThatIsRefusedLeavesTheOneBeforeIt(t *testing.T) {
	s, h := listener(t, tells, agreeing)
	inner := s.on
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.method == "subscriptions/listen" && strings.Contains(a.body, "promptsListChanged") {
			plainJSON(w, 400, `{"jsonrpc":"2.0","id":`+a.id+`,"error":{"code":-32602,"message":"one at a time"}}`)
			return true
		}
		return inner(w, r, a)
	}
	w, n := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{Tools: true})
	first := h.stream(t, 1)
	n.await(t, `honoured {"toolsListChanged":true}`)
	w.Want(mcp.Filter{Tools: true, Prompts: true})
	n.await(t, `honoured {"toolsListChanged":true}`, `honoured {"toolsListChanged":true}`)
	first.event(changed(mcp.Tools))
	n.await(t, `honoured {"toolsListChanged":true}`, `honoured {"toolsListChanged":true}`, "changed tools")
	if k := len(s.got("subscriptions/listen")); k != 2 {
		t.Errorf("asked %d times", k)
	}
}

func TestOnlyWhatIsOfferedIsAskedFor(t *testing.T) {
	leakless(t)
	s, h := listener(t, `{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":false}}`, agreeing)
	u := reach(t, s.url)
	w, n := watching(t, u)
	w.Want(mcp.Filter{Prompts: true, Resources: true, URIs: []string{"a://x"}})
	n.await(t, "honoured {}")
	if k := len(s.got("subscriptions/listen")); k != 0 {
		t.Fatalf("asked %d times for what is not offered", k)
	}
	w.Want(mcp.Filter{Tools: true, Prompts: true})
	n.await(t, "honoured {}", `honoured {"toolsListChanged":true}`)
	if got := asked(h.stream(t, 1).arrived); got != `{"toolsListChanged":true}` {
		t.Errorf("asked for %s", got)
	}
	// The upstream offers more now.
	s.caps = tells
	if err := u.probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.await(t, "honoured {}", `honoured {"toolsListChanged":true}`, `honoured {"toolsListChanged":true,"promptsListChanged":true}`)
}

func TestAnUpstreamThatCannotNotifyIsNotAskedAgain(t *testing.T) {
	for what, answer := range map[string]func(w http.ResponseWriter, a arrived){
		"-32601": func(w http.ResponseWriter, a arrived) {
			plainJSON(w, 404, `{"jsonrpc":"2.0","id":`+a.id+`,"error":{"code":-32601,"message":"no"}}`)
		},
		"-32601 as an event": func(w http.ResponseWriter, a arrived) {
			stream(w)(`data: {"jsonrpc":"2.0","id":` + a.id + `,"error":{"code":-32601,"message":"no"}}` + "\n\n")
		},
		"a result": func(w http.ResponseWriter, a arrived) { result(w, a.id, `{"resultType":"complete"}`) },
		"text":     func(w http.ResponseWriter, _ arrived) { say(w, 200, "text/plain", "hello") },
	} {
		t.Run(what, func(t *testing.T) {
			leakless(t)
			s := (&stub{caps: tells, on: func(w http.ResponseWriter, _ *http.Request, a arrived) bool {
				if a.method == "subscriptions/listen" {
					answer(w, a)
					return true
				}
				return false
			}}).start(t)
			u := reach(t, s.url)
			w, n := watching(t, u)
			w.Want(mcp.Filter{Tools: true})
			n.await(t, "honoured {}")
			time.Sleep(600 * time.Millisecond) // more than the first wait after a loss
			if k := len(s.got("subscriptions/listen")); k != 1 {
				t.Errorf("asked %d times", k)
			}
			if st := u.breaker.state(); st != "closed" {
				t.Errorf("breaker %s", st)
			}
			if _, err := send(t, link(t, u, SessionKey{}), toolsCall(u.modern)); err != nil {
				t.Error(err)
			}
			w.Want(mcp.Filter{Prompts: true})
			settle(t, "another try for another filter", func() bool { return len(s.got("subscriptions/listen")) == 2 })
			n.await(t, "honoured {}", "honoured {}")
			u.changed()
			settle(t, "another try when the upstream changed", func() bool { return len(s.got("subscriptions/listen")) == 3 })
		})
	}
}

func TestAStreamThatEndsIsOpenedAgainAndThatIsToldOnce(t *testing.T) {
	leakless(t)
	s, h := listener(t, tells, agreeing)
	u := reach(t, s.url, func(o *Options) { o.Failures = 1 })
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true})
	const on = `honoured {"toolsListChanged":true}`
	n.await(t, on)
	h.stream(t, 1).end()
	n.await(t, on, on, "reopened")
	// A goodbye (checklist 60).
	up := h.stream(t, 2)
	up.event(`{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":$ID}}}`)
	n.await(t, on, on, "reopened", on, "reopened")
	settle(t, "the end of the second", func() bool { return isGone(up) })
	if st := u.breaker.state(); st != "closed" {
		t.Errorf("breaker %s after streams that ended", st)
	}
	h.stream(t, 3).event(changed(mcp.Tools))
	n.await(t, on, on, "reopened", on, "reopened", "changed tools")
}

func TestAnUpstreamThatEndsItsStreamsAtOnceIsNotPestered(t *testing.T) {
	s, h := listener(t, tells, agreeing)
	inner := s.on
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		return inner(w, r.WithContext(ctx), a)
	}
	w, _ := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{Tools: true})
	time.Sleep(1500 * time.Millisecond)
	if k := h.len(); k < 2 || k > 6 {
		t.Errorf("%d streams in 1.5 s", k)
	}
}

func TestAListenWithoutAnAcknowledgementIsGivenUp(t *testing.T) {
	leakless(t)
	h := &holder{}
	s := (&stub{caps: tells, on: func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.method != "subscriptions/listen" {
			return false
		}
		h.serve(w, r, a)
		return true
	}}).start(t)
	u := reach(t, s.url, func(o *Options) { o.ProbeTimeout, o.Failures = 200*time.Millisecond, 1 })
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true})
	n.await(t, "honoured {}")
	settle(t, "the end of the stream", func() bool { return isGone(h.stream(t, 1)) })
	time.Sleep(500 * time.Millisecond)
	if k := h.len(); k != 1 {
		t.Errorf("asked %d times", k)
	}
	if st := u.breaker.state(); st != "closed" {
		t.Errorf("breaker %s", st)
	}
}

func TestAnEventBeyondTheWindowEndsTheStreamAlone(t *testing.T) {
	s, h := listener(t, tells, agreeing)
	log := &logBuffer{}
	w, n := watching(t, reach(t, s.url, logTo(log)))
	w.Want(mcp.Filter{URIs: []string{"a://x"}})
	const on = `honoured {"resourceSubscriptions":["a://x"]}`
	n.await(t, on)
	large := func(size int) string {
		return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://x","pad":"` + strings.Repeat("p", size) + `"}}`
	}
	h.stream(t, 1).event(large(window - 1000)) // more than the stream's own buffer
	settle(t, "the large one", func() bool { return n.count("updated a://x") == 1 })
	for i := 1; i <= 2; i++ {
		h.stream(t, i).event(large(window))
		settle(t, "another stream", func() bool { return n.count("reopened") == i })
	}
	if k := n.count("updated"); k != 1 {
		t.Errorf("%d updates", k)
	}
	if k := strings.Count(log.String(), "given up"); k != 1 {
		t.Errorf("%d lines in the log: %s", k, log)
	}
}

// The sink is told that nothing is honoured, and the log that it is so, once.
func TestAnUpstreamThatIsDownIsTriedAgainAndHeardAtOnceWhenItIsBack(t *testing.T) {
	leakless(t)
	s, h := listener(t, tells, agreeing)
	down := atomic.Bool{}
	inner := s.on
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if down.Load() {
			drop()
		}
		return inner(w, r, a)
	}
	log := &logBuffer{}
	u := reach(t, s.url, func(o *Options) { o.Failures = 2 }, logTo(log))
	u.Start()
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true})
	const on = `honoured {"toolsListChanged":true}`
	n.await(t, on)
	down.Store(true)
	h.stream(t, 1).end()
	settle(t, "an open breaker", func() bool { return u.breaker.state() == "open" })
	n.await(t, on, "honoured {}")
	w.Want(allLists) // what is wanted meanwhile is settled at once
	n.await(t, on, "honoured {}", "honoured {}")
	down.Store(false)
	n.await(t, on, "honoured {}", "honoured {}", `honoured {"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`, "reopened")
	if a, b := strings.Count(log.String(), "not heard for now"), strings.Count(log.String(), "heard again"); a != 1 || b != 1 {
		t.Errorf("%d and %d lines: %s", a, b, log)
	}
}

func TestAnUpstreamThatComesLateIsHeardWithoutAReopening(t *testing.T) {
	leakless(t)
	s, h := listener(t, tells, agreeing)
	inner := s.on
	var up atomic.Bool
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if !up.Load() {
			drop()
		}
		return inner(w, r, a)
	}
	w, n := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{Tools: true})
	n.await(t, "honoured {}")
	up.Store(true)
	n.await(t, "honoured {}", `honoured {"toolsListChanged":true}`)
	h.stream(t, 1).event(changed(mcp.Tools))
	n.await(t, "honoured {}", `honoured {"toolsListChanged":true}`, "changed tools")
}

// A breaker that was open for its time lets one request try, and nobody calls.
func TestAStreamMayBeTheOneThatTriesAgain(t *testing.T) {
	leakless(t)
	s, h := listener(t, tells, agreeing)
	inner := s.on
	var down atomic.Bool
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if down.Load() {
			drop()
		}
		return inner(w, r, a)
	}
	u := reach(t, s.url, func(o *Options) { o.Failures, o.OpenFor = 1, 150*time.Millisecond })
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true})
	const on = `honoured {"toolsListChanged":true}`
	n.await(t, on)
	down.Store(true)
	h.stream(t, 1).end()
	settle(t, "an open breaker", func() bool { return u.breaker.state() == "open" })
	settle(t, "one that lets one try", func() bool { return u.breaker.state() == "half-open" })
	down.Store(false)
	n.await(t, on, "honoured {}", on, "reopened")
	if st := u.breaker.state(); st != "closed" {
		t.Errorf("breaker %s", st)
	}
}
