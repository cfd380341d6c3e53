package peers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
)

// Checklist 7.1, 7.3, T52: a legacy server over stdio samples, elicits and asks for roots, each client of one principal
// within what it declared, and each question reaches the client whose call it belongs to.
func TestAServerOverStdioAsksTheClientWhoseCallItIs(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real peers: not with -short")
	}
	if why := JavaScript.Missing(); why != "" && !InCI() {
		t.Skip(why)
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	gateway := serve(t, map[string]any{
		"upstreams": map[string]any{"everything": map[string]any{"command": []string{filepath.Join(root, "build/peers/go-everything")}, "era": "legacy"}},
		"servers":   map[string]any{"default": map[string]any{"naming": "passthrough"}},
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
			a := AskedScript{Name: name, Capabilities: caps}
			for i := range rounds {
				text := fmt.Sprint(name, " ", i)
				a.Steps = append(a.Steps,
					AskedStep{Name: "test_sampling", Arguments: map[string]any{"prompt": text}},
					AskedStep{Name: "test_elicitation", Arguments: map[string]any{"message": text}},
					AskedStep{Name: "test_input_required_result_list_roots", Arguments: map[string]any{}})
			}
			report, err := AskedClients()[0].Run(t.Context(), gateway.URL(), a)
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
	if n := privateProcesses(t, gateway.Gateway); n != 2 {
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
	n := 0
	for _, u := range details.Upstreams {
		n += u.Sessions
	}
	return n
}
