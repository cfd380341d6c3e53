package main

import (
	"maps"
	"net/http"
	"sync"
	"time"
)

// The provider's endpoints that are watched.
const (
	discoveryPath = "/.well-known/openid-configuration"
	jwksPath      = "/keys"
	tokenPath     = "/oauth/token"
)

// watch counts what the provider is asked, and misbehaves in its place when told to.
type watch struct {
	next http.Handler

	mu     sync.Mutex // guards what follows
	counts counts
	faults faults
}

// counts is the answer of /control/counts. What was answered with a fault counts, too.
type counts struct {
	JWKS      int            `json:"jwks"`
	Token     int            `json:"token"`
	Discovery int            `json:"discovery"`
	ByGrant   map[string]int `json:"by_grant"`
}

// faults is the body of /control/fail; zero values mean to behave.
type faults struct {
	JWKS          int    `json:"jwks"` // HTTP status
	Token         int    `json:"token"`
	Discovery     int    `json:"discovery"`
	RedirectToken string `json:"redirect_token"` // where the token endpoint sends its callers, with everything they said
	DelayMS       int    `json:"delay_ms"`       // of each of the three
}

// ServeHTTP implements http.Handler.
func (w *watch) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	fault, watched := w.note(r)
	if !watched {
		w.next.ServeHTTP(rw, r)
		return
	}
	if fault.DelayMS > 0 {
		select {
		case <-time.After(time.Duration(fault.DelayMS) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	if r.URL.Path == tokenPath && fault.RedirectToken != "" {
		// 307 keeps method and body, so that a client which follows gives everything away.
		http.Redirect(rw, r, fault.RedirectToken, http.StatusTemporaryRedirect)
		return
	}
	status := map[string]int{discoveryPath: fault.Discovery, jwksPath: fault.JWKS, tokenPath: fault.Token}[r.URL.Path]
	if status != 0 {
		http.Error(rw, `{"error":"temporarily_unavailable"}`, status)
		return
	}
	w.next.ServeHTTP(rw, r)
}

// note counts a request and returns how to misbehave.
func (w *watch) note(r *http.Request) (faults, bool) {
	grant := ""
	if r.URL.Path == tokenPath {
		grant = r.FormValue("grant_type") // leaves the form where the provider looks for it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r.URL.Path {
	case discoveryPath:
		w.counts.Discovery++
	case jwksPath:
		w.counts.JWKS++
	case tokenPath:
		w.counts.Token++
		if w.counts.ByGrant == nil {
			w.counts.ByGrant = map[string]int{}
		}
		w.counts.ByGrant[grant]++
	default:
		return faults{}, false
	}
	return w.faults, true
}

func (w *watch) misbehave(f faults) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = f
}

func (w *watch) counted() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counts
	c.ByGrant = maps.Clone(c.ByGrant)
	return c
}
