package south

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// logBuffer collects a log.
type logBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func childOptions(modes string) (Options, *logBuffer) {
	log := &logBuffer{}
	return Options{
		Key: "kid",
		Command: &Command{
			Argv: []string{os.Args[0], "child-server", modes},
			// The race detector sleeps for a second at the end of a process.
			Env:     ChildEnv(os.LookupEnv, map[string]string{"GORACE": "atexit_sleep_ms=0"}),
			Guard:   []string{os.Args[0], "child-guard"},
			Backoff: 20 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
		},
		Timeout: 20 * time.Second, TimeoutMax: time.Minute, ProbeTimeout: 3 * time.Second,
		Failures: 100, OpenFor: time.Second, ResponseBytes: 4 << 20, IdleSession: time.Minute,
		ClientInfo: []byte(`{"name":"test","version":"1"}`), Log: slog.New(slog.NewTextHandler(log, nil)),
	}, log
}

func startChild(t *testing.T, modes string, change ...func(*Options)) (*Upstream, *logBuffer) {
	t.Helper()
	o, log := childOptions(modes)
	for _, f := range change {
		f(&o)
	}
	u := New(o)
	u.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		u.Close(ctx)
	})
	return u, log
}

// tool calls one tool of a child.
type toolCall struct {
	name    string
	args    string
	timeout time.Duration
	level   string
	onEvent func(*wire.Answer) error

	key       SessionKey
	onRequest func(context.Context, *wire.Answer) ([]byte, error)
}

func (c toolCall) send(ctx context.Context, u *Upstream) (string, error) {
	l, err := u.Link(ctx, c.key)
	if err != nil {
		return "", err
	}
	id := l.NextID(nil)
	if c.args == "" {
		c.args = "{}"
	}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":%s}}}`, id, c.name, c.args, id)
	a, err := l.Send(ctx, &Request{Method: mcp.ToolsCall, ID: id, Body: body, Timeout: c.timeout, Level: c.level, OnEvent: c.onEvent, OnRequest: c.onRequest})
	if err != nil {
		return "", err
	}
	defer a.Close()
	if a.Whole == nil {
		return "", errors.New("the answer is not whole")
	}
	if a.Scan.Error.Ok() {
		return "", fmt.Errorf("error %d", a.Scan.ErrorCode)
	}
	var text string
	if err := wire.Elements(a.Scan.Content.Of(a.Whole), func(item []byte) bool {
		return wire.Members(item, func(n, v []byte) bool {
			if string(n) == "text" {
				text, err = wire.String(v)
			}
			return true
		}) == nil
	}); err != nil {
		return "", err
	}
	return text, err
}

func mustCall(t *testing.T, u *Upstream, name, args string) string {
	t.Helper()
	got, err := toolCall{name: name, args: args}.send(t.Context(), u)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return got
}

