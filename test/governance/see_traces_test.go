package governance_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-mcp/penstock"
)

// receiver is a collector of traces that keeps what it is sent.
type receiver struct {
	*httptest.Server

	mu    sync.Mutex // guards what follows
	spans []*otlp.Span
	raw   bytes.Buffer
}

func newReceiver(t testing.TB) *receiver {
	c := &receiver{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			in = z
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Error(err)
			return
		}
		var m collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			t.Error(err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(body)
		for _, of := range m.ResourceSpans {
			for _, in := range of.ScopeSpans {
				c.spans = append(c.spans, in.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// of are the spans of a trace: that of the request, and those of its calls.
func (c *receiver) of(trace string) (request, calls []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) != trace {
			continue
		}
		if s.Kind == otlp.Span_SPAN_KIND_CLIENT {
			calls = append(calls, s)
		} else {
			request = append(request, s)
		}
	}
	return request, calls
}

const clientSpan = "00f067aa0ba902b7"

// traces numbers the traces of a test.
type traces int

func (n *traces) next() string {
	*n++
	return fmt.Sprintf("%032x", 0xdef0000+int(*n))
}

// under gives a query a parent in its header, in its message, or another one in each: the message counts.
func under(q query, parent, where string) *query {
	q.Header = map[string]string{}
	if where != "message" {
		q.Header["Traceparent"] = parent
	}
	if where == "both" {
		q.Header["Traceparent"] = "00-" + strings.Repeat("e", 32) + "-" + clientSpan + "-01"
	}
	if where != "header" {
		q.Meta = `,"traceparent":"` + parent + `"`
	}
	return &q
}

func TestEachRequestIsASpanUnderTheClientsAndEachCallAChildOfIt(t *testing.T) {
	t.Parallel()
	millsOf(t, func(t *testing.T, m *mill) {
		c := newReceiver(t)
		h := build(t, over(m, fmt.Sprintf("policy:\n  - {id: all, allow: {tools: ['*'], prompts: ['*'], resources: ['*']}}\n  - {id: no, deny: {tools: ['*']}, when: 'has(arguments.env)'}\nobserve: {otlp: %q, sample: 0}", c.URL)))
		h.known("")
		type want struct {
			what, name, trace, errorType string
			call                         *grist // nil: nothing is called
			where                        string
		}
		var all []want
		var n traces
		for _, carrier := range h.carriers() {
			for _, where := range []string{"header", "message", "both"} {
				if strings.Contains(carrier.name, "stdio") && where != "message" {
					continue // there are no headers
				}
				for name, q := range map[string]query{
					"tools/call echo":   {Params: tool("echo", `{"text":"a-secret-argument"}`)},
					"prompts/get greet": {Method: "prompts/get", Params: `"name":"greet"`},
					"resources/read":    {Method: "resources/read", Params: `"uri":"file:///a"`},
				} {
					w := want{what: carrier.name + " " + where, name: name, trace: n.next(), where: where}
					sent := len(m.calls(""))
					if r := carrier.do(under(q, "00-"+w.trace+"-"+clientSpan+"-01", where)); r.Code != 0 {
						t.Fatalf("%s %s: %v", w.what, name, r)
					}
					call := m.calls("")[sent]
					w.call = &call
					all = append(all, w)
				}
				w := want{what: carrier.name + " " + where, name: "tools/call echo", trace: n.next(), errorType: "denied_by_policy"}
				carrier.do(under(query{Params: tool("echo", `{"env":1}`)}, "00-"+w.trace+"-"+clientSpan+"-01", where))
				all = append(all, w)
			}
		}
		w := want{what: "a failed tool", name: "tools/call broken", trace: n.next(), errorType: "tool_error", where: "header"}
		h.do(under(query{Params: tool("broken", `{}`)}, "00-"+w.trace+"-"+clientSpan+"-01", "header"))
		last := m.calls("")[len(m.calls(""))-1]
		w.call = &last
		all = append(all, w)
		h.close()
		for _, w := range all {
			request, calls := c.of(w.trace)
			if len(request) != 1 {
				t.Errorf("%s, %s: %d spans", w.what, w.name, len(request))
				continue
			}
			s := request[0]
			if s.Name != w.name || hex.EncodeToString(s.ParentSpanId) != clientSpan || s.Kind != otlp.Span_SPAN_KIND_SERVER {
				t.Errorf("%s, %s: the span is %v", w.what, w.name, s)
			}
			attributes := map[string]string{}
			for _, a := range s.Attributes {
				attributes[a.Key] = a.Value.GetStringValue()
			}
			if attributes["error.type"] != w.errorType || (s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR) != (w.errorType != "") ||
				attributes["penstock.server"] != "default" || attributes["penstock.upstream"] != "up" || attributes["mcp.method.name"] != strings.Fields(w.name)[0] {
				t.Errorf("%s, %s: the span has %v", w.what, w.name, attributes)
			}
			if w.call == nil {
				if len(calls) != 0 {
					t.Errorf("%s, %s: nothing was called, and there are %d spans of it", w.what, w.name, len(calls))
				}
				continue
			}
			if len(calls) != 1 || !bytes.Equal(calls[0].ParentSpanId, s.SpanId) || calls[0].Name != w.name {
				t.Errorf("%s, %s: the calls are %v", w.what, w.name, calls)
				continue
			}
			parent := "00-" + w.trace + "-" + hex.EncodeToString(calls[0].SpanId) + "-01"
			if got := w.call.Header.Get("Traceparent"); got != parent {
				t.Errorf("%s, %s: the upstream was sent the header %q, want %q", w.what, w.name, got, parent)
			}
			if has := strings.Contains(w.call.Body, `"traceparent":"`+parent+`"`); has != (w.where != "header") || strings.Contains(w.call.Body, clientSpan) {
				t.Errorf("%s, %s: the upstream was sent %s, want the parent %s there: %v", w.what, w.name, w.call.Body, parent, w.where != "header")
			}
		}
		if bytes.Contains(c.raw.Bytes(), []byte("a-secret-argument")) {
			t.Error("a span holds an argument")
		}
		if n := h.counts().sum("penstock_trace_spans_total", `outcome="exported"`); n != len(c.spans) {
			t.Errorf("%d spans came, and the counter tells %d", len(c.spans), n)
		}
	})
}

func TestTheClientsTraceparentPassesUnchangedWhereNothingIsRecorded(t *testing.T) {
	t.Parallel()
	c := newReceiver(t)
	for name, observe := range map[string]string{
		"no collector": "",
		"not sampled":  fmt.Sprintf("observe: {otlp: %q, sample: 0}", c.URL),
	} {
		for _, legacy := range []bool{false, true} {
			m := newMill(t, legacy)
			h := build(t, over(m, observe))
			h.known("")
			flag := map[string]string{"no collector": "01", "not sampled": "00"}[name]
			var n traces
			for _, carrier := range h.carriers() {
				for _, where := range []string{"header", "message"} {
					if strings.Contains(carrier.name, "stdio") && where == "header" {
						continue
					}
					parent := "00-" + n.next() + "-" + clientSpan + "-" + flag
					sent := len(m.calls(""))
					carrier.do(under(query{Params: echo("it")}, parent, where))
					call := m.calls("")[sent]
					if got := call.Header.Get("Traceparent"); got != parent {
						t.Errorf("%s, %s, %s: the header is %q, want %q", name, carrier.name, where, got, parent)
					}
					if has := strings.Contains(call.Body, `"traceparent":"`+parent+`"`); has != (where == "message") {
						t.Errorf("%s, %s, %s: the upstream was sent %s", name, carrier.name, where, call.Body)
					}
				}
				// Where the client has none, the upstream is sent none; nor is one that is not valid.
				for _, bad := range []string{"", "00-" + strings.Repeat("0", 32) + "-" + clientSpan + "-01", "garbage"} {
					sent := len(m.calls(""))
					q := &query{Params: echo("it")}
					if bad != "" {
						q.Header = map[string]string{"Traceparent": bad}
					}
					carrier.do(q)
					if got := m.calls("")[sent].Header.Values("Traceparent"); len(got) != 0 {
						t.Errorf("%s, %s: of %q the upstream was sent %q", name, carrier.name, bad, got)
					}
				}
			}
			h.close()
		}
	}
	if len(c.spans) != 0 {
		t.Errorf("%d spans came, though nothing is sampled", len(c.spans))
	}
}

// A hook in the process of its own is no reason to lose a trace: it is in the record and in the log of a failure.
func TestTheTraceIsInTheRecordOfARefusedCall(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/audit.jsonl"
	m := newMill(t, false)
	h := build(t, over(m, fmt.Sprintf("audit: {file: %q}", file)), penstock.WithHook(penstock.Hook{ID: "own", Func: denies, Events: []penstock.HookEvent{penstock.ToolBefore}}))
	var n traces
	trace := n.next()
	r := h.do(under(query{Params: echo("it")}, "00-"+trace+"-"+clientSpan+"-01", "header"))
	h.close()
	all, _ := events(t, file, 0)
	if len(all) != 1 || all[0].Trace != trace || r.Code != hookRefused || all[0].Request != r.Header.Get("X-Request-Id") || all[0].Request == "" {
		t.Errorf("%v; the record is %v", r, all)
	}
}
