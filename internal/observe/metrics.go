package observe

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// The bounds on one look at the metrics.
const (
	maxScrapes   = 4
	scrapeWithin = 10 * time.Second
)

// Metrics counts what the gateway tells it, and reads the rest when it is looked
// at. It has a registry of its own, so several in one process do not meet. All
// methods are safe for concurrent use, wait for nobody, and do nothing on a nil *Metrics.
type Metrics struct {
	registry *prometheus.Registry

	servers    *handles[string, *serverHandles]
	panics     prometheus.Counter
	lists      *handles[listKey, prometheus.Counter]
	upstreams  *handles[string, *handles[callKey, prometheus.Observer]]
	hooks      *handles[string, *handles[hookKey, prometheus.Observer]]
	grants     *handles[string, *handles[grantKey, prometheus.Observer]]
	identities *handles[string, prometheus.Counter]
	decisions  *handles[string, prometheus.Counter]
	limited    *handles[string, prometheus.Counter]
	tasks      *handles[string, prometheus.Counter]
	durables   *handles[string, prometheus.Counter]
	reloads    *handles[string, prometheus.Counter]

	watched atomic.Pointer[func() Snapshot]
	traced  atomic.Pointer[Tracer]
}

// NewMetrics returns metrics that say that this version runs, beside those of
// the Go runtime and the process. It starts nothing.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	over := folded.counters()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildInfo.name, Help: buildInfo.help}, buildInfo.labels)
	info.WithLabelValues(word(version), runtime.Version()).Set(1)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), info, over)

	m.servers = m.newServers(over)
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{Name: panics.name, Help: panics.help})
	m.registry.MustRegister(m.panics)
	m.lists = m.newLists(over)
	m.upstreams = perID(m, upstreamSeconds, over, callKey{other, other}, callKey.canon, callKey.values)
	m.hooks = perID(m, hookSeconds, over, hookKey{other, other}, hookKey.canon, hookKey.values)
	m.grants = perID(m, grantSeconds, over, grantKey{other, other}, grantKey.canon, grantKey.values)
	m.identities = m.perWord(identities, over)
	m.decisions = m.perWord(decisions, over)
	m.limited = m.perWord(limited, over)
	m.tasks = m.perWord(tasks, over)
	m.durables = m.perWord(durableMoves, over)
	m.reloads = m.perWord(reloads, over)
	m.reloads.get(OK)
	m.reloads.get(Failed) // an alert sees a rise only from a value that was there before
	m.registry.MustRegister(&watch{m: m}, &traceWatch{m: m})
	return m
}

// Handler serves the metrics on GET and HEAD, as the text of Prometheus or of
// OpenMetrics. A metric that cannot be read does not keep the others back. Of a
// nil *Metrics it answers 404.
func (m *Metrics) Handler() http.Handler {
	if m == nil {
		return http.NotFoundHandler()
	}
	page := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeWithin,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// perWord counts by one label whose values are words of the program.
func (m *Metrics) perWord(d *definition, over *prometheus.CounterVec) *handles[string, prometheus.Counter] {
	vec := d.counters()
	m.registry.MustRegister(vec)
	return newHandles(maxWords, other, over.WithLabelValues(d.name), word,
		func(s string) prometheus.Counter { return vec.WithLabelValues(s) })
}

// perID measures durations by an id of the configuration and then by words of the program.
func perID[K comparable](m *Metrics, d *definition, over *prometheus.CounterVec, rest K, canon func(K) K, values func(K, string) []string) *handles[string, *handles[K, prometheus.Observer]] {
	vec := d.histograms()
	m.registry.MustRegister(vec)
	fold := over.WithLabelValues(d.name)
	return newHandles(maxIDs, other, fold, id, func(key string) *handles[K, prometheus.Observer] {
		return newHandles(maxSets, rest, fold, canon,
			func(k K) prometheus.Observer { return vec.WithLabelValues(values(k, key)...) })
	})
}
