package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/direct"
	"github.com/penstock-mcp/penstock/test/peers"
)

var jsonBlocks = regexp.MustCompile("(?ms)^ *```json\n(.*?)^ *```$")

// endpoint is the gateway of the page's document, for a client that declares tasks.
type endpoint struct {
	t   *testing.T
	url string
	c   *http.Client
}

// durableEndpoint serves the first document of the page: the example worker in Python
// behind it, and the state in a folder of the test.
func durableEndpoint(t *testing.T, text string) *endpoint {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if peers.InCI() {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	script, err := filepath.Abs("../../examples/durable-worker/python/worker.py")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	yaml := block(t, text, "yaml", 0)
	for old, now := range map[string]string{
		"sqlite:penstock.db": "sqlite:" + filepath.Join(dir, "penstock.db"), "python3": python,
		"examples/durable-worker/python/worker.py": script, "--state, ledger": "--state, " + filepath.Join(dir, "ledger"),
	} {
		if !strings.Contains(yaml, old) {
			t.Fatalf("there is no %s in\n%s", old, yaml)
		}
		yaml = strings.ReplaceAll(yaml, old, now)
	}
	doc := parsed(t, yaml)
	checkPin(t, doc.Upstreams["ledger"].Durable.Pin, doc.Upstreams["ledger"].Command)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	store, err := penstock.OpenStore(ctx, doc, nil)
	if err != nil {
		t.Fatal(err)
	}
	gw, err := penstock.New(doc, penstock.WithStore(store))
	if err != nil {
		t.Fatal(err)
	}
	var life sync.WaitGroup
	life.Go(func() { _ = gw.Run(ctx) })
	front := httptest.NewServer(gw.Handler())
	e := &endpoint{t: t, url: front.URL + doc.Servers["default"].Path, c: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}}
	t.Cleanup(func() {
		e.c.CloseIdleConnections()
		front.Close()
		end, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		cancel()
		_ = gw.Close(end)
		life.Wait()
		_ = store.Close()
	})
	return e
}

// checkPin holds the pin of the page against what the worker offers.
func checkPin(t *testing.T, pin string, command []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	child, err := direct.Start(ctx, direct.Command{Argv: command, Env: direct.Environment()})
	if err != nil {
		t.Fatal(err)
	}
	offer, err := child.Discover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Close(10 * time.Second); err != nil {
		t.Error(err)
	}
	if offered, err := offer.Manifest(); err != nil || offered.String() != pin {
		t.Fatalf("the pin on the page is %s, and the worker offers %s (%v)", pin, offered, err)
	}
}

// ask makes a request and returns its result.
func (e *endpoint) ask(method, name string, params map[string]any, into any) {
	e.t.Helper()
	params["_meta"] = json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		e.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method},
	}
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	a, err := e.c.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer a.Body.Close()
	raw, err := io.ReadAll(a.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	var out struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(raw, &out); err != nil || out.Result == nil || json.Unmarshal(out.Result, into) != nil {
		e.t.Fatalf("%s %s: %s", method, name, raw)
	}
}

// call calls the tool of a block of the page.
func (e *endpoint) call(text string, into any) {
	e.t.Helper()
	var params map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&params); err != nil {
		e.t.Fatalf("%s: %v", text, err)
	}
	e.ask("tools/call", params["name"].(string), params, into)
}

