package governance_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
)

func denies(context.Context, *penstock.HookCall) (penstock.HookVerdict, error) {
	return penstock.HookVerdict{Deny: true}, nil
}

func passes(context.Context, *penstock.HookCall) (penstock.HookVerdict, error) {
	return penstock.HookVerdict{}, nil
}

// series are the names with labels that are of the gateway.
func (c counts) series() (n int) {
	for name := range c {
		if strings.HasPrefix(name, "penstock_") {
			n++
		}
	}
	return n
}

func TestNothingThatAClientMakesUpBecomesALabel(t *testing.T) {
	t.Parallel()
	const invented = 5000
	m := newMill(t, false)
	h := build(t, over(m, keyed("alice")+"policy: [{id: all, allow: {tools: ['*'], prompts: ['*'], resources: ['*']}}]\n"))
	alice := secretOf("alice")
	h.known(alice)
	session := h.session("2025-11-25", "{}", alice)
	one := func(n int, name string) *query {
		switch n % 8 {
		case 0:
			return &query{Method: name, Key: alice}
		case 1:
			return &query{Params: tool(name, "{}"), Key: alice}
		case 2:
			return &query{Session: session, Method: name, Key: alice}
		case 3:
			return &query{Session: session, Params: tool(name, "{}"), Key: alice}
		case 4:
			return &query{Method: "prompts/get", Params: `"name":"` + name + `"`, Key: alice}
		case 5:
			return &query{Method: "resources/read", Params: `"uri":"x:` + name + `"`, Key: alice}
		case 6:
			return &query{Params: echo(name), Key: name}
		default:
			return &query{Params: echo(name), Key: alice, Header: map[string]string{"Mcp-Protocol-Version": name, "Origin": "https://" + name}}
		}
	}
	for n := range 8 { // each kind once
		h.do(one(n, "made-up-first"))
	}
	before := h.counts().series()
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for n := next.Add(1); n <= invented; n = next.Add(1) {
				r, err := h.request(one(int(n), fmt.Sprintf("made-up-%d-%x", n, rand.Uint64())))
				if err != nil {
					t.Error(err)
					return
				}
				r.RemoteAddr = "127.0.0.1:1"
				h.gw.Handler().ServeHTTP(httptest.NewRecorder(), r) // without a network in between, as they are many
			}
		})
	}
	all.Wait()
	after := h.counts()
	if n := after.series(); n != before {
		t.Errorf("there were %d series, and after %d made up names there are %d", before, invented, n)
	}
	if n := after.sum("penstock_requests_total"); n < invented {
		t.Errorf("%d requests were counted", n)
	}
	for name := range after {
		if strings.Contains(name, "made-up") {
			t.Errorf("the series %s", name)
		}
	}
}

func TestTheOutcomeOfACallToAnUpstreamIsNamed(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		m := newMill(t, legacy)
		m.more = ", timeout: 500ms"
		h := build(t, over(m, ""))
		h.known("")
		outcome := func(word string) int {
			return h.counts().sum("penstock_upstream_call_duration_seconds_count", `upstream="up"`, `method="tools/call"`, `outcome="`+word+`"`)
		}
		for _, c := range []struct{ tool, word string }{
			{"echo", "ok"},
			{"fail", "error"},
			{"broken", "error"},
			{"slow", "timeout"},
			{"cut", "lost"},
			{"junk", "invalid"},
		} {
			before := outcome(c.word)
			r := h.do(&query{Params: tool(c.tool, "{}")})
			if n := outcome(c.word) - before; n != 1 {
				t.Errorf("legacy %v, %s: %d more of outcome %s: %v", legacy, c.tool, n, c.word, r)
			}
		}
		m.CloseClientConnections()
		m.Close()
		before := outcome("unavailable") + h.counts().sum("penstock_requests_total", `code="upstream_unavailable"`)
		h.do(&query{Params: echo("it")})
		if n := outcome("unavailable") + h.counts().sum("penstock_requests_total", `code="upstream_unavailable"`); n == before {
			t.Errorf("legacy %v: nothing tells that the upstream is gone", legacy)
		}
	}
}

var documented = regexp.MustCompile("(?m)^\\| `(penstock_[a-z_]+)` \\| (counter|histogram) \\|")

