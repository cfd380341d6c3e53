package observe

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// page is one look at the metrics, parsed by the reader that others use.
type page map[string]*dto.MetricFamily

func look(t testing.TB, m *Metrics) page {
	t.Helper()
	r := httptest.NewRecorder()
	m.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if r.Code != http.StatusOK {
		t.Fatalf("status %d: %s", r.Code, r.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value is that of the one sample with these labels, given as name, value, …;
// the count for histograms; ok is false if there is none.
func (p page) value(name string, labels ...string) (v float64, ok bool) {
	f := p[name]
	if f == nil {
		return 0, false
	}
next:
	for _, m := range f.Metric {
		got := map[string]string{}
		for _, l := range m.Label {
			got[l.GetName()] = l.GetValue()
		}
		for i := 0; i < len(labels); i += 2 {
			if got[labels[i]] != labels[i+1] {
				continue next
			}
		}
		switch f.GetType() {
		case dto.MetricType_COUNTER:
			return m.GetCounter().GetValue(), true
		case dto.MetricType_HISTOGRAM:
			return float64(m.GetHistogram().GetSampleCount()), true
		default:
			return m.GetGauge().GetValue(), true
		}
	}
	return 0, false
}

func (p page) want(t *testing.T, v float64, name string, labels ...string) {
	t.Helper()
	if got, ok := p.value(name, labels...); !ok || got != v {
		t.Errorf("%s%v is %v (there: %v), want %v", name, labels, got, ok, v)
	}
}

func everything() Snapshot {
	return Snapshot{
		Upstreams: []UpstreamSnapshot{
			{Key: "files", State: "up", Breaker: "closed", Child: true, Running: true, Starts: 3, Sessions: 2, InFlight: 1},
			{Key: "docs", State: "down", Breaker: "half-open", Replicas: []UpstreamSnapshot{{Key: "http://10.0.0.1/", State: "down"}, {Key: "http://10.0.0.2/", State: "down"}}},
		},
		InFlight: 4, NorthSessions: 5, Streams: 6, Listeners: 7, Parked: 8,
		DurableRoutes: map[string]int{"routed": 14}, AuditWritten: 9, AuditLost: 10, AuditFailures: 11, AuditRotations: 12, AuditFailing: true, AuditQueued: 13,
		StoreUp: true, CacheBytes: 14, Draining: true,
	}
}

// used returns metrics that were told of everything once.
func used(t testing.TB) *Metrics {
	t.Helper()
	m := NewMetrics("1.2.3")
	m.Watch(everything)
	tracer, err := NewTracer(TraceOptions{Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	m.WatchTracer(tracer)
	m.Request(&RequestFacts{Server: "default", Method: "tools/call", Era: "modern", Outcome: OK, Duration: 3 * time.Millisecond, BytesIn: 100, BytesOut: 2000})
	m.Request(&RequestFacts{Server: "default", Method: "tools/call", Era: "legacy", Outcome: Refused, Code: int(fault.PolicyDenied), BytesIn: 50, BytesOut: 60})
	m.UpstreamCall("files", "tools/call", "ok", time.Second)
	m.List("default", "tools", "partial")
	m.Identity("ok")
	m.Decision("deny")
	m.Limited("principal")
	m.Task("minted")
	m.DurableTransition("routed")
	m.Hook("dlp", "tool.before", "deny", time.Millisecond)
	m.Grant("files", "token_exchange", "failed", time.Minute)
	m.Reload(false)
	return m
}

func TestWhatWasToldIsOnThePage(t *testing.T) {
	p := look(t, used(t))
	p.want(t, 1, "penstock_requests_total", "server", "default", "method", "tools/call", "era", "modern", "outcome", "ok", "code", "")
	p.want(t, 1, "penstock_requests_total", "era", "legacy", "outcome", "refused", "code", "denied_by_policy")
	p.want(t, 1, "penstock_request_duration_seconds", "server", "default", "method", "tools/call", "outcome", "ok")
	p.want(t, 150, "penstock_request_received_bytes_total", "server", "default")
	p.want(t, 2060, "penstock_request_sent_bytes_total", "server", "default")
	p.want(t, 1, "penstock_upstream_call_duration_seconds", "upstream", "files", "method", "tools/call", "outcome", "ok")
	p.want(t, 1, "penstock_lists_total", "server", "default", "kind", "tools", "outcome", "partial")
	p.want(t, 1, "penstock_identities_total", "outcome", "ok")
	p.want(t, 1, "penstock_decisions_total", "effect", "deny")
	p.want(t, 1, "penstock_limited_total", "scope", "principal")
	p.want(t, 1, "penstock_hook_duration_seconds", "hook", "dlp", "event", "tool.before", "outcome", "deny")
	p.want(t, 1, "penstock_grant_duration_seconds", "upstream", "files", "kind", "token_exchange", "outcome", "failed")
	p.want(t, 1, "penstock_config_reloads_total", "outcome", "failed")
	p.want(t, 0, "penstock_config_reloads_total", "outcome", "ok")
	p.want(t, 0, "penstock_panics_total")
	p.want(t, 1, "penstock_build_info", "version", "1.2.3")
	h := p["penstock_request_duration_seconds"].Metric[0].GetHistogram()
	if got, want := h.GetBucket()[0].GetUpperBound(), 0.001; got != want {
		t.Errorf("the first bucket ends at %v, want %v", got, want)
	}
	if got := h.GetBucket()[len(buckets)-1].GetUpperBound(); got != 600 {
		t.Errorf("the last bucket ends at %v, want 600", got)
	}
	if p["go_goroutines"] == nil || p["process_start_time_seconds"] == nil {
		t.Error("no metrics of the runtime and the process")
	}
}

func TestWhatIsWatchedIsOnThePage(t *testing.T) {
	m := used(t)
	p := look(t, m)
	for name, want := range map[string]float64{
		"requests_in_flight": 4, "sessions": 5, "streams": 6, "listeners": 7, "parked_calls": 8,
		"audit_records_written_total": 9, "audit_records_lost_total": 10, "audit_write_failures_total": 11, "audit_rotations_total": 12,
		"audit_failing": 1, "audit_queued_bytes": 13, "store_up": 1, "cache_bytes": 14, "draining": 1,
	} {
		p.want(t, want, "penstock_"+name)
	}
	p.want(t, 1, "penstock_upstream_state", "upstream", "files", "state", "up")
	p.want(t, 0, "penstock_upstream_state", "upstream", "files", "state", "down")
	p.want(t, 1, "penstock_upstream_breaker_state", "upstream", "docs", "state", "half-open")
	p.want(t, 3, "penstock_upstream_child_starts_total", "upstream", "files")
	p.want(t, 1, "penstock_upstream_child_running", "upstream", "files")
	p.want(t, 2, "penstock_upstream_replicas", "upstream", "docs", "state", "down")
	p.want(t, 2, "penstock_upstream_sessions", "upstream", "files")
	p.want(t, 1, "penstock_upstream_calls_in_flight", "upstream", "files")
	if _, there := p.value("penstock_upstream_child_running", "upstream", "docs"); there {
		t.Error("an upstream without a process has the state of one")
	}

	m.Watch(func() Snapshot { return Snapshot{Streams: 60} })
	p = look(t, m)
	p.want(t, 60, "penstock_streams")
	if p["penstock_upstream_state"] != nil {
		t.Error("an upstream of the earlier function is still there")
	}
	m.Watch(nil)
	if p := look(t, m); p["penstock_streams"] != nil {
		t.Error("nothing is watched, and something is told")
	}
}

func TestNoAddressIsALabel(t *testing.T) {
	r := httptest.NewRecorder()
	used(t).Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if strings.Contains(r.Body.String(), "10.0.0.1") {
		t.Error("the address of a replica is on the page")
	}
}

func TestAnOddSnapshotDoesNotSpoilThePage(t *testing.T) {
	for name, f := range map[string]func() Snapshot{
		"panics":            func() Snapshot { panic("no gateway") },
		"an upstream twice": func() Snapshot { return Snapshot{Upstreams: []UpstreamSnapshot{{Key: "a"}, {Key: "a"}}} },
		"not UTF-8":         func() Snapshot { return Snapshot{Upstreams: []UpstreamSnapshot{{Key: "\xff"}, {Key: "\xfe"}}} },
		"very many": func() (s Snapshot) {
			for i := range 2 * maxIDs {
				s.Upstreams = append(s.Upstreams, UpstreamSnapshot{Key: fmt.Sprint(i)})
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMetrics("v")
			m.Identity("ok")
			m.Watch(f)
			p := look(t, m)
			p.want(t, 1, "penstock_identities_total", "outcome", "ok")
			if n := len(p["penstock_upstream_sessions"].GetMetric()); n > maxIDs {
				t.Errorf("%d upstreams are told", n)
			}
		})
	}
}

func TestTextThatIsNotUTF8IsCounted(t *testing.T) {
	m := NewMetrics("\xff")
	m.Request(&RequestFacts{Server: "\xff", Method: "\xff", Era: "\xff", Outcome: "\xff"})
	m.UpstreamCall("\xff", "\xff", "\xff", -time.Second)
	m.Hook("\xff", "\xff", "\xff", 0)
	m.Identity("\xff")
	p := look(t, m)
	p.want(t, 1, "penstock_requests_total", "server", "\uFFFD", "method", "other")
	p.want(t, 1, "penstock_upstream_call_duration_seconds", "upstream", "\uFFFD")
}

func TestPanicsAreCountedTwice(t *testing.T) {
	m := NewMetrics("v")
	m.Request(&RequestFacts{Outcome: Panic})
	p := look(t, m)
	p.want(t, 1, "penstock_panics_total")
	p.want(t, 1, "penstock_requests_total", "outcome", "panic")
}

func TestNilMetricsDoNothing(t *testing.T) {
	var m *Metrics
	m.Request(&RequestFacts{})
	m.UpstreamCall("", "", "", 0)
	m.Identity("")
	m.Decision("")
	m.Limited("")
	m.Hook("", "", "", 0)
	m.Grant("", "", "", 0)
	m.List("", "", "")
	m.Reload(true)
	m.Watch(nil)
	m.WatchTracer(nil)
	r := httptest.NewRecorder()
	m.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if r.Code != http.StatusNotFound {
		t.Errorf("status %d, want 404", r.Code)
	}
}

func TestOnlyReadingIsServed(t *testing.T) {
	h := NewMetrics("v").Handler()
	for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405} {
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest(method, "/metrics", nil))
		if r.Code != want {
			t.Errorf("%s: status %d, want %d", method, r.Code, want)
		}
	}
}

func TestOpenMetricsIsServedToWhoAsksForIt(t *testing.T) {
	r, q := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	q.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	used(t).Handler().ServeHTTP(r, q)
	body, err := io.ReadAll(r.Result().Body)
	if err != nil || !strings.HasPrefix(r.Header().Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(string(body), "# EOF\n") {
		t.Errorf("%v, %s: %.200s", err, r.Header().Get("Content-Type"), body)
	}
}

func TestMethodsAreThoseOfTheProtocol(t *testing.T) {
	m := NewMetrics("v")
	for _, method := range []string{"tools/call", "notifications/cancelled", "notifications/tools/list_changed", "subscriptions/listen"} {
		m.Request(&RequestFacts{Method: method})
		look(t, m).want(t, 1, "penstock_requests_total", "method", method)
	}
	for i := range 10_000 {
		m.Request(&RequestFacts{Method: fmt.Sprintf("tools/%d", i)})
	}
	p := look(t, m)
	p.want(t, 10_000, "penstock_requests_total", "method", "other")
	if n := len(p["penstock_requests_total"].Metric); n != 5 {
		t.Errorf("%d combinations, want 5", n)
	}
}

func TestCodesAreThoseOfTheCatalogue(t *testing.T) {
	m := NewMetrics("v")
	for code := range 5000 {
		m.Request(&RequestFacts{Code: -code, Outcome: Error})
	}
	for _, e := range fault.All() {
		m.Request(&RequestFacts{Code: int(e.Code), Outcome: Error})
	}
	p := look(t, m)
	p.want(t, 4999, "penstock_requests_total", "code", "upstream")
	p.want(t, 1, "penstock_requests_total", "code", "rate_limited")
	p.want(t, 1, "penstock_requests_total", "code", "")
	if n, want := len(p["penstock_requests_total"].Metric), len(fault.All())+2; n != want {
		t.Errorf("%d combinations, want %d", n, want)
	}
}

func TestLabelValuesAreBounded(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine that exchanges thousands of maps: nothing to race with, and slow")
	}
	m := NewMetrics("v")
	const many = maxIDs + 500
	for i := range many {
		id := fmt.Sprint("id", i)
		m.Request(&RequestFacts{Server: id})
		m.UpstreamCall(id, "tools/call", "ok", 0)
		m.Hook(id, "tool.before", "allow", 0)
		m.Grant(id, "static", "ok", 0)
		m.List(id, "tools", "complete")
		m.UpstreamCall("one", id, id, 0)
		m.Hook("one", id, id, 0)
		m.Request(&RequestFacts{Server: "id0", Era: id, Outcome: id})
		m.Identity(id)
		m.Decision(id)
		m.Limited(id)
	}
	p := look(t, m)
	for name, limit := range map[string]int{
		"penstock_request_received_bytes_total":   maxIDs + 1,
		"penstock_requests_total":                 maxIDs + 1 + maxSets + 1,
		"penstock_upstream_call_duration_seconds": maxIDs + 1 + maxSets + 1,
		"penstock_hook_duration_seconds":          maxIDs + 1 + maxSets + 1,
		"penstock_grant_duration_seconds":         maxIDs + 1,
		"penstock_lists_total":                    maxIDs + 1,
		"penstock_identities_total":               maxWords + 1,
		"penstock_decisions_total":                maxWords + 1,
		"penstock_limited_total":                  maxWords + 1,
	} {
		if n := len(p[name].GetMetric()); n > limit || n == 0 {
			t.Errorf("%s has %d combinations, at most %d", name, n, limit)
		}
	}
	p.want(t, 500, "penstock_grant_duration_seconds", "upstream", "other", "kind", "static", "outcome", "ok")
	p.want(t, many-maxWords, "penstock_identities_total", "outcome", "other")
	p.want(t, 500, "penstock_metrics_folded_total", "metric", "penstock_grant_duration_seconds")
}

func TestCountingFromManySidesLosesNothing(t *testing.T) {
	m := NewMetrics("v")
	m.Watch(everything)
	const sides, each = 8, 300
	var wg sync.WaitGroup
	for range sides {
		wg.Go(func() {
			for i := range each {
				m.Request(&RequestFacts{Server: fmt.Sprint(i % 50), Method: "tools/call", Outcome: OK})
				m.UpstreamCall(fmt.Sprint(i), "tools/call", "ok", time.Duration(i))
			}
		})
	}
	for range 3 {
		look(t, m)
	}
	wg.Wait()
	sum := 0.0
	for _, one := range look(t, m)["penstock_requests_total"].Metric {
		sum += one.GetCounter().GetValue()
	}
	if sum != sides*each {
		t.Errorf("%v requests counted, want %d", sum, sides*each)
	}
}

func TestRequestDoesNotAlloc(t *testing.T) {
	m := NewMetrics("v")
	f := &RequestFacts{Server: "default", Method: "tools/call", Era: "modern", Outcome: Failed, Code: int(fault.UpstreamTimeout), Duration: time.Millisecond, BytesIn: 1, BytesOut: 2}
	steady(t, "Request", func() { m.Request(f) })
	odd := &RequestFacts{Server: "default", Method: "a/method/that/the/protocol/does/not/have", Era: "modern", Outcome: OK}
	steady(t, "Request of an unknown method", func() { m.Request(odd) })
	steady(t, "UpstreamCall", func() { m.UpstreamCall("a", "tools/call", "ok", time.Second) })
	steady(t, "Hook", func() { m.Hook("a", "tool.before", "allow", time.Second) })
	steady(t, "Identity", func() { m.Identity("ok") })
}
