package south

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestAChildThatEndsFailsItsCallsAtOnceAndIsStartedAgain(t *testing.T) {
	for _, name := range []string{"exit", "close-output"} {
		var changes atomic.Int32
		o, _ := childOptions("modern")
		u := New(o)
		u.OnChange(func() { changes.Add(1) })
		u.Start()
		before := mustCall(t, u, "pid", "")
		begun := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				_, err := toolCall{name: "never"}.send(t.Context(), u)
				childFault(t, err, fault.ConnectionLost)
			})
		}
		time.Sleep(100 * time.Millisecond)
		_, err := toolCall{name: name}.send(t.Context(), u)
		childFault(t, err, fault.ConnectionLost)
		wg.Wait()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s: the calls failed after %v", name, took)
		}
		if after := mustCall(t, u, "pid", ""); after == before {
			t.Errorf("%s: the same process answers", name)
		}
		if s := u.State(); s.Starts != 2 || s.State != "up" || changes.Load() != 2 {
			t.Errorf("%s: state %+v, %d changes", name, s, changes.Load())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		u.Close(ctx)
		cancel()
	}
}

func TestAnAnswerRightBeforeTheEndStillCounts(t *testing.T) {
	u, _ := startChild(t, "legacy")
	for range 20 {
		l, err := u.Link(t.Context(), SessionKey{})
		if err != nil {
			t.Fatal(err)
		}
		if got := mustCall(t, u, "answer-and-exit", ""); got != "last words" {
			t.Errorf("got %q", got)
		}
		<-l.process.done // what is sent while a process ends may be lost with it
	}
}

func TestAChildThatReadsNothingFailsCallsWithinTheirTimeAndBlocksNobodyForEver(t *testing.T) {
	u, _ := startChild(t, "modern", func(o *Options) { o.Failures = 3 })
	before := mustCall(t, u, "pid", "")
	mustCall(t, u, "read-nothing", "")
	large := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 300<<10))
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			_, err := toolCall{name: "echo", args: `{"text":"small"}`, timeout: 400 * time.Millisecond}.send(t.Context(), u)
			if err == nil {
				t.Error("a child that reads nothing answered")
			}
		})
	}
	wg.Wait()
	// The breaker opened, the child did not answer the question after it, and
	// was replaced.
	eventually(t, 15*time.Second, "another process", func() bool {
		got, err := toolCall{name: "pid", timeout: time.Second}.send(t.Context(), u)
		return err == nil && got != before
	})
	if got := mustCall(t, u, "echo", large); len(got) != 300<<10 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestACommandThatCannotServeFailsCallsAtOnceAndIsTriedAgainWithBackoff(t *testing.T) {
	for modes, argv := range map[string][]string{
		"no program": {"/does/not/exist"},
		"broken":     {os.Args[0], "child-server", "broken"},
	} {
		u, _ := startChild(t, modes, func(o *Options) {
			o.Command.Argv = argv
			o.Command.Backoff, o.Command.MaxBackoff = 5*time.Second, 30*time.Second
		})
		u.Wait(t.Context())
		begun := time.Now()
		_, err := toolCall{name: "echo"}.send(t.Context(), u)
		childFault(t, err, fault.UpstreamUnavailable)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s: failed after %v", modes, took)
		}
		if s := u.State(); s.State != "down" || s.LastError == "" {
			t.Errorf("%s: state %+v", modes, s)
		}
	}
}

func TestAChildThatNeverAnswersInitializeIsEnded(t *testing.T) {
	u, _ := startChild(t, "mute", func(o *Options) {
		o.ProbeTimeout = 50 * time.Millisecond
		o.Command.Backoff = time.Minute
		o.Command.MaxBackoff = time.Minute
	})
	u.Wait(t.Context())
	childFault(t, u.lastErr.Load().err, fault.UpstreamUnavailable)
	u.child.mu.Lock()
	p := u.child.last
	u.child.mu.Unlock()
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		t.Error("the process was not ended")
	}
}

func TestAChildThatListsOurVersionAndRefusesItIsNotTakenForLegacy(t *testing.T) {
	u, _ := startChild(t, "contradicts,legacy", func(o *Options) { o.Command.Backoff = time.Minute; o.Command.MaxBackoff = time.Minute })
	u.Wait(t.Context())
	childFault(t, u.lastErr.Load().err, fault.InvalidAnswer)
}

func TestBackoffGrowsToItsBoundAndForgetsAfterASteadyRun(t *testing.T) {
	c := newChild(New(Options{Command: &Command{Backoff: time.Second, MaxBackoff: 5 * time.Second}, Log: slog.New(slog.DiscardHandler)}), Command{Backoff: time.Second, MaxBackoff: 5 * time.Second})
	var waits []time.Duration
	for c.failures = range 40 {
		c.pause()
		waits = append(waits, time.Until(c.next).Round(time.Second))
	}
	if diff := cmp.Diff([]time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}, waits[:6]); diff != "" {
		t.Error(diff)
	}
	if last := waits[39]; last != 5*time.Second {
		t.Errorf("the 39th wait is %v", last)
	}
	p := &process{child: c, cmd: &exec.Cmd{Process: &os.Process{Pid: 1}}, started: time.Now().Add(-2 * steady)}
	c.live = p
	c.ended(p, errProcessEnded)
	if c.failures != 1 {
		t.Errorf("%d failures after a steady run", c.failures)
	}
}

