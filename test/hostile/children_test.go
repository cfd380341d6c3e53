//go:build linux

package hostile_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// kid is a child of a gateway, as its files and the system tell.
type kid struct {
	t      testing.TB
	folder string
	modes  string
}

// newKid is a child of some modes (serveChild); no process of it may be left at
// the test's end.
func newKid(t testing.TB, modes string) *kid {
	t.Helper()
	k := &kid{t: t, folder: t.TempDir(), modes: modes}
	t.Cleanup(func() { k.gone(10 * time.Second) })
	return k
}

// eachEra runs a test with a child of each era, beside other tests.
func eachEra(t *testing.T, modes string, f func(t *testing.T, k *kid)) {
	t.Helper()
	t.Parallel()
	for _, era := range []string{"modern", "legacy"} {
		t.Run("child="+era, func(t *testing.T) {
			t.Parallel()
			f(t, newKid(t, era+","+modes))
		})
	}
}

// member is the child's line of a document, after those of document.
func (k *kid) member(key, more string) string {
	k.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Sprintf("  %s: {command: [%q, %s, %q, %q]%s}\n", key, exe, childRole, k.folder, k.modes, more)
}

func (k *kid) starts() int { return tallied(k.folder, startsFile) }

// processes are the child's, also those it started itself.
func (k *kid) processes() []int {
	k.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		k.t.Fatal(err)
	}
	var out []int
	for _, file := range all {
		raw, _ := os.ReadFile(file) // what ended meanwhile has none
		if args := strings.Split(string(raw), "\x00"); len(args) > 2 && args[2] == k.folder {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// gone waits until the child has no process.
func (k *kid) gone(within time.Duration) {
	k.t.Helper()
	eventually(k.t, "no process of the child is left", within, func() bool { return len(k.processes()) == 0 })
}

// pid asks the child for its process through the gateway, or is 0.
func pid(c caller) int {
	n, _ := strconv.Atoi(text(c.request("tools/call", `"name":"kid__pid"`).message(), "result", "content", 0, "text"))
	return n
}

// kill is what the system does to a process that needs too much.
func kill(t testing.TB, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no process: %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// hangs sends calls that the child never answers, and waits until they are there.
func (k *kid) hangs(c *client, n int) (answers chan *reply) {
	k.t.Helper()
	before := tallied(k.folder, callsFile)
	answers = make(chan *reply, n)
	for range n {
		go func() {
			r, err := c.do(context.Background(), http.MethodPost, modernBody("1", "tools/call", `"name":"kid__never"`), modernHeaders("tools/call", "kid__never")...)
			if err != nil {
				r = &reply{Err: err}
			}
			answers <- r
		}()
	}
	eventually(k.t, "the calls are at the child", 10*time.Second, func() bool { return tallied(k.folder, callsFile) == before+n })
	return answers
}

func TestAKilledChildFailsItsCallsAtOnceAndComesBackByItself_ferro361(t *testing.T) {
	eachEra(t, "", func(t *testing.T, k *kid) {
		g := serve(t, document(members{"b": newModern(t).tool("fine")}, nil, quick)+k.member("kid", ", restart: {backoff: 50ms}, breaker: {failures: 2}"))
		callers := g.clients()
		for i := range 3 {
			first := pid(g)
			calls := 0
			if i > 0 { // the first time it is idle
				calls = 5
			}
			answers := k.hangs(g.client, calls)
			starts := k.starts()
			killed := time.Now()
			kill(t, first)
			for range calls {
				r := <-answers
				wantError(t, r, http.StatusOK, -31003)
			}
			if took := time.Since(killed); took > 2*time.Second {
				t.Errorf("the calls in flight failed after %s", took)
			}
			eventually(t, "it is started again, and no client asked for it", 10*time.Second, func() bool { return k.starts() == starts+1 })
			for era, c := range callers {
				eventually(t, era+": it answers again", 5*time.Second, func() bool { return pid(c) != 0 })
				if again := pid(c); again == first {
					t.Errorf("%s: the process that was killed answers", era)
				}
				healthy(t, c, "b__fine")
			}
		}
	})
}

func TestAChildThatCannotStartIsTriedWithBackoffUntilItCan_ferro361(t *testing.T) {
	eachEra(t, "broken", func(t *testing.T, k *kid) {
		g := serve(t, document(members{"b": newModern(t).tool("fine")}, nil, quick)+k.member("kid", ", restart: {backoff: 200ms, max: 400ms}, breaker: {failures: 2, open: 1s}"))
		begun := time.Now()
		for era, c := range g.clients() {
			for range 20 {
				start := time.Now()
				r := c.request("tools/call", `"name":"kid__pid"`)
				wantError(t, r, http.StatusOK, -31001)
				if took := time.Since(start); took > 1500*time.Millisecond {
					t.Errorf("%s: the error took %s", era, took)
				}
				healthy(t, c, "b__fine")
			}
		}
		time.Sleep(time.Second)
		// At once, and then at best after 200 ms, 400 ms, 400 ms and so on, less what chance takes off.
		if n, most := k.starts(), 3+int(time.Since(begun)/(200*time.Millisecond)); n > most || n < 2 {
			t.Errorf("it was started %d times in %s", n, time.Since(begun))
		}
		if err := os.WriteFile(filepath.Join(k.folder, fixedFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for era, c := range g.clients() {
			eventually(t, era+": it is listed", 10*time.Second, func() bool { return slices.Contains(names(t, c, "tools/list"), "kid__pid") })
			eventually(t, era+": it answers", 5*time.Second, func() bool { return pid(c) != 0 })
		}
	})
}

func TestCapabilitiesAndListsAreReadAgainAfterARestart_1mcp547(t *testing.T) {
	eachEra(t, "grows", func(t *testing.T, k *kid) {
		g := serve(t, document(members{"b": newModern(t).tool("fine")}, nil, quick)+k.member("kid", ", restart: {backoff: 50ms}"))
		callers := g.clients()
		for n := range 3 {
			n++
			want := []string{"b__fine", "kid__environment", "kid__never", "kid__pid", fmt.Sprintf("kid__start-%d", n)}
			var prompts []string
			if n > 1 {
				prompts = []string{"kid__p"}
			}
			for era, c := range callers {
				eventually(t, fmt.Sprintf("%s: the lists are those of start %d", era, n), 10*time.Second, func() bool {
					result := wantResult(t, c.request("tools/list", ""))
					got := texts(at(result, "tools"), "name")
					slices.Sort(got)
					if len(got) == 1 && at(result, "_meta", "penstock/partial") == "" {
						t.Errorf("%s: it has no tools, and nothing says that it is missing: %s", era, result)
					}
					return slices.Equal(got, want) && slices.Equal(names(t, c, "prompts/list"), prompts)
				})
			}
			if n < 3 {
				kill(t, pid(g))
				eventually(t, "it is started again", 10*time.Second, func() bool { return k.starts() == n+1 })
			}
		}
	})
}

func TestTenCallsAtOnceStartOneChild_docker483(t *testing.T) {
	eachEra(t, "", func(t *testing.T, k *kid) {
		g := serve(t, quick+"\nupstreams:\n"+k.member("kid", ""))
		pids := make([]int, 10)
		var wg sync.WaitGroup
		for i := range pids {
			wg.Go(func() { pids[i] = pid(g) })
		}
		wg.Wait()
		slices.Sort(pids)
		if got := slices.Compact(pids); len(got) != 1 || got[0] == 0 || !slices.Equal(k.processes(), got) || k.starts() != 1 {
			t.Errorf("the calls were answered by %v; there are %v, %d starts", got, k.processes(), k.starts())
		}
	})
}

func TestAMuteChildCostsOneProcessAtMostAndTheOthersNothing_docker483(t *testing.T) {
	eachEra(t, "mute,stubborn,forks", func(t *testing.T, k *kid) {
		g := serve(t, document(members{"b": newModern(t).tool("fine")}, nil, quick)+k.member("kid", ", restart: {backoff: 50ms}"))
		healthy(t, g, "b__fine")
		for i := range 3 {
			start := time.Now()
			result := wantResult(t, g.modern("tools/list", ""))
			if text(result, "_meta", "penstock/partial", 0, "upstream") != "kid" {
				t.Errorf("what is missing is not named: %s", result)
			}
			if took := time.Since(start); took > 1900*time.Millisecond || i > 0 && took > 900*time.Millisecond {
				t.Errorf("list %d took %s", i, took)
			}
			healthy(t, g, "b__fine")
			if n := len(k.processes()); n > 2 {
				t.Errorf("there are %d processes of one child and its own", n)
			}
		}
	})
}

func TestNoChildOutlivesTheGateway_docker483(t *testing.T) {
	for name, how := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			eachEra(t, "stubborn,forks", func(t *testing.T, k *kid) {
				mute := newKid(t, "mute,stubborn,forks")
				p := run(t, quick+"\nshutdown: 1s\nupstreams:\n"+k.member("kid", "")+mute.member("mute", ""))
				eventually(t, "the child answers", 10*time.Second, func() bool { return pid(p) != 0 })
				answers := k.hangs(p.client, 3)
				if a, b := k.processes(), mute.processes(); len(a) != 2 || len(b) == 0 {
					t.Errorf("before the end there are %v and %v", a, b)
				}
				if err := p.cmd.Process.Signal(how); err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-p.done:
					if how == syscall.SIGTERM && err != nil {
						t.Errorf("exit: %v", err)
					}
				case <-time.After(15 * time.Second):
					t.Fatal("it does not end")
				}
				k.gone(2 * time.Second)
				mute.gone(2 * time.Second)
				for range cap(answers) {
					<-answers
				}
			})
		})
	}
}

func TestAChildSeesWhatIsAllowedOfTheEnvironment_denkeeper219(t *testing.T) {
	t.Setenv("PENSTOCK_HOSTILE_SECRET", "hunter2")
	for _, era := range []string{"modern", "legacy"} {
		k := newKid(t, era)
		g := serve(t, quick+"\nupstreams:\n"+k.member("kid", ", env: {LOG: info, LANG: tlh}"))
		said := text(wantResult(t, g.modern("tools/call", `"name":"kid__environment"`)), "content", 0, "text")
		vars := map[string]string{}
		for _, line := range strings.Split(said, "\n") {
			name, value, _ := strings.Cut(line, "=")
			vars[name] = value
			if !slices.Contains([]string{"PATH", "HOME", "LANG", "TMPDIR", "LOG"}, name) {
				t.Errorf("%s: the child sees %q", era, line)
			}
		}
		if vars["LOG"] != "info" || vars["LANG"] != "tlh" || vars["PATH"] != os.Getenv("PATH") {
			t.Errorf("%s: the child sees\n%s", era, said)
		}
	}
}
