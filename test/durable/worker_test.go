package durable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/direct"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/test/peers"
)

const examples = "../../examples/durable-worker"

var buildGo = sync.OnceValues(func() (string, error) {
	exe := filepath.Join(built, "worker")
	out, err := exec.Command("go", "build", "-o", exe, examples+"/go").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return exe, nil
})

// workers are the commands of the examples.
func workers(t *testing.T) map[string][]string {
	t.Helper()
	exe, err := buildGo()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{"go": {exe}}
	python, err := exec.LookPath("python3")
	script, absErr := filepath.Abs(examples + "/python/worker.py")
	switch {
	case absErr != nil:
		t.Fatal(absErr)
	case err == nil:
		found["python"] = []string{python, script}
	case peers.InCI():
		t.Fatal(err)
	default:
		t.Log("the example in Python is left out: ", err)
	}
	return found
}

// worker is an example as a process, with a state that outlives it.
type worker struct {
	t      *testing.T
	argv   []string
	state  string
	child  *direct.Child
	source *direct.Source
	conn   durable.Connection
}

func onEach(t *testing.T, f func(t *testing.T, w *worker)) {
	for name, argv := range workers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &worker{t: t, argv: argv, state: t.TempDir()}
			w.start()
			f(t, w)
		})
	}
}

// start starts another process on the same state.
func (w *worker) start() {
	w.t.Helper()
	child, err := direct.Start(context.Background(), direct.Command{
		Argv: append(append([]string{}, w.argv...), "--state", w.state), Dir: w.state, Env: direct.Environment(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.child = child
	w.t.Cleanup(child.Kill)
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	offer, err := child.Discover(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if !offer.SupportsTasks() {
		w.t.Fatal("it speaks no tasks")
	}
	if w.source, err = direct.Pin("ledger", child, offer, durable.Settings{Echo: true}); err != nil {
		w.t.Fatal(err)
	}
	if w.conn, err = w.source.Connect(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// crash ends the process without warning.
func (w *worker) crash() { w.child.Kill() }

func (w *worker) send(method string, params string) durable.Reply {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	r := w.conn.Send(ctx, method, "", json.RawMessage(params), nil)
	if r.Fault != nil {
		w.t.Fatal(r.Fault)
	}
	return r
}

// envelope is that of a task, with a runtime in milliseconds.
func envelope(public, digest string, runtime int) string {
	return fmt.Sprintf(`{"schemaVersion":"penstock.task-execution/1","publicTaskId":%q,"requestSha256":%q,"upstreamSessionId":"psus_1",`+
		`"submission":{"schemaVersion":"penstock.task-route/1","task":{"logicalTaskId":"<l&>","deadlineUnixMs":%d,"retentionMs":600000,"limits":{"maxRuntimeMs":%d,"maxAttempts":1}}}}`,
		public, digest, time.Now().Add(time.Hour).UnixMilli(), runtime)
}

func (w *worker) call(envelope, arguments string) durable.Reply {
	return w.send("tools/call", fmt.Sprintf(`{"name":"append_entry","arguments":%s,"_meta":{"penstock/taskExecution":%s}}`, arguments, envelope))
}

type seen struct {
	ResultType string                     `json:"resultType"`
	ID         string                     `json:"taskId"`
	Status     string                     `json:"status"`
	Message    string                     `json:"statusMessage"`
	Result     json.RawMessage            `json:"result"`
	Meta       map[string]json.RawMessage `json:"_meta"`
	Error      *struct{ Message string }  `json:"error"`
}

func (w *worker) read(r durable.Reply) (s seen) {
	w.t.Helper()
	if r.Error != nil {
		w.t.Fatalf("%+v", r.Error)
	}
	if err := json.Unmarshal(r.Result, &s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *worker) get(id string) seen {
	return w.read(w.send("tasks/get", fmt.Sprintf(`{"taskId":%q}`, id)))
}

func (w *worker) await(id string) (s seen) {
	w.t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s = w.get(id); s.Status != "working" {
			return s
		}
	}
	w.t.Fatal("it goes on")
	return s
}

// ledger is how many lines there are.
func (w *worker) ledger(want int) {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.state, "ledger.txt"))
	if got := strings.Count(string(raw), "\n"); got != want || err != nil && want > 0 {
		w.t.Errorf("%d entries in the ledger, want %d (%v)", got, want, err)
	}
}

// awaitLedger waits until there are so many lines.
func (w *worker) awaitLedger(want int) {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if raw, err := os.ReadFile(filepath.Join(w.state, "ledger.txt")); err == nil && strings.Count(string(raw), "\n") >= want {
			break
		}
	}
	w.ledger(want)
}

func TestAnExampleWorkerEchoesTheEnvelopeInEveryAnswer(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *worker) {
		e := envelope("pst_1", "sha256:a", 5000)
		made := w.read(w.call(e, `{"text":"one"}`))
		ended := w.await(made.ID)
		var sent any
		if err := json.Unmarshal([]byte(e), &sent); err != nil {
			t.Fatal(err)
		}
		for _, s := range []seen{made, ended} {
			var echo any
			if err := json.Unmarshal(s.Meta["penstock/taskExecution"], &echo); err != nil || !reflect.DeepEqual(echo, sent) {
				t.Errorf("%s: %v", s.Meta, err)
			}
		}
		if made.ResultType != "task" || ended.ResultType != "complete" || ended.Status != "completed" || ended.Result == nil {
			t.Errorf("%+v\n%+v", made, ended)
		}
		w.ledger(1)
	})
}

func TestAnExampleWorkerDoesNotRepeatWhatItWasSentTwice(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *worker) {
		e := envelope("pst_1", "sha256:a", 5000)
		first := w.read(w.call(e, `{"text":"one"}`))
		again := w.read(w.call(e, `{"text":"one"}`))
		if again.ID != first.ID || again.ResultType != "task" {
			t.Errorf("%+v, then %+v", first, again)
		}
		w.await(first.ID)
		w.crash() // also after the answer was lost with the process
		w.start()
		if late := w.read(w.call(e, `{"text":"one"}`)); late.ID != first.ID {
			t.Errorf("%+v, then %+v", first, late)
		}
		if s := w.get(first.ID); s.Status != "completed" {
			t.Errorf("%+v", s)
		}
		w.ledger(1)
		if r := w.call(envelope("pst_1", "sha256:b", 5000), `{"text":"two"}`); r.Error == nil || r.Error.Code != -32602 {
			t.Errorf("another request with the same id: %+v", r)
		}
		w.ledger(1)
	})
}

