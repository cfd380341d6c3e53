package durable_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/durable"
)

// gateway is one life of a gateway, with a client that declares tasks.
type gateway struct {
	t     *testing.T
	url   string
	c     *http.Client
	close func()
}

// serve begins a life of the gateway of a document.
func serve(t *testing.T, yaml string) *gateway {
	t.Helper()
	doc, err := config.Parse("penstock.yaml", []byte(yaml), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	ctx, cancel := context.WithCancel(context.Background())
	store, err := penstock.OpenStore(ctx, doc, log)
	if err != nil {
		t.Fatal(err)
	}
	gw, err := penstock.New(doc, penstock.WithStore(store), penstock.WithLogger(log))
	if err != nil {
		t.Fatal(err)
	}
	var life sync.WaitGroup
	life.Go(func() { _ = gw.Run(ctx) })
	front := httptest.NewServer(gw.Handler())
	g := &gateway{t: t, url: front.URL + doc.Servers[config.DefaultServer].Path, c: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}}
	g.close = sync.OnceFunc(func() {
		g.c.CloseIdleConnections()
		front.Close()
		end, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		cancel()
		_ = gw.Close(end)
		life.Wait()
		_ = store.Close()
	})
	t.Cleanup(g.close)
	return g
}

// ask makes a request and returns its result; refusal is the error's message, or
// the code in the result of a tool.
func (g *gateway) ask(method, name string, params map[string]any, into any) (refusal string) {
	g.t.Helper()
	params["_meta"] = json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		g.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, g.url, bytes.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name},
	}
	a, err := g.c.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer a.Body.Close()
	var out struct {
		Result json.RawMessage           `json:"result"`
		Error  *struct{ Message string } `json:"error"`
	}
	if err := json.NewDecoder(a.Body).Decode(&out); err != nil {
		g.t.Fatalf("%s %s: HTTP %d: %v", method, name, a.StatusCode, err)
	}
	if out.Error != nil {
		return out.Error.Message
	}
	var tool struct {
		IsError           bool
		StructuredContent struct{ Code string }
	}
	_ = json.Unmarshal(out.Result, &tool) // another shape is no refusal
	if tool.IsError {
		return tool.StructuredContent.Code
	}
	if err := json.Unmarshal(out.Result, into); err != nil {
		g.t.Fatalf("%s %s: %s: %v", method, name, out.Result, err)
	}
	return ""
}

func (g *gateway) tool(name string, arguments map[string]any, into any) (refusal string) {
	g.t.Helper()
	return g.ask("tools/call", name, map[string]any{"name": name, "arguments": arguments}, into)
}

// told is what a caller is told of a task.
type told struct {
	TaskID, Status, StatusMessage string
	Meta                          struct {
		Route struct {
			Phase          string `json:"routePhase"`
			Execution      string `json:"executionState"`
			Reconciliation bool   `json:"reconciliationRequired"`
		} `json:"penstock/taskRoute"`
	} `json:"_meta"`
}

// submission is the arguments of a submit for the examples' tool, with a lease.
func (g *gateway) submission(key, arguments string) map[string]any {
	g.t.Helper()
	return g.submissionOf("ledger__append_entry", key, arguments, 20*time.Second)
}

func (g *gateway) submissionOf(alias, key, arguments string, runtime time.Duration) map[string]any {
	g.t.Helper()
	var described struct {
		StructuredContent struct{ SchemaDigest string }
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		refusal := g.tool("penstock_describe", map[string]any{"alias": alias}, &described)
		if refusal == "" {
			break
		}
		if time.Now().After(end) {
			g.t.Fatal(refusal)
		}
	}
	var leased struct{ StructuredContent struct{ LeaseID string } }
	if r := g.tool("penstock_lease", map[string]any{"aliases": []string{alias}, "sideEffects": []string{"non_idempotent_write"}}, &leased); r != "" {
		g.t.Fatal(r)
	}
	return map[string]any{
		"leaseId": leased.StructuredContent.LeaseID, "alias": alias, "arguments": json.RawMessage(arguments),
		"task": document(g.t, key, described.StructuredContent.SchemaDigest, arguments, runtime),
	}
}

