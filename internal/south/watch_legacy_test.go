package south

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// streaming is a legacy upstream that holds the GET streams of its sessions open.
func streaming(t *testing.T) (*stub, *holder) {
	t.Helper()
	h := &holder{}
	s := &stub{legacy: true, caps: tells}
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		s.mu.Lock()
		known := s.sessions[a.header.Get("Mcp-Session-Id")]
		s.mu.Unlock()
		if a.verb != http.MethodGet || !known {
			return false
		}
		h.serve(w, r, a)
		return true
	}
	return s.start(t), h
}

const onTools = `honoured {"toolsListChanged":true}`

func TestALegacySessionIsHeardOnItsStream(t *testing.T) { // checklist 6.4, T27
	leakless(t)
	s, h := streaming(t)
	u := reach(t, s.url)
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true, Resources: true})
	const on = `honoured {"toolsListChanged":true,"resourcesListChanged":true}`
	n.await(t, on)
	up := h.stream(t, 1)
	up.event(changed(mcp.Tools))
	up.event(changed(mcp.Prompts))                                                // not wanted
	up.write("id: 7\ndata:\n\n: idle\n\nevent: ping\ndata: x\n\nevent: ping\n\n") // go-sdk#1175
	up.event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
	up.event("{]")
	up.event(changed(mcp.Resources))
	n.await(t, on, "changed tools", `other notifications/message {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`, "changed resources")
	if g := up.header; g.Get("Mcp-Session-Id") != "s1" || g.Get("Mcp-Protocol-Version") != "2025-11-25" || g.Get("Accept") != "text/event-stream" {
		t.Errorf("%v", g)
	}
	if l := link(t, u, key("n")); l.session.current().id != "s1" {
		t.Error("the stream is not of the key's session")
	}
	// One that is watched is in use.
	u.sweep(time.Now().Add(u.o.IdleSession + time.Minute))
	if k := u.State().Sessions; k != 1 {
		t.Errorf("%d sessions after the sweep", k)
	}
	w.Want(mcp.Filter{})
	settle(t, "the end of the stream", func() bool { return isGone(up) })
	settle(t, "a session that is not watched", func() bool { return link(t, u, key("n")).session.watched.Load() == 0 })
	u.sweep(time.Now().Add(u.o.IdleSession + time.Minute))
	if k := u.State().Sessions; k != 0 {
		t.Errorf("%d sessions, unused", k)
	}
}

func TestABatchOfTheOldestRevisionIsHeard(t *testing.T) {
	s, h := streaming(t)
	s.revision = "2025-03-26"
	w, n := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{Tools: true})
	n.await(t, onTools)
	h.stream(t, 1).event("[" + changed(mcp.Tools) + "," + changed(mcp.Tools) + "]")
	n.await(t, onTools, "changed tools", "changed tools")
}

func TestAnUpstreamWithoutAStreamIsLeftAlone(t *testing.T) { // go-sdk#1175
	for what, answer := range map[string]func(w http.ResponseWriter){
		"405":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"404":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"400":  func(w http.ResponseWriter) { say(w, 400, "text/plain", "no session") },
		"JSON": func(w http.ResponseWriter) { plainJSON(w, 200, `{"hello":1}`) },
		"page": func(w http.ResponseWriter) { say(w, 200, "text/html", "<p>") },
	} {
		t.Run(what, func(t *testing.T) {
			leakless(t)
			s := (&stub{legacy: true, caps: tells, on: func(w http.ResponseWriter, _ *http.Request, a arrived) bool {
				if a.verb == http.MethodGet {
					answer(w)
					return true
				}
				return false
			}}).start(t)
			u := reach(t, s.url, func(o *Options) { o.Failures = 1 })
			w, n := watching(t, u)
			w.Want(mcp.Filter{Tools: true, URIs: []string{"a://x"}})
			n.await(t, "honoured {}")
			w.Want(mcp.Filter{Tools: true})
			n.await(t, "honoured {}", "honoured {}")
			time.Sleep(600 * time.Millisecond)
			if k := len(s.got(http.MethodGet)); k != 1 {
				t.Errorf("%d GET", k)
			}
			if k := len(s.got("resources/subscribe")); k != 0 {
				t.Errorf("subscribed %d times without a way to hear", k)
			}
			if k := len(s.got("initialize")); k != 1 {
				t.Errorf("%d handshakes: a session that works was thrown away", k)
			}
			if _, err := send(t, link(t, u, key("n")), toolsCall(link(t, u, key("n")))); err != nil {
				t.Error(err)
			}
			// A new session is another try.
			s.amnesia()
			if _, err := send(t, link(t, u, key("n")), toolsCall(link(t, u, key("n")))); err != nil {
				t.Error(err)
			}
			settle(t, "another GET", func() bool { return len(s.got(http.MethodGet)) >= 2 })
		})
	}
}