func TestAnExampleWorkerBeginsAfterACrashWhatWasNeverBegun(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *worker) {
		made := w.read(w.call(envelope("pst_1", "sha256:a", 10_000), `{"text":"one","seconds":0.3}`))
		w.crash()
		w.ledger(0)
		w.start()
		if s := w.await(made.ID); s.Status != "completed" {
			t.Errorf("%+v", s)
		}
		w.ledger(1)
	})
}

func TestAnExampleWorkerSaysOfWhatMayHaveHappenedThatItIsNotKnown(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *worker) {
		made := w.read(w.call(envelope("pst_1", "sha256:a", 10_000), `{"text":"one","seconds":9}`))
		w.crash()
		file := filepath.Join(w.state, "tasks", made.ID+".json")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		acting := strings.NewReplacer(`"acting":false`, `"acting":true`, `"acting": false`, `"acting": true`).Replace(string(raw))
		if err := os.WriteFile(file, []byte(acting), 0o600); err != nil || acting == string(raw) {
			t.Fatal(err, acting)
		}
		w.start()
		if s := w.get(made.ID); s.Status != "failed" || s.Error == nil || !strings.Contains(s.Error.Message, "look at the ledger") {
			t.Errorf("%+v", s)
		}
		w.ledger(0)
	})
}

func TestAnExampleWorkerKeepsTheLimitsOfASubmission(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *worker) {
		late := w.read(w.call(envelope("pst_1", "sha256:a", 100), `{"text":"one","seconds":9}`))
		if s := w.await(late.ID); s.Status != "failed" {
			t.Errorf("%+v", s)
		}
		kept := w.read(w.call(envelope("pst_2", "sha256:b", 10_000), `{"text":"one","seconds":9}`))
		w.send("tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, kept.ID))
		if s := w.get(kept.ID); s.Status != "cancelled" {
			t.Errorf("%+v", s)
		}
		w.ledger(0)
	})
}

func TestAnExampleWorkerRefusesWhatIsNoDurableTask(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *worker) {
		for name, r := range map[string]durable.Reply{
			"no envelope":     w.send("tools/call", `{"name":"append_entry","arguments":{"text":"one"}}`),
			"no text":         w.call(envelope("pst_1", "sha256:a", 100), `{}`),
			"another tool":    w.send("tools/call", `{"name":"other","arguments":{"text":"one"}}`),
			"an unknown task": w.send("tasks/get", `{"taskId":"x"}`),
		} {
			if r.Error == nil || r.Error.Code != -32602 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if r := w.send("tasks/update", `{"taskId":"x","inputResponses":{}}`); r.Error == nil || r.Error.Code != -32601 {
			t.Errorf("an update: %+v", r)
		}
		w.ledger(0)
	})
}

// The whole way: a caller's submission through the coordinator and a store.
func TestADurableTaskRunsAtAnExampleWorkerOnceWhateverItsCallerRepeats(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *worker) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		s, err := engine.Open(ctx, engine.Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "state.db")})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c := durable.New(durable.Options{
			Routes: s.Routes(), Leases: s.Leases(), Sources: w.source, Instance: durable.NewInstanceID(), LeaseOptional: true,
		})
		running, stop := context.WithCancel(ctx)
		var life sync.WaitGroup
		life.Go(func() { c.Run(running) })
		defer life.Wait()
		defer stop()
		target, err := w.source.Target("append_entry")
		if err != nil {
			t.Fatal(err)
		}
		who := durable.Caller{Principal: "p", Tenant: "t", Local: true}
		args := `{"text":"one","seconds":0.1}`
		submission, err := json.Marshal(document(t, "one", target.Capability.Schema.String(), args, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		var id string
		for range 3 {
			raw, err := c.Submit(ctx, &durable.Submit{Caller: who, Target: target, Arguments: json.RawMessage(args), Task: submission})
			if err != nil {
				t.Fatal(err)
			}
			var handle seen
			if err := json.Unmarshal(raw, &handle); err != nil || id != "" && handle.ID != id {
				t.Fatalf("%s, and it was %s (%v)", raw, id, err)
			}
			id = handle.ID
		}
		var last seen
		for last.Status != "completed" {
			raw, err := c.Get(ctx, who, id)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &last); err != nil || last.Status != "working" && last.Status != "completed" {
				t.Fatalf("%s: %v", raw, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		w.ledger(1)
	})
}