// document is a submission whose logical task is its key.
func document(t *testing.T, key, schema, arguments string, runtime time.Duration) durable.Submission {
	t.Helper()
	sum, err := durable.SumJSON([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	return durable.Submission{
		SchemaVersion: "penstock.task-submission/1", LogicalTaskID: key, AttemptID: "a", CorrelationID: "c", IdempotencyKey: key,
		ProviderInterfaceVersion: schema, InputSHA256: sum, AcceptancePolicySHA256: sum, ArtifactScopeSHA256: sum,
		DeadlineUnixMs: uint64(time.Now().Add(time.Minute).UnixMilli()), RetentionMs: 120_000,
		Limits:          durable.Limits{MaxRuntimeMs: uint64(runtime.Milliseconds()), MaxOutputBytes: 65_536, MaxArtifactBytes: 1, MaxAttempts: 1},
		PermittedEffect: durable.NonIdempotentWrite, CleanupRequired: true,
	}
}

func (g *gateway) submit(s map[string]any) (out told) {
	g.t.Helper()
	if r := g.tool("penstock_submit", s, &out); r != "" {
		g.t.Fatal(r)
	}
	return out
}

func (g *gateway) get(id string) (out told) {
	g.t.Helper()
	if r := g.ask("tasks/get", id, map[string]any{"taskId": id}, &out); r != "" {
		g.t.Fatal(r)
	}
	return out
}

// awaitEnd polls until a task has ended.
func (g *gateway) awaitEnd(id string) (out told) {
	g.t.Helper()
	for end := time.Now().Add(15 * time.Second); out.Status == "" || out.Status == "working"; time.Sleep(20 * time.Millisecond) {
		if out = g.get(id); time.Now().After(end) {
			g.t.Fatalf("it goes on: %+v", out)
		}
	}
	return out
}

// listening is the Go example over HTTP: a worker that outlives gateways.
func listening(t *testing.T) (w *worker, url string) {
	t.Helper()
	exe, err := buildGo()
	if err != nil {
		t.Fatal(err)
	}
	w = &worker{t: t, state: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, exe, "--state", w.state, "--listen", "127.0.0.1:0")
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	url, found := strings.CutPrefix(strings.TrimSpace(line), "serving on ")
	if err != nil || !found {
		t.Fatalf("%q, %v", line, err)
	}
	return w, url
}

// pinOf is the pin of an example, which is the same over HTTP and stdio.
func pinOf(t *testing.T, argv ...string) string {
	t.Helper()
	w := &worker{t: t, argv: argv, state: t.TempDir()}
	w.start()
	defer w.crash()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	offer, err := w.child.Discover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := offer.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return pin.String()
}

func TestATaskOutlivesTheGatewayWhereItsWorkerKeepsNoSession(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"stateless", "strict"} {
		t.Run(session, func(t *testing.T) {
			t.Parallel()
			w, url := listening(t)
			exe, err := buildGo()
			if err != nil {
				t.Fatal(err)
			}
			yaml := fmt.Sprintf("state: 'sqlite:%s'\nupstreams:\n  ledger:\n    url: %s\n    durable: {pin: '%s', session: %s}\n",
				filepath.Join(t.TempDir(), "state.db"), url, pinOf(t, exe), session)
			g := serve(t, yaml)
			s := g.submission("one", `{"text":"one","seconds":1}`)
			handle := g.submit(s)
			if handle.Meta.Route.Phase != "routed" {
				t.Errorf("%+v", handle)
			}
			g.close()

			g = serve(t, yaml)
			if again := g.submit(s); again.TaskID != handle.TaskID {
				t.Errorf("%+v, then %+v", handle, again)
			}
			w.awaitLedger(1)
			if session == "stateless" {
				if last := g.awaitEnd(handle.TaskID); last.Status != "completed" || last.Meta.Route.Execution != "upstream_reported" {
					t.Errorf("%+v", last)
				}
			} else if last := g.get(handle.TaskID); last.Status != "working" || last.Meta.Route.Execution != "unknown" || !last.Meta.Route.Reconciliation {
				t.Errorf("%+v", last)
			}
			w.ledger(1)
		})
	}
}

func TestAWorkerOverStdioDoesWhatIsSubmittedAtTheGatewayOnce(t *testing.T) {
	t.Parallel()
	for name, argv := range workers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &worker{t: t, state: t.TempDir()}
			yaml := fmt.Sprintf("state: 'sqlite:%s'\nupstreams:\n  ledger:\n    command: ['%s', --state, '%s']\n    durable: {pin: '%s'}\n",
				filepath.Join(t.TempDir(), "state.db"), strings.Join(argv, "', '"), w.state, pinOf(t, argv...))
			g := serve(t, yaml)
			s := g.submission("one", `{"text":"one"}`)
			first := g.submit(s)
			if again := g.submit(s); again.TaskID != first.TaskID {
				t.Errorf("%+v, then %+v", first, again)
			}
			if end := g.awaitEnd(first.TaskID); end.Status != "completed" || end.Meta.Route.Execution != "upstream_reported" {
				t.Errorf("%+v", end)
			}
			w.ledger(1)
			other := g.submission("one", `{"text":"two"}`)
			if r := g.tool("penstock_submit", other, &told{}); r != "PENSTOCK_TASK_IDEMPOTENCY_CONFLICT" {
				t.Errorf("the key with another input: %q", r)
			}
			late := g.submit(g.submission("three", `{"text":"three","seconds":15}`))
			if r := g.ask("tasks/update", late.TaskID, map[string]any{"taskId": late.TaskID, "inputResponses": map[string]any{}}, &told{}); r != "PENSTOCK_TASK_UPDATE_UNSUPPORTED_DURABLE" {
				t.Errorf("an update: %q", r)
			}
			if r := g.ask("tasks/cancel", late.TaskID, map[string]any{"taskId": late.TaskID}, &told{}); r != "" {
				t.Error(r)
			}
			if end := g.awaitEnd(late.TaskID); end.Status != "cancelled" {
				t.Errorf("%+v", end)
			}
			w.ledger(1)
		})
	}
}
