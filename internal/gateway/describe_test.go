package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// Changes are promised, tasks are not (DESIGN section 4).
func TestCapabilitiesAreMergedWithoutWhatIsNotRelayed(t *testing.T) {
	a := &up{caps: `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}`}
	b := &up{legacy: true, caps: `{"prompts":{"listChanged":true},"logging":{},"tasks":{"list":{}}}`}
	h := serving(t, map[string]*up{"a": a, "b": b})
	for client, g := range map[string]out{
		"modern": h.modern("server/discover", "", ""),
		"legacy": h.send("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`, nil),
	} {
		caps, _ := g.message(t).Result["capabilities"].(map[string]any)
		for _, name := range []string{"tools", "resources", "prompts"} {
			want := map[string]any{"listChanged": true}
			if name == "resources" {
				want["subscribe"] = true
			}
			if d := cmp.Diff(want, caps[name]); d != "" {
				t.Errorf("%s, %s: %s", client, name, d)
			}
		}
		if offered := strings.Contains(g.body, `"io.modelcontextprotocol/tasks":{}`); caps["tasks"] != nil || offered != (client == "modern") {
			t.Errorf("%s: %s", client, g.body)
		}
		if caps["completions"] != nil {
			t.Errorf("%s: completions, which nobody offers", client)
		}
	}
}

func TestDiscoverySaysWhatTheRevisionDemands(t *testing.T) { // checklist 38, 42, T5, T6
	h := serving(t, map[string]*up{"u": {}})
	g := h.modern("server/discover", "", "")
	r := g.message(t).Result
	want := map[string]any{
		"resultType": "complete", "supportedVersions": []any{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}, "ttlMs": float64(5000), "cacheScope": "private",
		"_meta":        map[string]any{"io.modelcontextprotocol/serverInfo": map[string]any{"name": "penstock", "title": "Penstock", "version": "test"}},
		"capabilities": r["capabilities"],
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Error(d)
	}
	for revision, info := range map[string]map[string]any{
		"2025-11-25": {"name": "penstock", "title": "Penstock", "version": "test"},
		"2025-06-18": {"name": "penstock", "title": "Penstock", "version": "test"},
		"2025-03-26": {"name": "penstock", "version": "test"},
	} {
		g := h.send("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":{}}}`, nil)
		r := g.message(t).Result
		want := map[string]any{"protocolVersion": revision, "serverInfo": info, "capabilities": r["capabilities"]}
		if d := cmp.Diff(want, r); d != "" {
			t.Errorf("%s: %s", revision, d)
		}
	}
}

func TestInstructionsOfAllAreMerged(t *testing.T) {
	h := serving(t, map[string]*up{"a": {instructions: "say please"}, "b": {legacy: true, instructions: "say thanks"}, "c": {}},
		"servers: {default: {instructions: be brief}}")
	g := h.modern("server/discover", "", "")
	text, _ := g.message(t).Result["instructions"].(string)
	at := -1
	for _, part := range []string{"be brief", "say please", "say thanks"} {
		i := strings.Index(text, part)
		if i <= at {
			t.Errorf("%q stands wrong in %q", part, text)
		}
		at = i
	}
	_, _ = h.session("2025-06-18", `{}`)
}

// T31, DESIGN section 4: a first answer waits for those not yet known, at most
// list_timeout, and a dead one is never fatal.
func TestAFirstAnswerWaitsForTheUnknownNoLongerThanListTimeout(t *testing.T) {
	hang := &up{on: func(_ responseWriter, r *request, _ heard) bool { <-r.Context().Done(); panic(abort) }}
	h := serving(t, map[string]*up{"a": {caps: `{"prompts":{}}`}, "b": hang}, "limits: {list_timeout: 500ms}")
	began := time.Now()
	g := h.modern("server/discover", "", "")
	if took := time.Since(began); took < 400*time.Millisecond || took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	r := g.message(t).Result
	caps, _ := r["capabilities"].(map[string]any)
	if caps["prompts"] == nil || r["ttlMs"] != float64(0) {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
	dead := &up{on: func(responseWriter, *request, heard) bool { panic(abort) }}
	h = serving(t, map[string]*up{"a": {}, "b": dead}, "limits: {list_timeout: 2s}")
	for i := range 2 {
		began = time.Now()
		if g := h.modern("server/discover", "", ""); g.status != 200 || time.Since(began) > time.Second {
			t.Errorf("with a dead upstream, answer %d: HTTP %d after %v", i, g.status, time.Since(began))
		}
	}
}

func TestStatusTellsOperatorsHowEachUpstreamStands(t *testing.T) {
	dead := &up{on: func(responseWriter, *request, heard) bool { panic(abort) }}
	h := serving(t, map[string]*up{"a": {}, "b": {legacy: true}, "c": dead}, "limits: {list_timeout: 1s}")
	status := func() (int, Status) {
		w := httptest.NewRecorder()
		h.Details().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/ready", nil))
		var s Status
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		return w.Code, s
	}
	if code, s := status(); code != 200 || len(s.Upstreams) != 3 || s.Upstreams[0].State != "connecting" {
		t.Errorf("HTTP %d %+v", code, s)
	}
	_, send := h.session("2025-06-18", `{}`)
	send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b__add"}}`)
	code, s := status()
	if code != 200 || !s.Ready || s.Sessions == nil || *s.Sessions != 1 {
		t.Errorf("HTTP %d %+v", code, s)
	}
	for i, want := range []UpstreamStatus{
		{Key: "a", State: "up", Era: "modern", Revision: "2026-07-28", Breaker: "closed"},
		{Key: "b", State: "up", Era: "legacy", Revision: "2025-11-25", Breaker: "closed"},
		{Key: "c", State: "down"},
	} {
		got := s.Upstreams[i]
		if got.Key != want.Key || got.State != want.State || got.Revision != want.Revision || want.Era != "" && got.Era != want.Era || (got.LastError != "") != (want.State == "down") || (got.LastErrorAt != nil) != (want.State == "down") {
			t.Errorf("%+v", got)
		}
	}
	if s.Upstreams[1].Sessions == 0 {
		t.Errorf("no session at %+v", s.Upstreams[1])
	}
	h.Drain()
	if code, s := status(); code != 503 || s.Ready || s.Reason == "" {
		t.Errorf("while draining: HTTP %d %+v", code, s)
	}
}

func TestReadyWhileAnyUpstreamIsReachable(t *testing.T) {
	dead := func() *up { return &up{on: func(responseWriter, *request, heard) bool { panic(abort) }} }
	for _, c := range []struct {
		ups   map[string]*up
		ready bool
	}{
		{map[string]*up{"a": {}, "b": dead()}, true},
		{map[string]*up{"a": dead(), "b": dead()}, false},
	} {
		h := serving(t, c.ups, "limits: {list_timeout: 1s}")
		if err := h.Ready(); err != nil {
			t.Errorf("before anything was tried: %v", err)
		}
		h.modern("server/discover", "", "")
		if err := h.Ready(); (err == nil) != c.ready {
			t.Errorf("ready %v, want %v", err, c.ready)
		}
	}
}
