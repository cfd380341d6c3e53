package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// federation is one Penstock over every server that can run here.
type federation struct {
	servers []Server // in byte order of their names, which are the configuration keys
	urls    map[string]string
	gateway *Gateway
}

// startFederation leaves out, outside CI, the servers whose language is not installed.
func startFederation(t *testing.T) *federation {
	t.Helper()
	if err := Setup(); err != nil {
		t.Fatal(err)
	}
	binary, err := Build(true)
	if err != nil {
		t.Fatal(err)
	}
	f := &federation{urls: map[string]string{}}
	for _, s := range []Server{NpmEverything(), FastMCP(), GoEverything(true), GoEverything(false), MCPGo(), TSv2Server()} {
		if why := s.Language.Missing(); why != "" && !InCI() {
			t.Logf("without %s: %s", s.Name, why)
			continue
		}
		f.servers = append(f.servers, s)
	}
	slices.SortFunc(f.servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })

	var group sync.WaitGroup
	running := make([]*Running, len(f.servers))
	errs := make([]error, len(f.servers))
	for i, s := range f.servers {
		group.Go(func() { running[i], errs[i] = s.Start(t.Context()) })
	}
	group.Wait()
	for i, s := range f.servers {
		if errs[i] != nil {
			t.Error(errs[i])
			continue
		}
		t.Cleanup(running[i].Kill)
		f.urls[s.Name] = running[i].URL
	}
	if t.Failed() {
		t.FailNow()
	}

	dir := t.TempDir()
	document := filepath.Join(dir, "penstock.json") // JSON is YAML
	if err := os.WriteFile(document, f.document(t), 0o600); err != nil {
		t.Fatal(err)
	}
	f.gateway, err = Serve(t.Context(), binary, dir, "--config", document)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.gateway.Stop(); err != nil {
			t.Errorf("penstock did not end cleanly: %v", err)
		}
		if t.Failed() || strings.Contains(f.gateway.Output(), "DATA RACE") {
			t.Errorf("penstock wrote:\n%s", f.gateway.Output())
		}
	})
	return f
}