func childFault(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if err == nil || fault.From(err).Code != code {
		t.Errorf("error %v, want %s", err, code.Name())
	}
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func alive(pid int) bool {
	// A zombie is gone; only its parent has not looked yet.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestAChildOfEachEraIsFoundOutAndCalled(t *testing.T) {
	for modes, want := range map[string]struct {
		era mcp.Era
		rev mcp.Revision
	}{
		"modern":          {mcp.Modern, mcp.V20260728},
		"modern,late":     {mcp.Modern, mcp.V20260728}, // slow to start: discovery is answered after its time
		"legacy":          {mcp.Legacy, mcp.V20251125},
		"legacy,oldest":   {mcp.Legacy, mcp.V20250326},
		"exits":           {mcp.Legacy, mcp.V20251125}, // ends on the unknown first message (T8)
		"silent":          {mcp.Legacy, mcp.V20251125}, // never answers what it does not know (checklist 113)
		"modern,banner":   {mcp.Modern, mcp.V20260728},
		"legacy,banner":   {mcp.Legacy, mcp.V20251125},
		"modern,shouts":   {mcp.Modern, mcp.V20260728},
		"legacy,pings":    {mcp.Legacy, mcp.V20251125},
		"modern,stubborn": {mcp.Modern, mcp.V20260728},
	} {
		t.Run(modes, func(t *testing.T) {
			t.Parallel()
			u, log := startChild(t, modes, func(o *Options) {
				if modes == "silent" || modes == "modern,late" {
					o.ProbeTimeout = 500 * time.Millisecond
				}
			})
			if got := mustCall(t, u, "echo", `{"text":"hi \n there"}`); got != "hi \n there" {
				t.Errorf("echo %q", got)
			}
			i := u.Info()
			if i.Era != want.era || i.Revision != want.rev || !hasMember(i.Capabilities, "tools") {
				t.Errorf("info %+v", i)
			}
			if s := u.State(); s.State != "up" || s.PID == 0 || s.Starts != 1 {
				t.Errorf("state %+v", s)
			}
			if strings.Contains(modes, "banner") && !strings.Contains(log.String(), "Welcome to the server!") {
				t.Errorf("the banner is not in the log: %s", log)
			}
			if n := strings.Count(log.String(), "upstream stderr"); strings.Contains(modes, "shouts") && (n == 0 || n > 200) {
				t.Errorf("%d of 500 lines were logged", n)
			}
		})
	}
}

func TestAChildSeesTheAllowedEnvironmentAloneAndItsFolder(t *testing.T) {
	t.Setenv("PENSTOCK_TEST_SECRET", "hunter2")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	u, _ := startChild(t, "modern", func(o *Options) {
		o.Command.Env = ChildEnv(os.LookupEnv, map[string]string{"LOG": "info", "LANG": "tlh"})
		o.Command.Dir = dir
	})
	var names []string
	for line := range strings.Lines(mustCall(t, u, "environment", "")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "HOME", "TMPDIR": // not set everywhere
		default:
			names = append(names, name)
		}
		if name == "LANG" && value != "tlh" {
			t.Errorf("LANG is %q", value)
		}
	}
	if diff := cmp.Diff([]string{"LANG", "LOG", "PATH"}, names); diff != "" {
		t.Error(diff)
	}
	if got := mustCall(t, u, "folder", ""); got != dir {
		t.Errorf("folder %q, want %q", got, dir)
	}
}

func TestConcurrentCallsOfOneChildGetTheirOwnAnswers(t *testing.T) {
	u, _ := startChild(t, "legacy")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			want := fmt.Sprint("text ", i, strings.Repeat("x", i*3000))
			got, err := toolCall{name: "echo", args: fmt.Sprintf(`{"text":%q}`, want)}.send(t.Context(), u)
			if err != nil || got != want {
				t.Errorf("call %d: %.40q, %v", i, got, err)
			}
		})
	}
	wg.Wait()
}

