package governance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock"
)

// scribe makes requests of every kind at a house that records, and knows which event each has to leave behind.
type scribe struct {
	t      reporter
	h      *house
	m      *mill
	file   string
	traces int
	seen   int   // events that were checked
	offset int64 // in the file, behind them

	modern, legacy *line
	old, batches   string // sessions
}

// marked stands in all arguments, and must not be in the record.
const marked = "an-argument-that-nobody-may-read"

func newScribe(t testing.TB, file, more string) *scribe {
	m := newMill(t, false)
	_, old := events(t, file, 0)
	doc := fmt.Sprintf(`
limits: {list_timeout: 10s, call_timeout: 30s, request_bytes: 64KiB}
upstreams:
  up: {url: %q, era: modern, namespace: u}
  rated: {url: %[1]q, era: modern, rate: 1/h}
policy:
  - {id: all, allow: {tools: ["*"], prompts: ["*"], resources: ["*"]}}
  - {id: hidden, deny: {tools: ["*secret"]}}
  - {id: no-prod, deny: {tools: ["*"]}, when: 'has(arguments.env) && arguments.env == "prod"'}
audit: {file: %q, flush: 1ms%s}
%s`, m.Server.URL+"/mcp", file, more, keyed("alice", "bob"))
	s := &scribe{t: t, m: m, file: file}
	s.h = build(t, doc, penstock.WithHook(penstock.Hook{
		ID: "own", Events: []penstock.HookEvent{penstock.ToolBefore}, Timeout: 20 * time.Second,
		Func: func(_ context.Context, c *penstock.HookCall) (v penstock.HookVerdict, err error) {
			switch a := string(c.Arguments); {
			case strings.Contains(a, "hook-panic"):
				panic("of a hook")
			case strings.Contains(a, "hook-fail"):
				return v, errors.New("of a hook")
			case strings.Contains(a, "hook-deny"):
				v.Deny = true
			}
			return v, nil
		},
	}))
	alice := secretOf("alice")
	wait(t, "the upstreams", 30*time.Second, func() bool { return s.h.do(&query{Params: tool("u__echo", "{}"), Key: alice}).served() })
	s.h.do(&query{Params: tool("rated__echo", "{}"), Key: alice}) // the only one that it takes
	s.old, s.batches = s.h.session("2025-11-25", "{}", alice), s.h.session("2025-03-26", "{}", alice)
	s.modern, _ = s.h.line()
	s.legacy, _ = s.h.line()
	s.legacy.do(&query{Legacy: true, Method: "initialize", Params: `"protocolVersion":"2025-11-25","capabilities":{}`})
	// Both follow the answer: what is equal may be behind still.
	equal := 0
	wait(t, "the first records", 10*time.Second, func() bool {
		var first []event
		before := s.seen
		first, s.offset = events(t, file, old)
		s.seen = len(first)
		if s.seen != before || s.seen != s.h.counts().sum("penstock_requests_total") {
			equal = 0
		}
		equal++
		return equal > 20
	})
	return s
}

// traced gives a query a trace of its own, in its header or in its message.
func (s *scribe) traced(q *query, inMessage bool) (trace string) {
	s.traces++
	trace = fmt.Sprintf("%032x", 0xabc0000+s.traces)
	parent := "00-" + trace + "-00f067aa0ba902b7-00"
	if inMessage {
		q.Meta += `,"traceparent":"` + parent + `"`
		return trace
	}
	if q.Header == nil {
		q.Header = map[string]string{}
	}
	q.Header["Traceparent"] = parent
	return trace
}

func (s *scribe) ask(q *query, who string) *reaction {
	if who != "" {
		q.Key = secretOf(who)
	}
	return s.h.do(q)
}

// told fills in what the answer tells of its event.
func (d due) told(r *reaction) due {
	d.request = r.Header.Get("X-Request-Id")
	d.out = int64(len(r.Message))
	for _, e := range r.Events {
		d.out += int64(len(e))
	}
	return d
}

func (s *scribe) arguments(more string) string {
	return `{"text":"` + marked + `"` + more + `}`
}

// calls are calls over HTTP, by what becomes of them.
var calls = map[string]struct {
	tool, more string // more arguments
	due        due
}{
	"ok":            {"echo", "", due{outcome: "ok"}},
	"failed tool":   {"broken", "", due{outcome: "error"}},
	"own error":     {"fail", "", due{outcome: "error", code: -32050}},
	"denied":        {"echo", `,"env":"prod"`, due{outcome: "refused", code: policyDenied, decision: "deny", rule: "no-prod"}},
	"hidden":        {"secret", "", due{outcome: "refused", code: -32602, decision: "hidden", rule: "hidden"}},
	"hook denies":   {"echo", `,"a":"hook-deny"`, due{outcome: "refused", code: hookRefused}},
	"hook panics":   {"echo", `,"a":"hook-panic"`, due{outcome: "failed", code: hookFailed}},
	"hook fails":    {"echo", `,"a":"hook-fail"`, due{outcome: "failed", code: hookFailed}},
	"rate of rated": {"", "", due{outcome: "refused", code: rateLimited}},
}