// What the page describes and this test does not make move, with why.
var never = map[string]string{
	"penstock_panics_total":                "there is no known fault to make",
	"penstock_metrics_folded_total":        "it takes 2000 names of the document",
	"penstock_upstream_child_starts_total": "it takes a child that speaks the protocol",
	"penstock_durable_transitions_total":   "it takes a pinned upstream: test/durable_gateway makes it move",
}

func TestEveryCounterOfThePageMoves(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"granted","token_type":"Bearer","expires_in":300}`)
	}))
	t.Cleanup(tokens.Close)
	c := newReceiver(t)
	total := counts{}
	add := func(n counts) {
		for name, v := range n {
			if strings.HasPrefix(name, "penstock_") {
				total[name] += v
			}
		}
	}

	m := newMill(t, false)
	m.more = fmt.Sprintf(", rate: 60/m, credentials: {client_credentials: {token_url: %q, client_id: a, client_secret: b}}", tokens.URL)
	doc := over(m, keyed("alice", "bob")+fmt.Sprintf(`policy:
  - {id: all, allow: {tools: ["*"], prompts: ["*"], resources: ["*"]}}
  - {id: no-prod, deny: {tools: ["*"]}, when: 'has(arguments.env)'}
  - {id: hidden, deny: {tools: [secret]}}
rate: {per_principal: 60/m, burst: 12, global: 6000/m}
audit: {file: %q, flush: 1ms, max_size: 2KiB}
observe: {otlp: %q, sample: 1}
`, filepath.Join(t.TempDir(), "audit.jsonl"), c.URL))
	h := build(t, doc, penstock.WithHook(penstock.Hook{ID: "own", Func: passes, Events: []penstock.HookEvent{penstock.ToolBefore}, Timeout: 10 * time.Second}))
	for _, key := range []string{"", "wrong", secretOf("alice"), secretOf("bob")} {
		h.do(&query{Method: "tools/list", Key: key})
		for range 7 {
			h.do(&query{Params: echo("it"), Key: key})
		}
		h.do(&query{Params: tool("echo", `{"env":1}`), Key: key})
		h.do(&query{Params: tool("secret", `{}`), Key: key})
		h.do(&query{Method: "tasks/get", Params: `"taskId":"nobody-s"`, Key: key, Header: map[string]string{"Mcp-Name": "nobody-s"}, Caps: `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`})
		for range 4 {
			h.do(&query{Method: "ping", Key: key})
		}
	}
	h.reload(doc)
	h.close()
	add(h.counts())
	for label, values := range map[string][]string{
		"penstock_identities_total|outcome":                    {"ok", "missing", "unknown_key"},
		"penstock_decisions_total|effect":                      {"allow", "deny", "hidden"},
		"penstock_limited_total|scope":                         {"principal", "upstream"},
		"penstock_hook_duration_seconds_count|outcome":         {"allow"},
		"penstock_grant_duration_seconds_count|outcome":        {"ok"},
		"penstock_lists_total|outcome":                         {"complete"},
		"penstock_config_reloads_total|outcome":                {"ok"},
		"penstock_trace_spans_total|outcome":                   {"exported"},
		"penstock_requests_total|code":                         {"unauthenticated", "denied_by_policy", "rate_limited", "invalid_params"},
		"penstock_upstream_call_duration_seconds_count|method": {"tools/call", "tools/list"},
	} {
		name, label, _ := strings.Cut(label, "|")
		for _, v := range values {
			if total.sum(name, label+`="`+v+`"`) == 0 {
				t.Errorf("%s{%s=%q} did not move", name, label, v)
			}
		}
	}

	// A record that is never written, until what may wait is full.
	g := build(t, over(newMill(t, false), "audit: {file: /dev/full, arguments: on, flush: 1ms}"))
	g.known("")
	pad := strings.Repeat("p", 60<<10)
	stop := make(chan struct{})
	turns := load(t, stop, func(int, int) { g.do(heavy("it", pad)) })
	wait(t, "losses", 60*time.Second, func() bool { return g.counts().sum("penstock_audit_records_lost_total") > 0 })
	close(stop)
	turns()
	add(g.counts())
	g.close()

	found := 0
	for _, f := range documented.FindAllStringSubmatch(string(page), -1) {
		name := f[1]
		if f[2] == "histogram" {
			name += "_count"
		}
		if found++; never[f[1]] == "" && total.sum(name) == 0 {
			t.Errorf("%s did not move", name)
		}
	}
	if found < 15 {
		t.Errorf("the page has %d counters", found)
	}
}
