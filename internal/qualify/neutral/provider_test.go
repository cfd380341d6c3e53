package neutral_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/artifact"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// client talks to a provider in this process; its workers are processes.
type client struct {
	t     *testing.T
	root  string
	to    io.WriteCloser
	lines *bufio.Scanner
	id    int
	done  chan error
}

func serve(t *testing.T) *client {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	in, to := io.Pipe()
	from, out := io.Pipe()
	c := &client{t: t, root: root, to: to, lines: bufio.NewScanner(from), done: make(chan error, 1)}
	go func() {
		err := neutral.Serve(t.Context(), neutral.Options{Root: root, Worker: []string{"env", "GORACE=atexit_sleep_ms=0", exe, neutral.WorkerCommand}}, in, out)
		_ = out.Close()
		c.done <- err
	}()
	t.Cleanup(func() {
		_ = to.Close()
		_ = from.Close()
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			t.Error("the provider does not end")
		}
	})
	return c
}

type answer struct {
	ID     int
	Result map[string]any
	Error  *struct {
		Code    int
		Message string
	}
}

const modern = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

func (c *client) raw(line string) (a answer) {
	c.t.Helper()
	if _, err := io.WriteString(c.to, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
	if !c.lines.Scan() {
		c.t.Fatal("no answer")
	}
	if err := json.Unmarshal(c.lines.Bytes(), &a); err != nil {
		c.t.Fatalf("%s: %v", c.lines.Text(), err)
	}
	return a
}

func (c *client) ask(method, params string) answer {
	c.t.Helper()
	c.id++
	if params != "" {
		params += ","
	}
	a := c.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{%s}}}`, c.id, method, params, modern))
	if a.ID != c.id {
		c.t.Fatalf("the answer is to %d", a.ID)
	}
	return a
}

const envelope = `{"schemaVersion":"penstock.task-execution/1","publicTaskId":"pst_%[1]s","requestSha256":"sha256:aa","upstreamSessionId":"psus_1",` +
	`"submission":{"big":18446744073709551615,"task":{"logicalTaskId":"l-%[1]s","attemptId":"a","correlationId":"c","idempotencyKey":"k","retentionMs":60000,"limits":{"maxRuntimeMs":%[2]d}}}}`

func (c *client) submit(name, arguments string, runtime int) answer {
	c.t.Helper()
	c.id++
	return c.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"normalize_json","arguments":%s,"_meta":{%s,"penstock/taskExecution":%s}}}`,
		c.id, arguments, modern, fmt.Sprintf(envelope, name, runtime)))
}

func (c *client) get(id any) answer { return c.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id)) }

// await polls until a task has ended.
func (c *client) await(a answer) answer {
	c.t.Helper()
	if a.Error != nil {
		c.t.Fatalf("%+v", a.Error)
	}
	id := a.Result["taskId"]
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if a = c.get(id); a.Result["status"] != "working" {
			return a
		}
		if time.Now().After(end) {
			c.t.Fatal("it goes on")
		}
	}
}

func (c *client) count(e neutral.Event, want int) {
	c.t.Helper()
	if got, err := neutral.Count(c.root, e); err != nil || got != want {
		c.t.Errorf("%s: %d, want %d (%v)", e, got, want, err)
	}
}

func expected(name, input string) *artifact.Expected {
	return &artifact.Expected{
		PublicTask: "pst_" + name, RequestDigest: "sha256:aa", LogicalTask: "l-" + name, Attempt: "a", Correlation: "c", Key: "k",
		Input: durable.Sum([]byte(input)),
	}
}

func TestAProviderSaysWhatItIs(t *testing.T) {
	c := serve(t)
	d := c.ask("server/discover", "")
	if d.Error != nil || fmt.Sprint(d.Result["supportedVersions"]) != "[2026-07-28]" {
		t.Errorf("%+v", d)
	}
	l := c.ask("tools/list", "")
	if tools, _ := l.Result["tools"].([]any); len(tools) != 1 {
		t.Errorf("%+v", l)
	}
}

func TestATaskEchoesItsEnvelopeAndLeavesArtifactsThatHold(t *testing.T) {
	c := serve(t)
	const input = `{"a":1,"b":[true,"ü"]}`
	made := c.submit("one", `{"input":`+input+`,"outputDirectory":"x/y"}`, 5000)
	ended := c.await(made)
	var sent any
	if err := json.Unmarshal(fmt.Appendf(nil, envelope, "one", 5000), &sent); err != nil {
		t.Fatal(err)
	}
	for _, a := range []answer{made, ended} {
		if echo := a.Result["_meta"].(map[string]any)["penstock/taskExecution"]; !reflect.DeepEqual(echo, sent) {
			t.Errorf("%v", a.Result)
		}
	}
	if made.Result["resultType"] != "task" || ended.Result["resultType"] != "complete" || ended.Result["status"] != "completed" {
		t.Errorf("%v\n%v", made.Result, ended.Result)
	}
	if err := artifact.Verify(filepath.Join(c.root, neutral.OutputFolder, "x", "y"), expected("one", input)); err != nil {
		t.Error(err)
	}
	for e, n := range map[neutral.Event]int{neutral.Submission: 1, neutral.WorkerStart: 1, neutral.WorkerEffect: 1, neutral.Termination: 0, neutral.CancelAck: 0} {
		c.count(e, n)
	}
	// What stands there is not written over, and a second task says so.
	if again := c.await(c.submit("two", `{"input":{},"outputDirectory":"x/y"}`, 5000)); again.Result["status"] != "failed" {
		t.Errorf("%v", again.Result)
	}
	c.count(neutral.WorkerEffect, 1)
}

