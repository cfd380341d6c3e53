package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of a request.
const (
	OK        = "ok"        // a result
	Error     = "error"     // an error of the upstream's, or of what the caller sent
	Refused   = "refused"   // identity, policy, a limit or a hook said no
	Failed    = "failed"    // an upstream or the gateway could not
	Cancelled = "cancelled" // the client went away or said so
	Panic     = "panic"     // a fault of the program
)

// RequestFacts is what is known of a request at its end.
type RequestFacts struct {
	Server   string        // the virtual server; "" when it was refused before that was known
	Method   string        // what the client sent: what the protocol does not have is counted as "other"
	Era      string        // "modern", "legacy", or "" when that was not known
	Outcome  string        // one of the constants above
	Code     int           // of the JSON-RPC error; 0: none. One that the catalogue lacks is counted as "upstream"
	Duration time.Duration // from its arrival to its last byte
	BytesIn  int64         // of the body that was read
	BytesOut int64         // that were written
}

// requestKey is what a request is counted by, beside its server.
type requestKey struct{ method, era, outcome, code string }

func (k requestKey) canon() requestKey {
	return requestKey{methodLabel(k.method), word(k.era), word(k.outcome), k.code}
}

// serverHandles are the metrics of one virtual server.
type serverHandles struct {
	received, sent prometheus.Counter
	requests       *handles[requestKey, requestHandles]
}

type requestHandles struct {
	count   prometheus.Counter
	seconds prometheus.Observer
}

func (m *Metrics) newServers(over *prometheus.CounterVec) *handles[string, *serverHandles] {
	count, seconds, in, out := requests.counters(), requestSeconds.histograms(), received.counters(), sent.counters()
	m.registry.MustRegister(count, seconds, in, out)
	fold := over.WithLabelValues(requests.name)
	return newHandles(maxIDs, other, fold, id, func(server string) *serverHandles {
		return &serverHandles{
			received: in.WithLabelValues(server),
			sent:     out.WithLabelValues(server),
			requests: newHandles(maxSets, requestKey{other, other, other, other}, fold, requestKey.canon, func(k requestKey) requestHandles {
				return requestHandles{
					count:   count.WithLabelValues(server, k.method, k.era, k.outcome, k.code),
					seconds: seconds.WithLabelValues(server, k.method, k.outcome),
				}
			}),
		}
	})
}

// Request counts one finished request; it is called on the one exit (DESIGN
// section 2, step 12). It keeps nothing of f, and allocates only when it meets a
// combination for the first time.
func (m *Metrics) Request(f *RequestFacts) {
	if m == nil {
		return
	}
	s := m.servers.get(f.Server)
	h := s.requests.get(requestKey{f.Method, f.Era, f.Outcome, codeLabel(f.Code)})
	h.count.Inc()
	if f.Outcome == Panic {
		m.panics.Inc()
	}
	h.seconds.Observe(max(f.Duration, 0).Seconds())
	s.received.Add(float64(max(f.BytesIn, 0)))
	s.sent.Add(float64(max(f.BytesOut, 0)))
}