func TestAStreamThatSaysNothingBlocksNothing(t *testing.T) { // go-sdk#633
	leakless(t)
	s := (&stub{legacy: true, caps: tells, on: func(_ http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.verb != http.MethodGet {
			return false
		}
		<-r.Context().Done()
		return true
	}}).start(t)
	u := reach(t, s.url, func(o *Options) { o.ProbeTimeout, o.Failures = 400*time.Millisecond, 1 })
	w, n := watching(t, u)
	began := time.Now()
	w.Want(mcp.Filter{Tools: true})
	settle(t, "a GET", func() bool { return len(s.got(http.MethodGet)) == 1 })
	l := link(t, u, key("n"))
	if _, err := send(t, l, toolsCall(l)); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 350*time.Millisecond {
		t.Errorf("the call took %v beside the GET", took)
	}
	n.await(t, "honoured {}")
	time.Sleep(700 * time.Millisecond)
	if k := len(s.got(http.MethodGet)); k != 1 {
		t.Errorf("%d GET", k)
	}
	if st := u.breaker.state(); st != "closed" {
		t.Errorf("breaker %s", st)
	}
	if _, err := send(t, l, toolsCall(l)); err != nil {
		t.Error(err)
	}
}

func TestRequestsOnTheStreamAreAnswered(t *testing.T) { // checklist 136, 137; playwright-mcp#1293
	s, h := streaming(t)
	w, n := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{Tools: true})
	n.await(t, onTools)
	up := h.stream(t, 1)
	want := []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}
	for i, method := range []string{"ping", "elicitation/create", "sampling/createMessage", "roots/list", "tasks/get"} {
		up.event(`{"jsonrpc":"2.0","id":` + itoa(i+1) + `,"method":"` + method + `"}`)
		code := "-32602"
		if method == "tasks/get" {
			code = "-32601"
		}
		if i > 0 {
			want = append(want, `{"jsonrpc":"2.0","id":`+itoa(i+1)+`,"error":{"code":`+code)
		}
	}
	answers := func() (out []string) {
		for _, a := range s.got("POST") {
			if a.method == "" {
				body := a.body
				if i := strings.Index(body, `,"message"`); i > 0 {
					body = body[:i]
				}
				if a.header.Get("Mcp-Session-Id") != "s1" {
					body += " without its session"
				}
				out = append(out, body)
			}
		}
		return out
	}
	settle(t, "the answers", func() bool { return len(answers()) == len(want) })
	if d := cmp.Diff(want, answers()); d != "" {
		t.Error(d)
	}
	n.await(t, onTools)
}

func TestASessionThatIsForgottenIsMadeAnewAndSubscribedAgain(t *testing.T) {
	for what, trigger := range map[string]func(t *testing.T, u *Upstream, h *holder){
		"by the stream": func(t *testing.T, _ *Upstream, h *holder) { h.stream(t, 1).end() },
		"by a call": func(t *testing.T, u *Upstream, _ *holder) {
			l := link(t, u, key("n"))
			if _, err := send(t, l, toolsCall(l)); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			leakless(t)
			s, h := streaming(t)
			u := reach(t, s.url)
			w, n := watching(t, u)
			w.Want(mcp.Filter{Tools: true, URIs: []string{"a://1"}})
			const on = `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://1"]}`
			n.await(t, on)
			s.amnesia()
			trigger(t, u, h)
			n.await(t, on, on, "reopened")
			up := h.stream(t, 2)
			if id := up.header.Get("Mcp-Session-Id"); id != "s2" || up.header.Get("Last-Event-Id") != "" {
				t.Errorf("stream of %s, %v", id, up.header)
			}
			settle(t, "the end of the stream before it", func() bool { return isGone(h.stream(t, 1)) })
			if d := cmp.Diff([]string{"s1 subscribe a://1", "s2 subscribe a://1"}, subscribed(s)); d != "" {
				t.Error(d)
			}
			if k := len(s.got("initialize")); k != 2 {
				t.Errorf("%d handshakes", k)
			}
			up.event(changed(mcp.Tools))
			n.await(t, on, on, "reopened", "changed tools")
		})
	}
}

