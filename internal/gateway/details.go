package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/config"
)

// UpstreamStatus is how one upstream stands, for operators.
type UpstreamStatus struct {
	Key         string     `json:"key"`
	URL         string     `json:"url,omitempty"`
	Program     string     `json:"program,omitempty"` // of a child process, without its arguments
	PID         int        `json:"pid,omitempty"`     // of a child process that runs
	Starts      int        `json:"starts,omitempty"`  // of a child process, so far
	Owner       string     `json:"owner,omitempty"`
	State       string     `json:"state"` // up, down or connecting
	Era         string     `json:"era"`
	Revision    string     `json:"revision,omitempty"`
	Breaker     string     `json:"breaker"`
	Sessions    int        `json:"sessions"`
	InFlight    int        `json:"in_flight"`
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`

	Replicas []ReplicaStatus `json:"replicas,omitempty"`
}

// ReplicaStatus is how one address of an upstream stands.
type ReplicaStatus struct {
	URL       string `json:"url"`
	State     string `json:"state"`
	Breaker   string `json:"breaker"`
	Sessions  int    `json:"sessions"`
	LastError string `json:"last_error,omitempty"`
}

// Status is the answer of /ready with details.
type Status struct {
	Ready     bool             `json:"ready"`
	Reason    string           `json:"reason,omitempty"`
	Sessions  *int             `json:"sessions,omitempty"` // absent while the store does not answer
	Upstreams []UpstreamStatus `json:"upstreams"`
}

// Status tells operators how the gateway and each upstream stand. It holds
// addresses and error texts, and is not for clients.
func (g *Gateway) Status(r *http.Request) Status {
	s := Status{Ready: true, Upstreams: []UpstreamStatus{}}
	if err := g.Ready(); err != nil {
		s.Ready, s.Reason = false, err.Error()
	}
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	if n, err := g.sessions.Len(ctx); err == nil {
		s.Sessions = &n
	}
	for _, key := range g.doc.UpstreamKeys() {
		u := g.upstreams[key].State()
		c := g.doc.Upstreams[key]
		st := UpstreamStatus{
			Key: key, URL: c.DisplayURL(), Owner: c.Owner, State: u.State, Era: u.Era, Revision: u.Revision,
			Breaker: u.Breaker, Sessions: u.Sessions, InFlight: u.InFlight, LastError: u.LastError,
		}
		if c.Child() {
			st.Program, st.PID, st.Starts = c.Command[0], u.PID, u.Starts
		}
		if u.LastError != "" {
			st.LastErrorAt = &u.LastErrorAt
		}
		for i, r := range u.Replicas {
			st.Replicas = append(st.Replicas, ReplicaStatus{
				URL: config.DisplayURL(c.URLs[i]), State: r.State, Breaker: r.Breaker, Sessions: r.Sessions, LastError: r.LastError,
			})
		}
		s.Upstreams = append(s.Upstreams, st)
	}
	return s
}

// Details serves Status as JSON: 200 when ready, else 503.
func (g *Gateway) Details() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := g.Status(r)
		w.Header().Set("Content-Type", "application/json")
		if !s.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		if err := enc.Encode(s); err != nil {
			g.log.Debug("details not written", "error", err)
		}
	})
}