func TestClosingEndsAStubbornChildAndItsOwnChildren(t *testing.T) {
	o, log := childOptions("modern,stubborn,forks")
	u := New(o)
	pid, err := strconv.Atoi(mustCall(t, u, "pid", ""))
	if err != nil {
		t.Fatal(err)
	}
	grandchild := grandchildOf(t, log)
	if !alive(pid) || !alive(grandchild) {
		t.Fatal("they do not run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begun := time.Now()
	u.Close(ctx)
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("closing took %v", took)
	}
	eventually(t, time.Second, "the end of both", func() bool { return !alive(pid) && !alive(grandchild) })
	if _, err := (toolCall{name: "echo"}).send(t.Context(), u); err == nil {
		t.Error("a closed upstream was called")
	}
}

var grandchildLine = regexp.MustCompile(`grandchild (\d+)`)

func grandchildOf(t *testing.T, log *logBuffer) int {
	t.Helper()
	var pid int
	eventually(t, 5*time.Second, "the grandchild", func() bool {
		found := grandchildLine.FindStringSubmatch(log.String())
		if found == nil {
			return false
		}
		pid, _ = strconv.Atoi(found[1])
		return pid > 0
	})
	return pid
}

func TestGrandchildrenOfAChildThatEndedAreEndedToo(t *testing.T) {
	u, log := startChild(t, "modern,forks")
	mustCall(t, u, "echo", "")
	grandchild := grandchildOf(t, log)
	_, err := toolCall{name: "exit"}.send(t.Context(), u)
	childFault(t, err, fault.ConnectionLost)
	eventually(t, 2*time.Second, "the end of the grandchild", func() bool { return !alive(grandchild) })
}

// dyingGateway starts a tree of processes that ignore every polite request, and
// waits to be killed.
func dyingGateway(argv []string) {
	o, _ := childOptions("")
	o.Log = slog.New(slog.NewTextHandler(os.Stdout, nil))
	o.Command.Argv = argv
	New(o).Start()
	select {}
}

func TestNoChildSurvivesAGatewayThatWasKilled(t *testing.T) {
	const tree = `trap "" TERM HUP INT PIPE; sleep 1000 & echo "grandchild $!" >&2; echo "child $$" >&2; while :; do sleep 1000; done`
	for round := range 5 {
		log := &logBuffer{}
		cmd := exec.Command(os.Args[0], "child-gateway", "/bin/sh", "-c", tree)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		grandchild := grandchildOf(t, log)
		child, err := strconv.Atoi(regexp.MustCompile(`child (\d+)"`).FindStringSubmatch(waitFor(t, log, `"child \d+"`))[1])
		if err != nil {
			t.Fatal(err)
		}
		if !alive(child) || !alive(grandchild) {
			t.Fatal("the tree does not run")
		}
		time.Sleep(time.Duration(round) * 5 * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		eventually(t, 2*time.Second, "the end of the tree", func() bool { return !alive(child) && !alive(grandchild) })
	}
}

func waitFor(t *testing.T, log *logBuffer, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	eventually(t, 5*time.Second, pattern, func() bool { return want.MatchString(log.String()) })
	return want.FindString(log.String())
}

func TestThreeHundredRestartsLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 600 processes: not with -short")
	}
	u, _ := startChild(t, "legacy", func(o *Options) {
		o.Command.Backoff, o.Command.MaxBackoff = time.Millisecond, time.Millisecond
	})
	mustCall(t, u, "echo", "")
	goroutines, files, children := runtime.NumGoroutine(), openFiles(t), childrenOf(t, os.Getpid())
	for end := time.Now().Add(5 * time.Minute); u.State().Starts < 301 && time.Now().Before(end); {
		if _, err := (toolCall{name: "exit"}).send(t.Context(), u); err == nil {
			t.Fatal("a process that ended has answered")
		}
	}
	eventually(t, 5*time.Second, "an answer", func() bool {
		_, err := toolCall{name: "echo"}.send(t.Context(), u)
		return err == nil
	})
	eventually(t, 5*time.Second, "as many goroutines, files and processes as before", func() bool {
		return runtime.NumGoroutine() <= goroutines && openFiles(t) <= files && childrenOf(t, os.Getpid()) <= children
	})
	if got := u.State().Starts; got < 301 {
		t.Errorf("%d starts", got)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	return len(fds)
}

// childrenOf counts the processes of a parent, zombies included.
func childrenOf(t *testing.T, parent int) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			n++
		}
	}
	return n
}
