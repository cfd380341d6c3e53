package observe

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex // guards what follows
	spans    map[string]*otlp.Span
	about    map[string]string // attributes of the last resource
	paths    []string
	headers  []http.Header
	requests int
}

func receive(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{spans: map[string]*otlp.Span{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		in := io.Reader(q.Body)
		if q.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(q.Body)
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
		var m otlp.TracesData // the wire form of an ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			t.Error(err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests++
		r.paths = append(r.paths, q.URL.Path)
		r.headers = append(r.headers, q.Header)
		for _, of := range m.ResourceSpans {
			r.about = map[string]string{}
			for _, a := range of.Resource.GetAttributes() {
				r.about[a.Key] = a.Value.GetStringValue()
			}
			for _, in := range of.ScopeSpans {
				for _, s := range in.Spans {
					r.spans[s.Name] = s
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

func tracer(t testing.TB, endpoint string, sample float64, log *slog.Logger) *Tracer {
	t.Helper()
	tr, err := NewTracer(TraceOptions{Endpoint: endpoint, Sample: sample, Version: "1.2.3", Instance: "one", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = tr.Close(ctx)
	})
	return tr
}

// discarding is a tracer whose collector takes everything and keeps nothing.
func discarding(t testing.TB, sample float64) *Tracer {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(s.Close)
	return tracer(t, s.URL, sample, nil)
}

// within is a context for what has to be done long before.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestSpansArriveWithTheirParents(t *testing.T) {
	r := receive(t)
	tr := tracer(t, r.URL, 0, nil)
	s := tr.Start("00-"+aTrace+"-"+aSpan+"-01", "rojo=00f067aa0ba902b7", "tools/call add")
	s.Set(AttrMethod, "tools/call")
	s.SetInt(AttrHTTPStatus, 200)
	call := s.Child("tools/call sum")
	south := string(call.AppendTraceparent(nil))
	call.Fail("it broke")
	call.End()
	s.End()
	s.End()
	if err := tr.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	in, out := r.spans["tools/call add"], r.spans["tools/call sum"]
	if in == nil || out == nil {
		t.Fatalf("not all arrived: %v", r.spans)
	}
	if hex.EncodeToString(in.TraceId) != aTrace || hex.EncodeToString(in.ParentSpanId) != aSpan || s.TraceID() != aTrace {
		t.Errorf("the request's span is not a child of the client's: %v", in)
	}
	if in.TraceState != "rojo=00f067aa0ba902b7" || in.Kind != otlp.Span_SPAN_KIND_SERVER {
		t.Errorf("state %q, kind %v", in.TraceState, in.Kind)
	}
	if !bytes.Equal(out.TraceId, in.TraceId) || !bytes.Equal(out.ParentSpanId, in.SpanId) || out.Kind != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("the call's span is not a child of the request's: %v", out)
	}
	if want := "00-" + aTrace + "-" + hex.EncodeToString(out.SpanId) + "-01"; south != want {
		t.Errorf("%s went south, want %s", south, want)
	}
	if out.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || out.Status.GetMessage() != "it broke" {
		t.Errorf("status %v", out.Status)
	}
	got := map[string]string{}
	for _, a := range in.Attributes {
		got[a.Key] = a.Value.String()
	}
	if !strings.Contains(got[AttrMethod], "tools/call") || !strings.Contains(got[AttrHTTPStatus], "200") {
		t.Errorf("attributes %v", got)
	}
	if r.about["service.name"] != "penstock" || r.about["service.version"] != "1.2.3" || r.about["service.instance.id"] != "one" {
		t.Errorf("resource %v", r.about)
	}
	if r.paths[0] != "/v1/traces" {
		t.Errorf("path %s", r.paths[0])
	}
	if got, want := tr.Stats(), (Stats{Exported: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTheEnvironmentHasNoSay(t *testing.T) {
	elsewhere := receive(t)
	authority := httptest.NewTLSServer(nil)
	defer authority.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": elsewhere.URL, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": elsewhere.URL,
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-secret=1",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_EXPORTER_OTLP_INSECURE": "false",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": file,
		"OTEL_RESOURCE_ATTRIBUTES":       "service.name=mallory,leak=yes", "OTEL_SERVICE_NAME": "mallory",
		"OTEL_TRACES_SAMPLER": "always_off", "OTEL_BSP_MAX_QUEUE_SIZE": "1", "OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "0",
		"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1", "OTEL_SDK_DISABLED": "true",
		"HTTP_PROXY": elsewhere.URL, "http_proxy": elsewhere.URL, "ALL_PROXY": elsewhere.URL,
	} {
		t.Setenv(name, value)
	}
	r := receive(t)
	tr := tracer(t, r.URL+"/", 1, nil)
	if tr.post.transport.Proxy != nil { // one for an address of this machine would not be used anyway
		t.Error("proxies are taken from the environment")
	}
	for range 10 {
		s := tr.Start("", "", "ping")
		s.Set(AttrMethod, "ping")
		s.End()
	}
	if err := tr.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := tr.Stats(); got.Exported != 10 {
		t.Errorf("%+v", got)
	}
	elsewhere.mu.Lock()
	defer elsewhere.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if elsewhere.requests != 0 {
		t.Error("traces went where the environment said")
	}
	if r.about["service.name"] != "penstock" || r.about["leak"] != "" {
		t.Errorf("resource %v", r.about)
	}
	if h := r.headers[0]; h.Get("Authorization") != "" || h.Get("X-Secret") != "" || h.Get("Content-Type") != "application/x-protobuf" || h.Get("Content-Encoding") != "" {
		t.Errorf("headers %v", h)
	}
	if a := r.spans["ping"].Attributes; len(a) != 1 || a[0].Value.GetStringValue() != "ping" {
		t.Errorf("attributes %v", a)
	}
}

func TestAnEndpointWithAPathKeepsIt(t *testing.T) {
	r := receive(t)
	tr := tracer(t, r.URL+"/collect/here", 1, nil)
	tr.Start("", "", "ping").End()
	if err := tr.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.paths) != 1 || r.paths[0] != "/collect/here" {
		t.Errorf("paths %v", r.paths)
	}
}

func TestOptionsThatCannotHoldAreRefused(t *testing.T) {
	for _, o := range []TraceOptions{
		{Endpoint: ""},
		{Endpoint: "127.0.0.1:4318"},
		{Endpoint: "grpc://127.0.0.1:4317"},
		{Endpoint: "http://"},
		{Endpoint: "http://%zz"},
		{Endpoint: "http://user:secret@127.0.0.1:4318"},
		{Endpoint: "http://127.0.0.1:4318/?a=b"},
		{Endpoint: "http://127.0.0.1:4318", Sample: -0.1},
		{Endpoint: "http://127.0.0.1:4318", Sample: 1.1},
		{Endpoint: "http://127.0.0.1:4318", Sample: math.NaN()},
	} {
		if _, err := NewTracer(o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestTheParentDecidesWhatIsSampled(t *testing.T) {
	all, none := discarding(t, 1), discarding(t, 0)
	var off *Tracer
	yes, no := "00-"+aTrace+"-"+aSpan+"-03", "00-"+aTrace+"-"+aSpan+"-02"
	later := "cc-" + aTrace + "-" + aSpan + "-00-more"
	for _, c := range []struct {
		name    string
		t       *Tracer
		parent  string
		sampled bool
		south   string // what goes on unchanged
		trace   string // "*": any
	}{
		{"all, sampled parent", all, yes, true, "", aTrace},
		{"all, parent that is not", all, no, false, no, aTrace},
		{"all, of a later version", all, later, false, later, aTrace},
		{"all, no parent", all, "", true, "", "*"},
		{"all, not valid", all, "nonsense", true, "", "*"},
		{"none, sampled parent", none, yes, true, "", aTrace},
		{"none, parent that is not", none, no, false, no, aTrace},
		{"none, no parent", none, "", false, "", "*"},
		{"off, sampled parent", off, yes, false, yes, aTrace},
		{"off, no parent", off, "", false, "", ""},
		{"off, not valid", off, "nonsense", false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.t.Start(c.parent, "", "ping")
			defer s.End()
			if s.Sampled() != c.sampled {
				t.Errorf("sampled: %v", s.Sampled())
			}
			if got := s.TraceID(); got != c.trace && (c.trace != "*" || len(got) != 32) {
				t.Errorf("trace %q, want %q", got, c.trace)
			}
			south := string(s.AppendTraceparent([]byte("x")))[1:]
			if c.sampled {
				r, ok := parseTraceparent(south)
				if !ok || hex.EncodeToString(r.trace[:]) != s.TraceID() || hex.EncodeToString(r.span[:]) == aSpan || r.flags&sampledBit == 0 {
					t.Errorf("%q goes south", south)
				}
				if c.parent == yes && r.flags != 3 {
					t.Errorf("flags %x, want those of the parent", r.flags)
				}
			} else if south != c.south {
				t.Errorf("%q goes south, want %q", south, c.south)
			}
			child := s.Child("call")
			if child.Sampled() != c.sampled || child.TraceID() != s.TraceID() {
				t.Errorf("the child is sampled: %v, in trace %s", child.Sampled(), child.TraceID())
			}
			child.End()
		})
	}
}

func TestAShareOfTheRootsIsSampled(t *testing.T) {
	tr := discarding(t, 0.25)
	n := 0
	const of = 4000
	for range of {
		s := tr.Start("", "", "ping")
		if s.Sampled() {
			n++
		}
	}
	if n < of/4-250 || n > of/4+250 { // nine standard deviations
		t.Errorf("%d of %d are sampled", n, of)
	}
}

func TestOddTextsDoNotSpoilABatch(t *testing.T) {
	r := receive(t)
	tr := tracer(t, r.URL, 1, nil)
	s := tr.Start("", "", "odd")
	s.Set("bad", "a\xffb")
	s.Set("long", strings.Repeat("ä", 5000))
	s.Fail("\xff" + strings.Repeat("x", 5000))
	child := s.Child("\xff")
	child.End()
	s.End()
	state := tr.Start("00-"+aTrace+"-"+aSpan+"-01", "not a state\xff", "bad state")
	state.End()
	if err := tr.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	odd := r.spans["odd"]
	if odd == nil || r.spans["\uFFFD"] == nil || r.spans["bad state"] == nil {
		t.Fatalf("not all arrived: %v, %+v", r.spans, tr.Stats())
	}
	for _, a := range odd.Attributes {
		if v := a.Value.GetStringValue(); len(v) > maxValue || a.Key == "bad" && v != "a\uFFFDb" {
			t.Errorf("%s is %d bytes: %.20q", a.Key, len(v), v)
		}
	}
	if len(odd.Status.GetMessage()) > maxValue+4 {
		t.Errorf("the status has %d bytes", len(odd.Status.GetMessage()))
	}
}

func TestANilTracerAndAZeroSpanDoNothing(t *testing.T) {
	var tr *Tracer
	if err := tr.Close(context.Background()); err != nil || tr.Stats() != (Stats{}) {
		t.Error(err)
	}
	for _, s := range []Span{{}, tr.Start("", "", "")} {
		s.Set("a", "b")
		s.SetInt("a", 1)
		s.Fail("")
		s.End()
		if s.Child("x") != (Span{}) || s.TraceID() != "" || len(s.AppendTraceparent(nil)) != 0 || s.Sampled() {
			t.Errorf("%+v", s)
		}
	}
}

func TestATracerThatWasNeverUsedStartsNothing(t *testing.T) {
	tr := tracer(t, "http://127.0.0.1:1", 1, nil)
	if err := tr.Close(within(t)); err != nil {
		t.Error(err)
	}
	if s := tr.Start("", "", "late"); s.Sampled() {
		t.Error("a span is recorded after the end")
	}
}

func TestUnsampledSpansDoNotAlloc(t *testing.T) {
	tr := discarding(t, 0)
	var off *Tracer
	dst := make([]byte, 0, 64)
	for name, f := range map[string]func() Span{
		"root":          func() Span { return tr.Start("", "", "ping") },
		"with a parent": func() Span { return tr.Start(parentUnsampled, "a=b", "ping") },
		"off":           func() Span { return off.Start(parentUnsampled, "a=b", "ping") },
	} {
		t.Run(name, func(t *testing.T) {
			steady(t, name, func() {
				s := f()
				s.Set(AttrMethod, "ping")
				call := s.Child("call")
				dst = call.AppendTraceparent(dst[:0])
				call.End()
				s.Fail("no")
				s.End()
			})
		})
	}
}
