package north

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestHealthAndReady(t *testing.T) {
	g := &rooms{}
	f := open(t, g)
	for _, path := range []string{"/health", "/ready", "/ready?details"} {
		// A prober names any host.
		if got := f.send("GET", path, "", map[string]string{"Host": "prober.example"}); got.status != 200 || strings.TrimSpace(got.body) != "ok" {
			t.Errorf("%s: HTTP %d %q", path, got.status, got.body)
		}
	}
	g.ready = errors.New("upstream at 10.0.0.9 is down")
	if got := f.send("GET", "/ready", "", nil); got.status != 503 || got.body != "not ready\n" {
		t.Errorf("HTTP %d %q", got.status, got.body)
	}
	if got := f.send("GET", "/health", "", nil); got.status != 200 {
		t.Errorf("health while not ready: HTTP %d", got.status)
	}
}

func TestDetailsAreForTheMachineItself(t *testing.T) {
	g := &rooms{}
	f := open(t, g, func(o *Options) {
		o.Details = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "details") })
	})
	for _, c := range []struct {
		path   string
		header map[string]string
		want   string
	}{
		{"/ready", nil, "ok"},
		{"/ready?details", nil, "details"},
		{"/ready?details=1", nil, "details"},
		{"/ready?details", map[string]string{"Host": "rebound.example"}, "ok"},
		{"/ready?details", map[string]string{"Origin": "https://evil.example"}, "ok"},
	} {
		if got := f.send("GET", c.path, "", c.header); got.status != 200 || strings.TrimSpace(got.body) != c.want {
			t.Errorf("%s %v: HTTP %d %q, want %q", c.path, c.header, got.status, got.body, c.want)
		}
	}
}

func TestDetailsAreShownWhileNotReady(t *testing.T) {
	g := &rooms{ready: errors.New("no upstream is reachable")}
	f := open(t, g, func(o *Options) {
		o.Details = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "why")
		})
	})
	if got := f.send("GET", "/ready?details", "", nil); got.status != 503 || got.body != "why" {
		t.Errorf("HTTP %d %q", got.status, got.body)
	}
}
