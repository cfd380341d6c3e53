//go:build linux

package chaos_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/north"
)

// held is what this process holds beside its upstreams.
type held struct{ goroutines, descriptors, children int }

// holding counts once what ends has ended; idle connections of the test's own
// clients must be closed.
func holding() held {
	return held{runtime.NumGoroutine(), used(os.Getpid()).descriptors, used(os.Getpid()).children}
}

// settles waits until no more is held than before, but for so many connections
// that are idle and kept for reuse: less than one for each repetition.
func settles(t *testing.T, what string, before held, idle int) {
	t.Helper()
	var now held
	deadline := time.Now().Add(15 * time.Second)
	for {
		now = holding()
		if now.goroutines <= before.goroutines+5 && now.descriptors <= before.descriptors+idle && now.children <= before.children {
			t.Logf("%s: before %+v, after %+v", what, before, now)
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%s: before %+v, after %+v\n%v\n%s", what, before, now, descriptors(), stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// descriptors are what this process has open, by name.
func descriptors() map[string]int {
	names := map[string]int{}
	all, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range all {
		name, _ := os.Readlink(fd)
		name, _, _ = strings.Cut(name, ":[")
		names[name]++
	}
	return names
}

func TestSessionsChildrenAndReloadsLeaveNothing(t *testing.T) {
	mark := rand.Text()
	bin := ownCommand(t, t.TempDir())
	counter, plain := newUpstream(t, "counter", true), newUpstream(t, "plain", false)
	text := func(more string) *config.Document {
		d, err := config.Parse("test.yaml", []byte("limits: {sessions_per_principal: 100000}\nstate: \"sqlite:"+filepath.Join(t.TempDir(), "penstock.db")+"\"\nupstreams:\n"+
			member("counter", counter)+childMember(t, "kid", mark, false)+more), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	doc := text("")
	start := holding()

	store, err := penstock.OpenStore(t.Context(), doc, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	gw, err := penstock.New(doc, penstock.WithStore(store), penstock.WithChildGuard(bin, "child-guard"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := north.Listen(ctx, "127.0.0.1:0", gw.Handler(), north.ListenOptions{HeaderBytes: 64 << 10, Connections: 1000, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = gw.Run(ctx) })
	running.Go(func() { _ = store.Run(ctx) })
	running.Go(func() { _ = l.Serve() })
	closed := false
	end := func() {
		if closed {
			return
		}
		closed = true
		late, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		_ = l.Shutdown(late)
		cancel()
		if err := gw.Close(late); err != nil {
			t.Error(err)
		}
		running.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	address := l.Addr().String()

	sessions(t, address, 320)
	a, err := one(address, "kid__count")
	must(t, a, err)
	time.Sleep(time.Second)
	before := holding()

	sessions(t, address, times(1000, 10000))
	settles(t, "sessions", before, 40)
	eventually(t, "the upstream's sessions are ended", 10*time.Second, func() bool { return len(counter.stats().Sessions) <= 1 })

	before = holding()
	restarts := times(30, 300)
	for n := range restarts {
		if a, err := one(address, "kid__t3"); err != nil || a.code() != -31003 && a.code() != -31001 {
			t.Fatalf("the call that ends the child, for the %d. time: %v %v", n, a, err)
		}
		eventually(t, "the child is started again", 10*time.Second, func() bool {
			a, err := one(address, "kid__count")
			return err == nil && a.Error == nil
		})
	}
	settles(t, fmt.Sprintf("%d restarts of a child", restarts), before, 15)

	for n := range times(20, 100) {
		next := doc
		if n%2 == 0 {
			next = text(member("plain", plain) + childMember(t, "guest", mark, n%4 == 0))
		}
		late, stop := context.WithTimeout(ctx, 10*time.Second)
		err := gw.Reload(late, next)
		stop()
		if err != nil {
			t.Fatal(err)
		}
	}
	settles(t, "reloads", before, 15)

	end()
	settles(t, "the end", start, 3)
	if left, _ := gone(processes(mark, bin), 2*time.Second); len(left) > 0 {
		t.Errorf("there are still %v", left)
	}
}

// one sends one modern call on a connection of its own.
func one(address, tool string) (*answer, error) {
	c := &client{http: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}, address: address}
	return c.call(tool, 0)
}

// sessions opens, uses and ends so many, 16 at a time.
func sessions(t *testing.T, address string, n int) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	defer transport.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range n / 16 {
				c := &client{http: &http.Client{Transport: transport, Timeout: 20 * time.Second}, address: address}
				if a, err := c.initialize(); err != nil || a.Error != nil {
					t.Errorf("initialize: %v %v", a, err)
					return
				}
				if a, err := c.call("counter__count", 0); err != nil || a.Error != nil || a.Result.Structured.N != 1 {
					t.Errorf("call: %v %v", a, err)
					return
				}
				if status, err := c.end(); err != nil || status != http.StatusNoContent {
					t.Errorf("DELETE: %d %v", status, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