func TestALegacyStreamIsOpenedAgainAfterItsLastEvent(t *testing.T) { // checklist 134
	s, h := streaming(t)
	w, n := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{Tools: true})
	n.await(t, onTools)
	up := h.stream(t, 1)
	up.write("id: e1\nretry: 1300\ndata:\n\nid: e2\n")
	up.event(changed(mcp.Tools))
	settle(t, "the change", func() bool { return n.count("changed") == 1 })
	began := time.Now()
	up.end()
	again := h.stream(t, 2)
	if wait := time.Since(began); wait < 1300*time.Millisecond {
		t.Errorf("opened again after %v; the upstream asked for 1.3 s", wait)
	}
	if id := again.header.Get("Last-Event-Id"); id != "e2" {
		t.Errorf("opened after %q", id)
	}
	n.await(t, onTools, "changed tools", onTools, "reopened")
}

// Or the upstream would send it for ever.
func TestAnEventThatIsTooLargeIsNotAskedForAgain(t *testing.T) {
	s, h := streaming(t)
	w, n := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{Tools: true})
	n.await(t, onTools)
	up := h.stream(t, 1)
	up.write("id: e1\n")
	up.event(changed(mcp.Tools))
	up.write("id: e2\n")
	up.event(`{"jsonrpc":"2.0","method":"notifications/message","params":"` + strings.Repeat("p", window) + `"}`)
	if id := h.stream(t, 2).header.Get("Last-Event-Id"); id != "" {
		t.Errorf("opened after %q", id)
	}
	n.await(t, onTools, "changed tools", onTools, "reopened")
}

func TestAStreamThatFailsIsTriedAgain(t *testing.T) { // go-sdk#1175
	leakless(t)
	s, h := streaming(t)
	inner := s.on
	var failing atomic.Int32
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.verb == http.MethodGet && failing.Add(-1) >= 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return inner(w, r, a)
	}
	u := reach(t, s.url, func(o *Options) { o.Failures = 1 })
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true, URIs: []string{"a://1"}})
	const on = `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://1"]}`
	n.await(t, on)
	failing.Store(2)
	h.stream(t, 1).end()
	l := link(t, u, key("n"))
	if _, err := send(t, l, toolsCall(l)); err != nil {
		t.Error(err)
	}
	n.await(t, on, "honoured {}", on, "reopened")
	if d := cmp.Diff([]string{"s1 subscribe a://1"}, subscribed(s)); d != "" {
		t.Error(d) // the session has not forgotten it
	}
	if st := u.breaker.state(); st != "closed" {
		t.Errorf("breaker %s", st)
	}
}

func TestAnUpstreamThatStartsAgainIsHeardAgain(t *testing.T) {
	leakless(t)
	s, h := streaming(t)
	u := reach(t, s.url)
	u.Start()
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true, URIs: []string{"a://1"}})
	const on = `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://1"]}`
	n.await(t, on)
	s.amnesia()
	s.srv.CloseClientConnections()
	n.await(t, on, on, "reopened")
	h.stream(t, 2).event(updated("a://1"))
	n.await(t, on, on, "reopened", `updated a://1 {"uri":"a://1"}`)
}

// A session whose upstream offers none of what is wanted may still have to say
// something, or not.
func TestASessionWithNothingToSayHasNoStream(t *testing.T) {
	s, h := streaming(t)
	s.caps = `{"tools":{}}`
	w, n := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{Tools: true})
	n.await(t, "honoured {}")
	if k := h.len(); k != 0 {
		t.Errorf("%d streams", k)
	}
	s2, h2 := streaming(t)
	s2.caps = `{"tools":{},"logging":{}}`
	w, n = watching(t, reach(t, s2.url))
	w.Want(mcp.Filter{Tools: true})
	n.await(t, "honoured {}")
	h2.stream(t, 1).event(`{"jsonrpc":"2.0","method":"notifications/message"}`)
	n.await(t, "honoured {}", `other notifications/message {"jsonrpc":"2.0","method":"notifications/message"}`)
}
