package taskspeers_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/test/peers"
)

// house is a Penstock in front of some upstreams.
type house struct {
	url string // of the endpoint where each tool has its upstream's name in front
	// stdio is the same by way of a process for each client, which shares nothing but the document.
	stdio string
}

// serve starts Penstock, with the race detector, before upstreams, by their URLs or by an argv as a JSON array.
func serve(t *testing.T, upstreams map[string]string) *house {
	t.Helper()
	return serveWith(t, nil, "auto", upstreams)
}

// serveWith is serve with more of a document, and upstreams that are spoken to in an era.
func serveWith(t *testing.T, more map[string]any, era string, upstreams map[string]string) *house {
	t.Helper()
	if err := peers.Setup(); err != nil {
		t.Fatal(err)
	}
	binary, err := peers.Build(true)
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]any{}
	for name, at := range upstreams {
		if strings.HasPrefix(at, "[") {
			members[name] = map[string]any{"command": json.RawMessage(at), "era": era}
		} else {
			members[name] = map[string]any{"url": at, "era": era}
		}
	}
	document := map[string]any{"state": "memory:", "admin": "off", "upstreams": members, "limits": map[string]any{"list_timeout": "20s"}}
	maps.Copy(document, more)
	raw, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "penstock.json") // JSON is YAML
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, err := peers.Serve(t.Context(), binary, dir, "--config", path)
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
	argv, err := json.Marshal([]string{binary, "stdio", "--config", path})
	if err != nil {
		t.Fatal(err)
	}
	return &house{gateway.URL(), string(argv)}
}