func TestTheStepsOfDurableTasksDoWhatThePageSays(t *testing.T) {
	t.Parallel()
	text := page(t, "durable.md")
	e := durableEndpoint(t, text)
	steps := jsonBlocks.FindAllStringSubmatch(section(t, text, "## Using them"), -1)
	if len(steps) != 3 {
		t.Fatalf("there are %d steps", len(steps))
	}

	var told []string
	for _, row := range table(t, text, "Tool", "For") {
		told = append(told, code(row[0])...)
	}
	slices.Sort(told)
	// The upstream is looked at behind the start.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		offered := e.ownTools()
		if slices.Equal(told, offered) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the page tells of %q, and there are %q", told, offered)
		}
	}

	var described struct {
		StructuredContent struct{ SchemaDigest, SideEffect string }
	}
	e.call(steps[0][1], &described)
	var leased struct{ StructuredContent struct{ LeaseID string } }
	e.call(steps[1][1], &leased)
	if described.StructuredContent.SideEffect != "non_idempotent_write" || leased.StructuredContent.LeaseID == "" {
		t.Fatalf("%+v, %+v", described, leased)
	}
	submission := strings.NewReplacer(
		"LEASE", leased.StructuredContent.LeaseID, "SCHEMA_DIGEST", described.StructuredContent.SchemaDigest,
		"1796070000000", fmt.Sprint(time.Now().Add(5*time.Minute).UnixMilli()),
	).Replace(steps[2][1])
	type task struct{ TaskID, ResultType, Status, StatusMessage string }
	var first, again, last task
	e.call(submission, &first)
	e.call(submission, &again)
	if first.ResultType != "task" || !durable.IsPublicID(first.TaskID) || again.TaskID != first.TaskID {
		t.Fatalf("%+v, then %+v", first, again)
	}
	for end := time.Now().Add(10 * time.Second); last.Status != "completed"; time.Sleep(20 * time.Millisecond) {
		e.ask("tasks/get", first.TaskID, map[string]any{"taskId": first.TaskID}, &last)
		if last.Status != "working" && last.Status != "completed" || time.Now().After(end) {
			t.Fatalf("%+v", last)
		}
	}
}

// ownTools are the gateway's own among the tools that are listed.
func (e *endpoint) ownTools() (names []string) {
	e.t.Helper()
	var listed struct{ Tools []struct{ Name string } }
	e.ask("tools/list", "", map[string]any{}, &listed)
	for _, tool := range listed.Tools {
		if strings.HasPrefix(tool.Name, "penstock_") {
			names = append(names, tool.Name)
		}
	}
	slices.Sort(names)
	return names
}

// sourceCodes are the codes of the contract that stand in the code.
func sourceCodes(t *testing.T) (codes []string) {
	t.Helper()
	literal := regexp.MustCompile(`"((?:TASK|LEASE|CAPABILITY|STORAGE|CLOCK)_[A-Z_]+)`)
	// They tell where a record is broken, behind PENSTOCK_STORAGE_TASK_ROUTE.
	within := []string{"TASK_ROUTE_INVARIANT", "TASK_ROUTE_COLUMN_MISMATCH"}
	for _, pattern := range []string{"../../internal/durable/*.go", "../../internal/gateway/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range literal.FindAllSubmatch(raw, -1) {
				if c := string(m[1]); !slices.Contains(within, c) {
					codes = append(codes, durable.Penstock.Code(c))
				}
			}
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func TestThePageOfDurableTasksTellsOfEveryCodeAndPhase(t *testing.T) {
	t.Parallel()
	text := page(t, "durable.md")
	var told []string
	for _, m := range regexp.MustCompile("`(PENSTOCK_[A-Z_]+)`").FindAllStringSubmatch(text, -1) {
		told = append(told, m[1])
	}
	slices.Sort(told)
	told = slices.Compact(told)
	for _, c := range sourceCodes(t) {
		if !slices.Contains(told, c) {
			t.Errorf("the page does not tell of %s", c)
		}
	}
	for _, c := range told {
		if !slices.Contains(sourceCodes(t), c) {
			t.Errorf("the page tells of %s, which there is not", c)
		}
	}
	var phases []string
	for _, row := range table(t, text, "Phase", "What is certain") {
		phases = append(phases, code(row[0])...)
	}
	var there []string
	for _, p := range durable.Phases {
		there = append(there, string(p))
	}
	if !slices.Equal(phases, there) {
		t.Errorf("the phases are %q, and on the page %q", there, phases)
	}
}
