package observe

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// The states that are told one by one, so that each can be asked for by name.
var (
	upstreamStates = []string{"up", "down", "connecting"}
	breakerStates  = []string{"closed", "half-open", "open"}
)

// gauges are the definitions that a Snapshot fills, and how those without labels are read.
var gauges = []struct {
	*definition
	of func(*Snapshot) float64
}{
	{inFlight, func(s *Snapshot) float64 { return float64(s.InFlight) }},
	{northSessions, func(s *Snapshot) float64 { return float64(s.NorthSessions) }},
	{streams, func(s *Snapshot) float64 { return float64(s.Streams) }},
	{listeners, func(s *Snapshot) float64 { return float64(s.Listeners) }},
	{parked, func(s *Snapshot) float64 { return float64(s.Parked) }},
	{cacheBytes, func(s *Snapshot) float64 { return float64(s.CacheBytes) }},
	{auditWritten, func(s *Snapshot) float64 { return float64(s.AuditWritten) }},
	{auditLost, func(s *Snapshot) float64 { return float64(s.AuditLost) }},
	{auditFailures, func(s *Snapshot) float64 { return float64(s.AuditFailures) }},
	{auditRotations, func(s *Snapshot) float64 { return float64(s.AuditRotations) }},
	{auditFailing, func(s *Snapshot) float64 { return truth(s.AuditFailing) }},
	{auditQueued, func(s *Snapshot) float64 { return float64(s.AuditQueued) }},
	{storeUp, func(s *Snapshot) float64 { return truth(s.StoreUp) }},
	{draining, func(s *Snapshot) float64 { return truth(s.Draining) }},
}

var ofUpstreams = []*definition{
	upstreamState, upstreamBreaker, upstreamSessions, upstreamInFlight, upstreamRunning, upstreamStarts, upstreamReplicas,
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// watch reads a Snapshot when the metrics are looked at.
type watch struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (w *watch) Describe(out chan<- *prometheus.Desc) {
	for _, g := range gauges {
		out <- g.desc
	}
	for _, d := range ofUpstreams {
		out <- d.desc
	}
	out <- durableRoutes.desc
}

// Collect implements prometheus.Collector. A panic of the function that is
// watched would end the process, since nobody above it recovers.
func (w *watch) Collect(out chan<- prometheus.Metric) {
	f := w.m.watched.Load()
	if f == nil {
		return
	}
	s, err := read(*f)
	if err != nil {
		out <- prometheus.NewInvalidMetric(inFlight.desc, err)
		return
	}
	for _, g := range gauges {
		g.tell(out, g.of(&s))
	}
	for phase, n := range s.DurableRoutes {
		durableRoutes.tell(out, float64(n), word(phase))
	}
	seen := make(map[string]bool, len(s.Upstreams))
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		key := word(u.Key)
		if seen[key] || len(seen) == maxIDs {
			continue // told twice, a metric would spoil the whole page
		}
		seen[key] = true
		tellUpstream(out, key, u)
	}
}

func read(f func() Snapshot) (s Snapshot, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("observe: reading the gateway: panic: %v", v)
		}
	}()
	return f(), nil
}

func tellUpstream(out chan<- prometheus.Metric, key string, u *UpstreamSnapshot) {
	for _, state := range upstreamStates {
		upstreamState.tell(out, truth(u.State == state), key, state)
	}
	if u.Breaker != "" {
		for _, state := range breakerStates {
			upstreamBreaker.tell(out, truth(u.Breaker == state), key, state)
		}
	}
	upstreamSessions.tell(out, float64(u.Sessions), key)
	upstreamInFlight.tell(out, float64(u.InFlight), key)
	if u.Child {
		upstreamRunning.tell(out, truth(u.Running), key)
		upstreamStarts.tell(out, float64(u.Starts), key)
	}
	if len(u.Replicas) == 0 {
		return
	}
	for _, state := range upstreamStates {
		n := 0
		for i := range u.Replicas {
			if u.Replicas[i].State == state {
				n++
			}
		}
		upstreamReplicas.tell(out, float64(n), key, state)
	}
}

func (d *definition) tell(out chan<- prometheus.Metric, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if d.kind == "counter" {
		kind = prometheus.CounterValue
	}
	out <- prometheus.MustNewConstMetric(d.desc, kind, v, labels...)
}

// traceWatch reads how a Tracer does.
type traceWatch struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (w *traceWatch) Describe(out chan<- *prometheus.Desc) {
	out <- spans.desc
	out <- spansQueued.desc
}

// Collect implements prometheus.Collector.
func (w *traceWatch) Collect(out chan<- prometheus.Metric) {
	t := w.m.traced.Load()
	if t == nil {
		return
	}
	s := t.Stats()
	spans.tell(out, float64(s.Exported), "exported")
	spans.tell(out, float64(s.Dropped), "dropped")
	spans.tell(out, float64(s.Failed), "failed")
	spansQueued.tell(out, float64(s.Queued))
}

// WatchTracer has the metrics tell how t does, nil for none. A later call takes
// the place of the earlier.
func (m *Metrics) WatchTracer(t *Tracer) {
	if m != nil {
		m.traced.Store(t)
	}
}
