package peers

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// served is one Penstock and the document it was started with.
type served struct {
	*Gateway
	binary, document string
}

// serve starts Penstock, with the race detector, on a document that says what is special of a test. It is stopped when
// the test ends, and must have ended cleanly.
func serve(t *testing.T, special map[string]any) *served {
	t.Helper()
	if err := Setup(); err != nil {
		t.Fatal(err)
	}
	binary, err := Build(true)
	if err != nil {
		t.Fatal(err)
	}
	document := map[string]any{"state": "memory:", "admin": "off", "limits": map[string]any{"list_timeout": "20s"}}
	maps.Copy(document, special)
	raw, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "penstock.json") // JSON is YAML
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, err := Serve(t.Context(), binary, dir, "--config", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gateway.Stop(); err != nil {
			t.Errorf("penstock did not end cleanly: %v", err)
		}
		if t.Failed() || strings.Contains(gateway.Output(), "DATA RACE") {
			t.Errorf("penstock wrote:\n%s", gateway.Output())
		}
	})
	return &served{gateway, binary, path}
}

// pairedUpstream is one program behind Penstock in one of the four ways that an upstream is reached.
type pairedUpstream struct {
	name   string
	modern bool
}

// pairedUpstreams are the four ways, in the order in which they are tried.
var pairedUpstreams = []pairedUpstream{
	{"legacy-http", false},
	{"modern-http", true},
	{"legacy-stdio", false},
	{"modern-stdio", true},
}

// servePairs starts a server in all four ways, each behind an endpoint of its own that changes nothing: over HTTP with
// sessions and without, and argv over stdio in either era.
func servePairs(t *testing.T, sessions, stateless Server, argv []string) *served {
	t.Helper()
	upstreams, virtual := map[string]any{
		"legacy-stdio": map[string]any{"command": argv, "era": "legacy"},
		"modern-stdio": map[string]any{"command": argv, "era": "modern"},
	}, map[string]any{"default": map[string]any{}}
	for name, server := range map[string]Server{"legacy-http": sessions, "modern-http": stateless} {
		running, err := server.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(running.Kill)
		era, _, _ := strings.Cut(name, "-")
		upstreams[name] = map[string]any{"url": running.URL, "era": era}
	}
	for _, u := range pairedUpstreams {
		virtual[u.name] = map[string]any{"upstreams": []string{u.name}, "naming": "passthrough"}
	}
	return serve(t, map[string]any{"upstreams": upstreams, "servers": virtual})
}

// everyPair runs do for each client that can be asked, each way to Penstock and each upstream, two at a time.
func (s *served) everyPair(t *testing.T, do func(t *testing.T, client AskedClient, u pairedUpstream, endpoint string)) {
	for _, client := range AskedClients() {
		for _, way := range []string{"http", "stdio"} {
			for _, u := range pairedUpstreams {
				t.Run(client.Name+"/"+way+"/"+u.name, func(t *testing.T) {
					if why := client.Language.Missing(); why != "" && !InCI() {
						t.Skip(why)
					}
					t.Parallel()
					at := s.ServerURL(u.name)
					if way == "stdio" {
						at = endpoint(t, []string{s.binary, "stdio", "--config", s.document, "--server", u.name})
					}
					do(t, client, u, at)
				})
			}
		}
	}
}
