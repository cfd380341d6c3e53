package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// asking is what a client that can be asked is told to do, and askedReport what it tells of it; see js/asked-v1.mjs.
type asking struct {
	Name         string         `json:"name"`
	Capabilities map[string]any `json:"capabilities"`
	Steps        []askingStep   `json:"steps"`
}

type askingStep struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

type askedReport struct {
	Tools   []string `json:"tools"`
	Answers []any    `json:"answers"`
	Strange []string `json:"strange"`
}

func (a asking) run(t *testing.T, url string) (report askedReport, err error) {
	root, err := Root()
	if err != nil {
		return report, err
	}
	script, err := json.Marshal(a)
	if err != nil {
		return report, err
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, nodePath), filepath.Join(root, "build/js/asked-v1.mjs"), url)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(script), &errs
	out, err := cmd.Output()
	if err != nil {
		return report, fmt.Errorf("%s: %w\n%s", a.Name, err, &errs)
	}
	return report, json.Unmarshal(out, &report)
}

// Checklist 7.1, 7.3, T52: a legacy server over stdio samples, elicits and asks for roots, each client of one principal
// within what it declared, and each question reaches the client whose call it belongs to.
func TestAServerOverStdioAsksTheClientWhoseCallItIs(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real peers: not with -short")
	}
	if why := JavaScript.Missing(); why != "" && !InCI() {
		t.Skip(why)
	}
	if err := Setup(); err != nil {
		t.Fatal(err)
	}
	binary, err := Build(true)
	if err != nil {
		t.Fatal(err)
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	document, err := json.Marshal(map[string]any{
		"state": "memory:", "admin": "off",
		"upstreams": map[string]any{"everything": map[string]any{"command": []string{filepath.Join(root, "build/peers/go-everything")}, "era": "legacy"}},
		"servers":   map[string]any{"default": map[string]any{"naming": "passthrough"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "penstock.json")
	if err := os.WriteFile(path, document, 0o600); err != nil {
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
	clients := map[string]map[string]any{
		"ann":  {"sampling": map[string]any{}, "elicitation": map[string]any{}, "roots": map[string]any{}},
		"bert": {"elicitation": map[string]any{}},
		"cleo": {},
	}
	const rounds = 4
	var group sync.WaitGroup
	for name, caps := range clients {
		group.Go(func() {
			a := asking{Name: name, Capabilities: caps}
			for i := range rounds {
				text := fmt.Sprint(name, " ", i)
				a.Steps = append(a.Steps,
					askingStep{"test_sampling", map[string]any{"prompt": text}},
					askingStep{"test_elicitation", map[string]any{"message": text}},
					askingStep{"test_input_required_result_list_roots", map[string]any{}})
			}
			report, err := a.run(t, gateway.URL())
			if err != nil {
				t.Error(err)
				return
			}
			if len(report.Strange) > 0 {
				t.Errorf("%s was asked %q", name, report.Strange)
			}
			for i, answer := range report.Answers {
				text := fmt.Sprint(name, " ", i/3)
				want, capability := "", ""
				switch i % 3 {
				case 0:
					want, capability = fmt.Sprintf("LLM response: %s says: %s", name, text), "sampling"
				case 1:
					want, capability = fmt.Sprintf("Elicitation result: action=accept, content=map[username:%s on: %s]", name, text), "elicitation"
				case 2:
					want, capability = fmt.Sprintf("Client exposed 1 root(s): file:///%s", name), "roots"
				}
				if _, can := caps[capability]; can != (answer == want) {
					t.Errorf("%s, %v: %v, want %q to be %v", name, a.Steps[i], answer, want, can)
				}
			}
		})
	}
	group.Wait()
	if n := privateProcesses(t, gateway); n != 2 {
		t.Errorf("%d processes of their own for the two clients that can be asked", n)
	}
}

// privateProcesses is what the operator is told of the processes of one client each.
func privateProcesses(t *testing.T, g *Gateway) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Origin+"/ready?details", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var details struct {
		Upstreams []struct {
			Sessions int `json:"sessions"`
		} `json:"upstreams"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&details); err != nil {
		t.Fatal(err)
	}
	return details.Upstreams[0].Sessions
}