// document configures all servers behind one namespaced endpoint with small pages, and each alone behind one that changes nothing, for
// what the merged endpoint hides: URIs that several servers offer.
func (f *federation) document(t *testing.T) []byte {
	upstreams := map[string]any{}
	virtual := map[string]any{"default": map[string]any{"naming": "namespaced", "page_size": 10}}
	for _, s := range f.servers {
		upstreams[s.Name] = map[string]any{"url": f.urls[s.Name]}
		virtual["only-"+s.Name] = map[string]any{"upstreams": []string{s.Name}, "naming": "passthrough"}
	}
	raw, err := json.Marshal(map[string]any{
		"state":     "memory:",
		"admin":     "off",
		"limits":    map[string]any{"list_timeout": "20s"}, // two cores, the race detector, and six interpreters
		"upstreams": upstreams,
		"servers":   virtual,
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestEveryClientSeesThroughTheGatewayWhatItSeesDirectly(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many real peers: not with -short")
	}
	f := startFederation(t)
	for _, client := range Clients() {
		t.Run(client.Name, func(t *testing.T) {
			if why := client.Language.Missing(); why != "" && !InCI() {
				t.Skip(why)
			}
			t.Parallel()
			f.compare(t, client)
		})
	}
}

// compare drives each server directly and through Penstock, merged and alone, with one client.
func (f *federation) compare(t *testing.T, client Client) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	var script []Step
	for _, s := range f.servers {
		for _, step := range s.Script() {
			script = append(script, exposed(s.Name, step))
		}
	}
	merged, err := client.Run(ctx, f.gateway.URL(), script)
	if err != nil {
		t.Fatal(err)
	}
	if modern(merged) != client.Modern {
		t.Errorf("the client speaks %s with the gateway; modern should be %v", merged.ProtocolVersion, client.Modern)
	}

	directs := map[string]*Report{}
	answered := 0
	for _, s := range f.servers {
		direct, err := client.Run(ctx, f.urls[s.Name], s.Script())
		if err != nil {
			t.Fatal(err)
		}
		directs[s.Name] = direct
		alone, err := client.Run(ctx, f.gateway.ServerURL("only-"+s.Name), s.Script())
		if err != nil {
			t.Fatal(err)
		}
		t.Run("alone/"+s.Name, func(t *testing.T) {
			sameItems(t, "tools", "name", shownTasks(s.Name, alone, sharedTools(direct.Tools)), sharedTools(alone.Tools))
			sameItems(t, "prompts", "name", direct.Prompts, alone.Prompts)
			sameItems(t, "resources", "uri", direct.Resources, alone.Resources)
			sameItems(t, "templates", "uriTemplate", direct.ResourceTemplates, alone.ResourceTemplates)
			for i, step := range s.Script() {
				sameAnswer(t, step, direct.Answers[i], alone.Answers[i], modern(direct) && modern(alone))
			}
		})
		t.Run("merged/"+s.Name, func(t *testing.T) {
			for i, step := range s.Script() {
				if f.owner(step, s.Name) != s.Name {
					continue // answered by another server with the same URI, and compared as that one's
				}
				sameAnswer(t, step, direct.Answers[i], merged.Answers[answered+i], modern(direct) && modern(merged))
			}
		})
		answered += len(s.Script())
	}

	t.Run("merged/lists", func(t *testing.T) {
		var want Report
		uris, templates := map[any]bool{}, map[any]bool{}
		for _, s := range f.servers { // in byte order: the first owns a URI
			want.Tools = append(want.Tools, renamed(s.Name, shownTasks(s.Name, merged, sharedTools(directs[s.Name].Tools)))...)
			want.Prompts = append(want.Prompts, renamed(s.Name, directs[s.Name].Prompts)...)
			want.Resources = append(want.Resources, unclaimed(uris, "uri", directs[s.Name].Resources)...)
			want.ResourceTemplates = append(want.ResourceTemplates, unclaimed(templates, "uriTemplate", directs[s.Name].ResourceTemplates)...)
		}
		sameItems(t, "tools", "name", want.Tools, sharedTools(merged.Tools))
		sameItems(t, "prompts", "name", want.Prompts, merged.Prompts)
		sameItems(t, "resources", "uri", want.Resources, merged.Resources)
		sameItems(t, "templates", "uriTemplate", want.ResourceTemplates, merged.ResourceTemplates)
	})
}

func modern(r *Report) bool { return r.ProtocolVersion >= "2026" }

// owner tells which server answers a step at the merged endpoint: the three conformance servers offer the same URIs, and
// the first in byte order has them.
func (f *federation) owner(step Step, server string) string {
	uri, _ := step.Params["uri"].(string)
	if ref, ok := step.Params["ref"].(map[string]any); ok {
		uri, _ = ref["uri"].(string)
	}
	if strings.HasPrefix(uri, "test://") {
		return "gostateful"
	}
	return server
}

// exposed is a step with its name as the namespaced endpoint has it.
func exposed(server string, step Step) Step {
	params := maps.Clone(step.Params)
	if name, ok := params["name"].(string); ok {
		params["name"] = server + "__" + name
	}
	if ref, ok := params["ref"].(map[string]any); ok && ref["name"] != nil {
		ref = maps.Clone(ref)
		ref["name"] = fmt.Sprintf("%s__%s", server, ref["name"])
		params["ref"] = ref
	}
	return Step{step.Method, params}
}

func renamed(server string, items []Item) []Item {
	out := make([]Item, len(items))
	for i, item := range items {
		out[i] = maps.Clone(item)
		out[i]["name"] = fmt.Sprintf("%s__%s", server, item["name"])
	}
	return out
}

// unclaimed drops the items whose identifier an earlier server has, and notes the others as claimed.
func unclaimed(claimed map[any]bool, key string, items []Item) []Item {
	var out []Item
	for _, item := range items {
		if !claimed[item[key]] {
			claimed[item[key]] = true
			out = append(out, item)
		}
	}
	return out
}

// sharedTools leaves out the tool that npm everything offers only on sessions whose client can list its roots: one list
// is shared by clients of different capabilities.
func sharedTools(tools []Item) []Item {
	return slices.DeleteFunc(slices.Clone(tools), func(tool Item) bool {
		name, _ := tool["name"].(string)
		return strings.HasSuffix(name, "get-roots-list")
	})
}

// shownTasks drops what a tool says about legacy tasks where nobody could ask for one: the client speaks no 2025-11-25,
// or the server makes none (checklist 6.3), and would be told to send what is not served.
func shownTasks(server string, seen *Report, tools []Item) []Item {
	if seen.ProtocolVersion == "2025-11-25" && server == "everything" {
		return tools
	}
	out := make([]Item, len(tools))
	for i, tool := range tools {
		out[i] = maps.Clone(tool)
		delete(out[i], "execution")
	}
	return out
}

func sameItems(t *testing.T, what, key string, want, got []Item) {
	t.Helper()
	byKey := func(items []Item) map[string]Item {
		out := map[string]Item{}
		for _, item := range items {
			id := fmt.Sprint(item[key])
			if out[id] != nil {
				t.Errorf("%s: %s is listed twice", what, id)
			}
			out[id] = withoutOwnMeta(item)
		}
		return out
	}
	if diff := cmp.Diff(byKey(want), byKey(got)); diff != "" {
		t.Errorf("%s differ (-direct +through the gateway):\n%s", what, diff)
	}
}

// timeOfDay is in the text of npm everything's dynamic resources.
var timeOfDay = regexp.MustCompile(`created at [^"]+`)

func sameAnswer(t *testing.T, step Step, want, got Answer, modern bool) {
	t.Helper()
	if (want.Error == nil) != (got.Error == nil) {
		t.Errorf("%s %v: direct %+v, through the gateway %+v", step.Method, step.Params, want, got)
		return
	}
	if want.Error != nil {
		if want.Error.Code != got.Error.Code {
			t.Errorf("%s %v: direct error %+v, through the gateway %+v", step.Method, step.Params, *want.Error, *got.Error)
		}
		return
	}
	w, g := withoutOwnMeta(want.Result), withoutOwnMeta(got.Result)
	if !modern {
		// The modern era requires these of a result, and the legacy one does not know them: Penstock adds or strips them,
		// and some servers send them in either era.
		for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
			delete(w, member)
			delete(g, member)
		}
	}
	mask := cmpopts.AcyclicTransformer("mask", func(s string) string { return timeOfDay.ReplaceAllString(s, "created at TIME") })
	if diff := cmp.Diff(w, g, mask); diff != "" {
		t.Errorf("%s %v (-direct +through the gateway):\n%s", step.Method, step.Params, diff)
	}
}

// withoutOwnMeta is a copy without the _meta keys that belong to one hop or to Penstock (DESIGN section 3).
func withoutOwnMeta(object map[string]any) map[string]any {
	out := maps.Clone(object)
	meta, ok := out["_meta"].(map[string]any)
	if !ok {
		return out
	}
	meta = maps.Clone(meta)
	delete(meta, "penstock/upstream")
	delete(meta, "io.modelcontextprotocol/serverInfo")
	delete(out, "_meta")
	if len(meta) > 0 {
		out["_meta"] = meta
	}
	return out
}