func TestACancelKillsTheWorkerAndIsAcknowledged(t *testing.T) {
	c := serve(t)
	made := c.submit("one", `{"input":{},"outputDirectory":"x","delayMs":9000}`, 9000)
	id := made.Result["taskId"]
	if a := c.ask("tasks/cancel", fmt.Sprintf(`"taskId":%q`, id)); a.Error != nil || a.Result["resultType"] != "complete" {
		t.Errorf("%+v", a)
	}
	if a := c.get(id); a.Result["status"] != "cancelled" {
		t.Errorf("%v", a.Result)
	}
	c.count(neutral.CancelAck, 1)
	c.count(neutral.Termination, 1)
	c.count(neutral.WorkerEffect, 0)
}

func TestAWorkerIsKilledWhenItsDeclaredRuntimeIsOver(t *testing.T) {
	c := serve(t)
	a := c.await(c.submit("one", `{"input":{},"outputDirectory":"x","delayMs":9000}`, 100))
	if a.Result["status"] != "failed" {
		t.Errorf("%v", a.Result)
	}
	c.count(neutral.Termination, 1)
	c.count(neutral.CancelAck, 0)
	c.count(neutral.WorkerEffect, 0)
}

func TestWhatAProviderRefusesStartsNoWorker(t *testing.T) {
	c := serve(t)
	for name, arguments := range map[string]string{
		"no object":        `{"input":[1],"outputDirectory":"x"}`,
		"too large":        `{"input":{"a":"` + strings.Repeat("x", 4096) + `"},"outputDirectory":"x"}`,
		"upwards":          `{"input":{},"outputDirectory":"x/../../y"}`,
		"absolute":         `{"input":{},"outputDirectory":"/x"}`,
		"here":             `{"input":{},"outputDirectory":"."}`,
		"nowhere":          `{"input":{},"outputDirectory":""}`,
		"another spelling": `{"input":{},"outputDirectory":"x\\..\\y"}`,
		"nine deep":        `{"input":{},"outputDirectory":"1/2/3/4/5/6/7/8/9"}`,
		"unknown":          `{"input":{},"outputDirectory":"x","more":1}`,
		"long":             `{"input":{},"outputDirectory":"x","delayMs":10001}`,
	} {
		if a := c.submit("one", arguments, 5000); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := c.ask("tools/call", `"name":"normalize_json","arguments":{"input":{},"outputDirectory":"x"}`); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("without an envelope: %+v", a)
	}
	if a := c.raw(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}}}`); a.Error == nil || a.Error.Code != -32022 {
		t.Errorf("another revision: %+v", a)
	}
	if a := c.raw(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`); a.Error == nil || a.Error.Code != -32021 {
		t.Errorf("a client without tasks: %+v", a)
	}
	if a := c.get("nobody"); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("an unknown task: %+v", a)
	}
	c.count(neutral.Submission, 0)
	c.count(neutral.WorkerStart, 0)
}

func TestAWorkerPassesThroughNoSymbolicLink(t *testing.T) {
	c := serve(t)
	elsewhere := t.TempDir()
	output := filepath.Join(c.root, neutral.OutputFolder)
	if err := os.MkdirAll(output, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out": elsewhere, "in": "."} {
		if err := os.Symlink(target, filepath.Join(output, name)); err != nil {
			t.Skip("no symbolic links here: ", err)
		}
		a := c.await(c.submit(name, `{"input":{},"outputDirectory":"`+name+`/x"}`, 5000))
		if a.Result["status"] != "failed" {
			t.Errorf("%s: %v", name, a.Result)
		}
	}
	c.count(neutral.WorkerEffect, 0)
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestWorkersEndWithTheirProvider(t *testing.T) {
	c := serve(t)
	c.submit("one", `{"input":{},"outputDirectory":"x","delayMs":9000}`, 9000)
	_ = c.to.Close()
	select {
	case err := <-c.done:
		if err != nil {
			t.Error(err)
		}
		c.done <- nil
	case <-time.After(5 * time.Second):
		t.Fatal("the provider waits for its worker")
	}
	c.count(neutral.Termination, 1)
	c.count(neutral.WorkerEffect, 0)
}

func TestAWorkerWithoutItsGuardDoesNothing(t *testing.T) {
	if err := neutral.Work(func(string) string { return "" }, strings.NewReader("")); err == nil {
		t.Error("it worked")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := neutral.Serve(ctx, neutral.Options{Root: t.TempDir()}, strings.NewReader("{}\n"), io.Discard); err == nil {
		t.Error("it served behind the end of its context")
	}
}
