package observe

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
)

var writeDocs = flag.Bool("write", false, "write docs/metrics.md instead of comparing it")

const pagePath = "../../docs/metrics.md"

// described is a metric as the registry describes it.
type described struct {
	name, help string
	labels     []string
}

var descForm = regexp.MustCompile(`^Desc\{fqName: "(penstock_[^"]*)", help: (".*?"), (?:unit: "", )?constLabels: \{\}, variableLabels: \{(.*)\}\}$`)

func describe(t *testing.T, m *Metrics) map[string]described {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		m.registry.Describe(descs)
	}()
	out := map[string]described{}
	for d := range descs {
		if !strings.Contains(d.String(), `"penstock_`) {
			continue // of the runtime or the process
		}
		f := descForm.FindStringSubmatch(d.String())
		if f == nil {
			t.Errorf("%s has another form", d)
			continue
		}
		one := described{name: f[1]}
		if _, err := fmt.Sscanf(f[2], "%q", &one.help); err != nil {
			t.Error(err)
		}
		if f[3] != "" {
			one.labels = strings.Split(f[3], ",")
		}
		out[one.name] = one
	}
	return out
}

// metricsPage is docs/metrics.md, whole.
func metricsPage(registry map[string]described) string {
	var b strings.Builder
	b.WriteString(`# Metrics and traces

With ` + "`observe.listen`" + ` in the document, ` + "`GET /metrics`" + ` there answers in the text format of Prometheus, or OpenMetrics for who asks for it. Beside
the metrics below it has those of the Go runtime (` + "`go_*`" + `) and of the process (` + "`process_*`" + `).

No label has a value that a client or an upstream can choose: methods are those of the protocol, or ` + "`other`" + `; codes have the names of
[errors.md](errors.md), or ` + "`upstream`" + ` when an upstream sent one that is not there; servers, upstreams and hooks are the keys of the document. Tools and URIs are
in traces and in the audit, callers in the audit alone. Every histogram is in seconds, from 1 ms to 10 min; its ` + "`_count`" + ` is how often the thing happened.

What is read when you look (gauges, and what an upstream, the audit or the store counts itself) describes the document that is served now. Upstreams that a
reload removed stay in the counters and histograms, and no longer move.

## Every metric

| metric | type | labels | what it is, and what to do when it moves |
|---|---|---|---|
`)
	for _, d := range all {
		r, labels := registry[d.name], "–"
		if len(r.labels) > 0 {
			labels = "`" + strings.Join(r.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.name, d.kind, labels, r.help)
	}
	b.WriteString(`
| label | values |
|---|---|
| ` + "`outcome`" + ` of requests | ok; error: the caller's or the upstream's own; refused: by identity, policy, a limit or a hook; failed: an upstream or the gateway could not; cancelled; panic |
| ` + "`outcome`" + ` of upstream calls | ok; error: the upstream's own; timeout; lost: it may have run; unavailable: nothing ran; invalid: it broke the protocol; cancelled; else the name of the code |
| ` + "`outcome`" + ` of lists | complete; stale: some of it is older; partial: some of it is missing; failed |
| ` + "`effect`" + ` | allow; deny; hidden: answered as if it did not exist |
| ` + "`scope`" + ` | global; principal; upstream; in_flight; source: too many failed verifications from one address |
| ` + "`era`" + ` | modern; legacy; empty where the request was refused before it was known |
| ` + "`code`" + ` | empty where there was no error |

## Alerts to begin with

Take the thresholds from what is usual with you. The rules name the instance by what Prometheus adds to each sample.

` + "```yml" + `
groups:
  - name: penstock
    rules:
      - alert: PenstockFails
        expr: |
          sum by (instance) (rate(penstock_requests_total{outcome=~"failed|panic"}[5m]))
            > 0.05 * sum by (instance) (rate(penstock_requests_total[5m]))
        for: 5m
        annotations: {summary: "More than one request in twenty fails; see code in penstock_requests_total"}
      - alert: PenstockPanics
        expr: increase(penstock_panics_total[15m]) > 0
        annotations: {summary: "A fault of the program; the log has its stack"}
      - alert: PenstockUpstreamDown
        expr: penstock_upstream_state{state="down"} == 1
        for: 5m
        annotations: {summary: "{{ $labels.upstream }} does not answer"}
      - alert: PenstockBreakerOpen
        expr: max_over_time(penstock_upstream_breaker_state{state="open"}[5m]) == 1
        for: 5m
        annotations: {summary: "Calls to {{ $labels.upstream }} are refused without being sent"}
      - alert: PenstockReplicaDown
        expr: penstock_upstream_replicas{state="down"} > 0
        for: 10m
        annotations: {summary: "A replica of {{ $labels.upstream }} is out of turn"}
      - alert: PenstockChildRestarts
        expr: increase(penstock_upstream_child_starts_total[15m]) > 3
        annotations: {summary: "The process of {{ $labels.upstream }} ends by itself"}
      - alert: PenstockUpstreamSlow
        expr: |
          histogram_quantile(0.95, sum by (upstream, le)
            (rate(penstock_upstream_call_duration_seconds_bucket{method="tools/call"}[10m]))) > 10
        for: 10m
        annotations: {summary: "One call in twenty to {{ $labels.upstream }} takes more than 10 s"}
      - alert: PenstockStoreDown
        expr: penstock_store_up == 0
        for: 1m
        annotations: {summary: "Legacy clients are refused"}
      - alert: PenstockAuditFailing
        expr: penstock_audit_failing == 1 or increase(penstock_audit_records_lost_total[15m]) > 0
        annotations: {summary: "What happens is not recorded, or refused for that reason"}
      - alert: PenstockManyRefusals
        expr: sum by (instance) (rate(penstock_requests_total{code="unauthenticated"}[10m])) > 5
        for: 10m
        annotations: {summary: "A client with a wrong token, or somebody who guesses"}
      - alert: PenstockHookFails
        expr: rate(penstock_hook_duration_seconds_count{outcome=~"error_.*|too_large_.*"}[5m]) > 0
        for: 5m
        annotations: {summary: "{{ $labels.hook }} does not answer; its on_error decides"}
      - alert: PenstockCredentialFails
        expr: rate(penstock_grant_duration_seconds_count{outcome=~"refused|failed|unavailable"}[5m]) > 0
        for: 5m
        annotations: {summary: "No credential for {{ $labels.upstream }}"}
      - alert: PenstockReloadFailed
        expr: increase(penstock_config_reloads_total{outcome="failed"}[15m]) > 0
        annotations: {summary: "The document on the disk is not the one that is served"}
      - alert: PenstockTracesLost
        expr: rate(penstock_trace_spans_total{outcome=~"dropped|failed"}[15m]) > 0
        for: 15m
        annotations: {summary: "Requests are fine, but their traces do not arrive"}
      - alert: PenstockOddities
        expr: increase(penstock_metrics_folded_total[1h]) > 0
        annotations: {summary: "{{ $labels.metric }} has more label values than are told apart"}
` + "```" + `

## Traces

With ` + "`observe.otlp`" + ` in the document, spans go there as OTLP over HTTP: to ` + "`/v1/traces`" + `, unless the address has a path. Each request is a span,
named for its method and tool, and each call that it causes a child of it. Attributes follow OpenTelemetry's conventions for MCP. Arguments, results,
tokens and subjects are never in a span.

- A request that comes with a valid ` + "`traceparent`" + `, in its ` + "`_meta`" + ` or else in its headers, belongs to that trace, and is recorded if its sampled flag is set. Of the
  others the share ` + "`observe.sample`" + ` is recorded.
- An upstream gets the ` + "`traceparent`" + ` of its call's span where the request is recorded, and the client's own, unchanged, where it is not.
- Delivery stands behind the requests, in batches every five seconds. At most 2048 spans wait; more are dropped and counted. A collector that is down, slow or
  failing costs its traces and nothing else, and the log says so once a minute.
- ` + "`OTEL_*`" + ` and proxy variables of the environment have no effect. Redirects are not followed.
`)
	return b.String()
}

func TestMetricsPageIsTheRegistry(t *testing.T) {
	want := metricsPage(describe(t, NewMetrics("v")))
	if *writeDocs {
		if err := os.WriteFile(pagePath, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	page, err := os.ReadFile(filepath.FromSlash(pagePath))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != want {
		t.Error("docs/metrics.md is not what the registry describes: run go test ./internal/observe -run TestMetricsPage -write")
	}
}

func TestTheRegistryHasEveryDefinitionAndNoOther(t *testing.T) {
	registry := describe(t, NewMetrics("v"))
	for _, d := range all {
		r, ok := registry[d.name]
		if !ok || r.help != d.help || !slices.Equal(r.labels, d.labels) {
			t.Errorf("%s is not in the registry as defined: %+v", d.name, r)
		}
		delete(registry, d.name)
	}
	for name := range registry {
		t.Errorf("%s is in the registry and not defined", name)
	}
}

func TestEveryDefinitionIsFilled(t *testing.T) {
	m := used(t)
	for i := range maxWords + 1 {
		m.Limited(strings.Repeat("x", i))
	}
	p := look(t, m)
	for _, d := range all {
		f := p[d.name]
		if f == nil {
			t.Errorf("%s was never told", d.name)
			continue
		}
		if got := strings.ToLower(f.GetType().String()); got != d.kind {
			t.Errorf("%s is a %s, defined as a %s", d.name, got, d.kind)
		}
	}
}

func TestDefinitionsKeepToTheConventions(t *testing.T) {
	for _, d := range all {
		if (d.kind == "counter") != strings.HasSuffix(d.name, "_total") {
			t.Errorf("%s is a %s", d.name, d.kind)
		}
		if (d.kind == "histogram") != strings.HasSuffix(d.name, "_seconds") {
			t.Errorf("%s is a %s", d.name, d.kind)
		}
		if !regexp.MustCompile(`^penstock_[a-z_]+$`).MatchString(d.name) || len(d.help) < 20 || strings.ContainsAny(d.help, "|\n") || strings.HasSuffix(d.help, ".") {
			t.Errorf("%s: %q", d.name, d.help)
		}
	}
}

func TestAlertsAskForMetricsThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash(pagePath))
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(page), "```yml")
	rules, _, _ = strings.Cut(rules, "```")
	var parsed struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(rules), &parsed); err != nil || len(parsed.Groups) != 1 || len(parsed.Groups[0].Rules) < 10 {
		t.Errorf("the rules are not what Prometheus reads: %v, %+v", err, parsed)
	}
	n := 0
	for _, m := range regexp.MustCompile(`(penstock_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(rules, -1) {
		n++
		i := slices.IndexFunc(all, func(d *definition) bool {
			base := m[1]
			if d.kind == "histogram" {
				base = strings.TrimSuffix(strings.TrimSuffix(base, "_count"), "_bucket")
			}
			return d.name == base && (d.kind != "histogram" || base != m[1])
		})
		if i < 0 {
			t.Errorf("no metric %s", m[1])
			continue
		}
		for _, l := range regexp.MustCompile(`([a-z]+)=`).FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(all[i].labels, l[1]) {
				t.Errorf("%s has no label %s", m[1], l[1])
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d metrics are asked for", n)
	}
}