func TestEventsOfAChildComeInOrderBeforeTheAnswer(t *testing.T) {
	for _, modes := range []string{"modern", "legacy"} {
		u, _ := startChild(t, modes)
		var got []string
		_, err := toolCall{name: "progress", onEvent: func(s *wire.Answer) error {
			time.Sleep(time.Millisecond) // slower than the child
			got = append(got, string(s.Params.Of(s.Raw)))
			return nil
		}}.send(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 101 || !strings.HasSuffix(got[0], `"progress":0}`) || !strings.HasSuffix(got[99], `"progress":99}`) || !strings.Contains(got[100], "working") {
			t.Errorf("%s: %d events: %v", modes, len(got), got)
		}
	}
}

// Checklist 6.1: over stdio a log message belongs to a call only while there is one.
func TestALogMessageIsDroppedWhileSeveralCallsRun(t *testing.T) {
	u, _ := startChild(t, "legacy")
	var events atomic.Int32
	count := func(*wire.Answer) error { events.Add(1); return nil }
	if _, err := (toolCall{name: "log", level: "debug", onEvent: count}).send(t.Context(), u); err != nil || events.Load() != 1 {
		t.Fatalf("alone: %d events, %v", events.Load(), err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := (toolCall{name: "slowly", args: `{"size":400}`, onEvent: count}).send(t.Context(), u); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(100 * time.Millisecond)
	if _, err := (toolCall{name: "log", onEvent: count}).send(t.Context(), u); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if events.Load() != 1 {
		t.Errorf("%d events, want none more", events.Load()-1)
	}
}

func TestABatchLineOfTheOldestRevisionIsTakenApart(t *testing.T) {
	u, _ := startChild(t, "legacy,oldest")
	events := 0
	if _, err := (toolCall{name: "batch", onEvent: func(*wire.Answer) error { events++; return nil }}).send(t.Context(), u); err != nil || events != 1 {
		t.Errorf("%d events, %v", events, err)
	}
}

// Checklist 136.
func TestAChildsOwnRequestsAreAnswered(t *testing.T) {
	u, _ := startChild(t, "legacy,pings")
	eventually(t, 5*time.Second, "both answers", func() bool {
		got := mustCall(t, u, "answers", "")
		return strings.Contains(got, `"id":"s1","result":{}`) && strings.Contains(got, `"id":"s2","error":{"code":-32601`)
	})
}

func TestAnAnswerWithinTheBoundIsHeldWholeAndALargerOneFailsItsCallAlone(t *testing.T) {
	for _, name := range []string{"big", "big-id-last"} {
		u, _ := startChild(t, "modern")
		if got := mustCall(t, u, name, `{"size":3000000}`); len(got) != 3000000 {
			t.Errorf("%s: %d bytes", name, len(got))
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := (toolCall{name: "slowly", args: `{"size":300}`}).send(t.Context(), u); err != nil || got != "slept" {
				t.Errorf("beside it: %q, %v", got, err)
			}
		})
		_, err := toolCall{name: name, args: `{"size":5000000}`}.send(t.Context(), u)
		childFault(t, err, fault.TooLarge)
		wg.Wait()
		if mustCall(t, u, "echo", `{"text":"on"}`) != "on" || u.State().Starts != 1 {
			t.Error("the child was not kept")
		}
	}
}

func TestALineOfOneHundredMegabytesPassesByInBoundedMemory(t *testing.T) {
	u, log := startChild(t, "modern")
	mustCall(t, u, "echo", `{"text":""}`)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if got := mustCall(t, u, "big-noise", `{"size":100000000}`); got != "after the noise" {
		t.Errorf("got %q", got)
	}
	runtime.ReadMemStats(&after)
	// Appending up to the bound of 4 MiB costs a few times that in all.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 40<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	if !strings.Contains(log.String(), "too long") {
		t.Error("the line is not in the log")
	}
}

func TestASecondAnswerIsDroppedAndAMissingOneTimesOut(t *testing.T) {
	u, _ := startChild(t, "modern")
	if got := mustCall(t, u, "twice", ""); got != "first" {
		t.Errorf("twice: %q", got)
	}
	if got := mustCall(t, u, "echo", `{"text":"next"}`); got != "next" {
		t.Errorf("the call after it got %q", got)
	}
	_, err := toolCall{name: "never", timeout: 200 * time.Millisecond}.send(t.Context(), u)
	childFault(t, err, fault.UpstreamTimeout)
	eventually(t, 5*time.Second, "the cancellation", func() bool { return mustCall(t, u, "cancelled", "") != "" })
	_, err = toolCall{name: "malformed"}.send(t.Context(), u)
	childFault(t, err, fault.InvalidAnswer)
}

// Checklist 120, 135: the child's own id is cancelled, in both eras.
func TestGivingUpACallCancelsItAtTheChild(t *testing.T) {
	for _, modes := range []string{"modern", "legacy"} {
		u, _ := startChild(t, modes)
		mustCall(t, u, "echo", "")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		begun := time.Now()
		if _, err := (toolCall{name: "never"}).send(ctx, u); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", modes, err)
		}
		if time.Since(begun) > 2*time.Second {
			t.Errorf("%s: gave up after %v", modes, time.Since(begun))
		}
		eventually(t, 5*time.Second, "the cancellation", func() bool {
			return regexp.MustCompile(`^"` + u.nonce + `-\w+"$`).MatchString(mustCall(t, u, "cancelled", ""))
		})
	}
}
