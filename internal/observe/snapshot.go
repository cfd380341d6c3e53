package observe

// Snapshot is how things stand at one moment: what is read rather than counted.
// Counters in it never fall while the process runs.
type Snapshot struct {
	Upstreams []UpstreamSnapshot // of all virtual servers, each key once

	InFlight      int64 // requests being served, streams aside
	NorthSessions int   // of legacy clients
	Streams       int   // open to clients
	Listeners     int   // clients that wait for changes
	Parked        int   // calls that wait for a client's answer

	AuditWritten, AuditLost, AuditFailures, AuditRotations uint64
	AuditFailing                                           bool
	AuditQueued                                            int64

	DurableRoutes map[string]int // by phase; nil: there are none here

	StoreUp    bool
	CacheBytes int64
	Draining   bool
}

// UpstreamSnapshot is how one upstream stands.
type UpstreamSnapshot struct {
	Key      string // of the configuration
	State    string // up, down or connecting
	Breaker  string // closed, half-open or open; "": it has none
	Sessions int    // that the gateway holds there, or private processes of a child
	InFlight int
	Child    bool // it is a command, and Running and Starts count
	Running  bool
	Starts   int                // of a child, so far
	Replicas []UpstreamSnapshot // of an upstream at several addresses; only their State counts
}

// Watch has f called whenever the metrics are looked at, by up to four
// goroutines at once. f reads and does not wait. A later call takes the place of the
// earlier; nil ends it. What f reads is not reported until the first call.
func (m *Metrics) Watch(f func() Snapshot) {
	if m == nil {
		return
	}
	if f == nil {
		m.watched.Store(nil)
		return
	}
	m.watched.Store(&f)
}