// call makes one of calls, in either era.
func (s *scribe) call(name, who string, legacy, inMessage bool) due {
	c := calls[name]
	d := c.due
	d.what, d.subject, d.method, d.kind = name, who, "tools/call", "tool"
	d.upstream, d.original, d.name = "up", c.tool, "u__"+c.tool
	if name == "rate of rated" {
		d.upstream, d.original, d.name = "rated", "echo", "rated__echo"
	}
	if d.decision == "" {
		d.decision, d.rule = "allow", "all"
	}
	q := &query{Params: tool(d.name, s.arguments(c.more))}
	if legacy {
		q.Session, d.session, d.subject = s.old, s.old, "alice"
	}
	d.trace = s.traced(q, inMessage)
	d.in = int64(len(q.message()))
	r := s.ask(q, d.subject)
	if r.Code != d.code {
		s.t.Fatalf("%s: %v", name, r)
	}
	if d.outcome != "ok" && (d.code != -32050 && d.code != 0) && r.Header.Get("X-Request-Id") == "" {
		s.t.Errorf("%s: the answer has no X-Request-Id", name)
	}
	return d.told(r)
}

// requests are requests of other kinds; each tells what is due.
var requests = map[string]func(s *scribe) []due{
	"prompt": func(s *scribe) []due {
		q := &query{Method: "prompts/get", Params: `"name":"u__greet","arguments":` + s.arguments("")}
		d := due{subject: "bob", method: "prompts/get", kind: "prompt", name: "u__greet", original: "greet", upstream: "up", decision: "allow", rule: "all", outcome: "ok"}
		d.trace, d.in = s.traced(q, false), int64(len(q.message()))
		return []due{d.told(s.ask(q, "bob"))}
	},
	"resource": func(s *scribe) []due {
		q := &query{Method: "resources/read", Params: `"uri":"file:///a"`}
		d := due{subject: "bob", method: "resources/read", kind: "resource", name: "file:///a", original: "file:///a", upstream: "rated", decision: "allow", rule: "all", outcome: "refused", code: rateLimited}
		d.trace, d.in = s.traced(q, false), int64(len(q.message()))
		return []due{d.told(s.ask(q, "bob"))}
	},
	"list": func(s *scribe) []due {
		q := &query{Method: "tools/list"}
		d := due{subject: "bob", method: "tools/list", outcome: "ok"}
		d.trace, d.in = s.traced(q, true), int64(len(q.message()))
		return []due{d.told(s.ask(q, "bob"))}
	},
	"unknown method": func(s *scribe) []due {
		q := &query{Method: "made/up"}
		d := due{subject: "bob", method: "made/up", outcome: "refused", code: -32601, in: int64(len(q.message()))}
		return []due{d.told(s.ask(q, "bob"))}
	},
	"unknown tool": func(s *scribe) []due {
		q := &query{Params: tool("u__nothing", s.arguments(""))}
		d := due{subject: "bob", method: "tools/call", outcome: "refused", code: -32602, in: int64(len(q.message()))}
		d.trace, d.in = s.traced(q, true), int64(len(q.message()))
		return []due{d.told(s.ask(q, "bob"))}
	},
	"no credential": func(s *scribe) []due {
		return []due{due{outcome: "refused", code: unauthenticated}.told(s.ask(&query{Params: echo(marked)}, ""))}
	},
	"wrong credential": func(s *scribe) []due {
		return []due{due{outcome: "refused", code: unauthenticated}.told(s.h.do(&query{Params: echo(marked), Key: "wrong-" + secretOf("alice")}))}
	},
	"foreign origin": func(s *scribe) []due {
		r := s.ask(&query{Params: echo(marked), Header: map[string]string{"Origin": "https://evil.example.com"}}, "alice")
		return []due{due{outcome: "refused", code: -31013}.told(r)}
	},
	"malformed": func(s *scribe) []due {
		return []due{due{subject: "bob", outcome: "refused", code: -32700, in: 10}.told(s.ask(&query{Body: `{"jsonrpc"`}, "bob"))}
	},
	"media type": func(s *scribe) []due {
		r := s.ask(&query{Params: echo(marked), Header: map[string]string{"Content-Type": "text/plain"}}, "bob")
		return []due{due{subject: "bob", outcome: "refused", code: -31012}.told(r)}
	},
	"too large": func(s *scribe) []due {
		r := s.ask(&query{Params: echo(strings.Repeat("x", 70_000))}, "bob")
		return []due{due{subject: "bob", outcome: "failed", code: -31008}.told(r)}
	},
	"unknown session": func(s *scribe) []due {
		r := s.ask(&query{Session: "nobody's", Params: tool("u__echo", "{}")}, "bob")
		return []due{due{subject: "bob", method: "tools/call", outcome: "refused", code: -32001, in: -1}.told(r)}
	},
	"notification": func(s *scribe) []due {
		s.ask(&query{Session: s.old, Body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`}, "alice")
		return nil
	},
	"response": func(s *scribe) []due {
		s.ask(&query{Session: s.old, Body: `{"jsonrpc":"2.0","id":"q","result":{}}`}, "alice")
		return nil
	},
	"hang up": func(s *scribe) []due {
		q := &query{Params: tool("u__slow", s.arguments(""))}
		d := due{subject: "bob", method: "tools/call", kind: "tool", name: "u__slow", original: "slow", upstream: "up", decision: "allow", rule: "all", outcome: "cancelled", out: -1}
		d.trace, d.in = s.traced(q, false), int64(len(q.message()))
		ctx, hangUp := context.WithCancel(context.Background())
		before := s.m.arrived(`"slow"`)
		go func() {
			for s.m.arrived(`"slow"`) == before && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			hangUp()
		}()
		q.Context = ctx
		if r := s.ask(q, "bob"); r.Err == nil {
			s.t.Errorf("an answer after all: %v", r)
		}
		hangUp()
		return []due{d}
	},
	"cancel": func(s *scribe) []due {
		q := &query{Session: s.old, ID: `"c"`, Params: tool("u__slow", s.arguments(""))}
		d := due{subject: "alice", session: s.old, method: "tools/call", kind: "tool", name: "u__slow", original: "slow", upstream: "up", decision: "allow", rule: "all", outcome: "cancelled", out: -1}
		d.trace, d.in = s.traced(q, false), int64(len(q.message()))
		before := s.m.arrived(`"slow"`)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ask(q, "alice")
		}()
		wait(s.t, "the slow call", 20*time.Second, func() bool { return s.m.arrived(`"slow"`) > before })
		s.ask(&query{Session: s.old, Body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}`}, "alice")
		<-done
		return []due{d}
	},
	"batch": func(s *scribe) (out []due) {
		var parts []string
		for n, name := range []string{"u__echo", "u__fail", "u__secret"} {
			q := &query{Legacy: true, ID: fmt.Sprint(n), Params: tool(name, s.arguments(""))}
			d := []due{
				{original: "echo", decision: "allow", rule: "all", outcome: "ok"},
				{original: "fail", decision: "allow", rule: "all", outcome: "error", code: -32050},
				{original: "secret", decision: "hidden", rule: "hidden", outcome: "refused", code: -32602},
			}[n]
			d.subject, d.session, d.method, d.kind, d.name, d.upstream, d.out = "alice", s.batches, "tools/call", "tool", name, "up", -1
			d.trace = s.traced(q, true)
			d.in = int64(len(q.message()))
			parts = append(parts, q.message())
			out = append(out, d)
		}
		parts = append(parts, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if r := s.ask(&query{Session: s.batches, Body: "[" + strings.Join(parts, ",") + "]"}, "alice"); !strings.HasPrefix(r.Message, "[") {
			s.t.Fatalf("a batch: %v", r)
		}
		return out
	},
	"GET and DELETE": func(s *scribe) []due {
		session, r := s.h.open("2025-11-25", "{}", secretOf("alice"))
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
		opened := due{subject: "alice", session: session, method: "initialize", outcome: "ok", in: int64(len(body))}.told(r)
		stream := s.h.stream(&query{Verb: http.MethodGet, Session: session, Key: secretOf("alice")})
		if stream.Status != http.StatusOK {
			s.t.Fatalf("GET: HTTP %d", stream.Status)
		}
		if r := s.ask(&query{Verb: http.MethodDelete, Session: session}, "alice"); r.Status != http.StatusNoContent {
			s.t.Fatalf("DELETE: %v", r)
		}
		stream.end()
		return []due{
			opened,
			{subject: "alice", session: session, method: "GET", outcome: "ok", out: -1},
			{subject: "alice", session: session, method: "DELETE", outcome: "ok"},
			due{subject: "alice", method: "DELETE", outcome: "refused", code: -32001}.told(s.ask(&query{Verb: http.MethodDelete, Session: session}, "alice")),
		}
	},
	"stdio": func(s *scribe) (out []due) {
		for _, legacy := range []bool{false, true} {
			for _, name := range []string{"echo", "fail"} {
				q := &query{Legacy: legacy, Params: tool("u__"+name, s.arguments(""))}
				d := due{stdio: true, subject: "local", method: "tools/call", kind: "tool", name: "u__" + name, original: name, upstream: "up", decision: "allow", rule: "all", outcome: "ok"}
				if name == "fail" {
					d.outcome, d.code = "error", -32050
				}
				d.trace, d.in = s.traced(q, true), int64(len(q.message()))
				l := s.modern
				if legacy {
					l = s.legacy
				}
				r := l.do(q)
				d.out = int64(len(r.Body))
				out = append(out, d)
			}
		}
		return out
	},
}

// settle waits until everything is recorded, and holds it against what is due.
func (s *scribe) settle(all []due) {
	s.t.Helper()
	var fresh []event
	wait(s.t, "the record", 20*time.Second, func() bool {
		more, next := events(s.t, s.file, s.offset)
		fresh, s.offset = append(fresh, more...), next
		return len(fresh) >= len(all)
	})
	s.seen += len(fresh)
	log := s.h.log.String()
	for i := range all {
		d, found := &all[i], 0
		for j := range fresh {
			if e := &fresh[j]; d.is(e) {
				if found++; found > 1 {
					s.t.Errorf("%s: recorded twice: %s", d.what, e)
					continue
				}
				if wrong := d.check(e); wrong != "" {
					s.t.Errorf("%s: %s\n%s", d.what, wrong, e)
				}
			}
		}
		if found == 0 {
			s.t.Errorf("%s: not recorded: %+v", d.what, *d)
		}
		if d.request != "" && !strings.Contains(log, "request="+d.request) {
			s.t.Errorf("%s: the log does not name the request %s", d.what, d.request)
		}
	}
	if len(fresh) != len(all) {
		s.t.Errorf("%d events for %d requests", len(fresh), len(all))
		for i := range fresh {
			s.t.Logf("  %s", &fresh[i])
		}
	}
}

func TestEachRequestLeavesExactlyOneEventThatTellsWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := newScribe(t, file, "")
	var names []string
	for name := range calls {
		names = append(names, name)
	}
	for name := range requests {
		names = append(names, name)
	}
	one := func(name string, who string, legacy, inMessage bool) []due {
		if _, is := calls[name]; is {
			out := []due{s.call(name, who, legacy, inMessage)}
			if strings.HasPrefix(name, "hook") { // or a few failures in a row leave the hook alone
				out = append(out, s.call("ok", who, false, false))
			}
			return out
		}
		all := requests[name](s)
		for i := range all {
			all[i].what = name
		}
		return all
	}
	for _, name := range names { // each at least once
		for _, legacy := range []bool{false, true} {
			s.settle(one(name, "alice", legacy, legacy))
		}
	}
	if t.Failed() {
		return
	}
	rapid.Check(t, func(r *rapid.T) {
		s.t = r
		var all []due
		for range rapid.IntRange(1, 5).Draw(r, "n") {
			all = append(all, one(rapid.SampledFrom(names).Draw(r, "what"), rapid.SampledFrom([]string{"alice", "bob"}).Draw(r, "who"),
				rapid.Bool().Draw(r, "legacy"), rapid.Bool().Draw(r, "in the message"))...)
		}
		s.settle(all)
	})
	s.t = t
	metrics := fmt.Sprint(s.h.counts())
	if n := s.h.counts(); n.sum("penstock_requests_total") != s.seen || n.sum("penstock_audit_records_written_total") != s.seen {
		t.Errorf("%d events; the counters tell %d requests and %d records", s.seen, n.sum("penstock_requests_total"), n.sum("penstock_audit_records_written_total"))
	}
	s.h.close()
	if ok, said := verify(t, file); !ok {
		t.Errorf("audit verify: %s", said)
	}
	whole := contents(t, file)
	if strings.Contains(whole, marked) {
		t.Error("arguments are recorded, though nobody asked for that")
	}
	for _, secret := range []string{secretOf("alice"), secretOf("bob"), s.old, s.batches} {
		for where, text := range map[string]string{"record": whole, "log": s.h.log.String(), "metrics": metrics} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s holds the secret %s", where, secret)
			}
		}
	}
}

func TestArgumentsAreRecordedWhereTheDocumentSaysSoAndRunsAreChained(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	first := newScribe(t, file, "")
	first.settle([]due{first.call("ok", "alice", false, false)})
	first.h.close()
	second := newScribe(t, file, ", arguments: on")
	before := second.offset
	second.settle([]due{second.call("ok", "alice", false, false), second.call("denied", "bob", false, false)})
	fresh, _ := events(t, file, before)
	for _, e := range fresh {
		var is struct{ Text string }
		if json.Unmarshal(e.Arguments, &is) != nil || is.Text != marked {
			t.Errorf("no arguments: %s", &e)
		}
	}
	second.h.close()
	ok, said := verify(t, file)
	if !ok || !strings.Contains(said, "1 file, 2 runs,") {
		t.Errorf("audit verify: %s", said)
	}
}
