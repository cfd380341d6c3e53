//go:build linux

package chaos_test

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

func TestPostgreSQLGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(t *testing.T, s *pgtest.Server, d time.Duration){"stopped": stopped, "frozen": frozen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Own(t)
			address, err := server.Create(t.Context(), "chaos")
			if err != nil {
				t.Fatal(err)
			}
			counter, plain := newUpstream(t, "counter", true), newUpstream(t, "plain", false)
			g := newGateway(t, "state: \""+address+"\"\n"+roomy+"\nupstreams:\n"+member("counter", counter)+member("plain", plain)+childMember(t, "kid", "", false)).run()
			l := newLoad(t)
			var kept []*client
			for range 4 {
				c := open(t, g.address)
				kept = append(kept, c)
				l.add(c, 20*time.Millisecond, "counter__count", "plain__count", "kid__count", list)
			}
			for range 2 {
				l.add(newClient(t, g.address), 20*time.Millisecond, "counter__count", "plain__count", "kid__count", list)
			}
			for range 20 {
				kept = append(kept, open(t, g.address))
			}
			l.goesOn(t, 100)
			begun := time.Now()
			comer := make(chan *answer, 1)
			go func() {
				time.Sleep(time.Second)
				a, err := newClient(t, g.address).initialize()
				if err != nil {
					t.Errorf("initialize during the outage: %v", err)
				}
				comer <- a
			}()
			outage(t, server, lasting(4*time.Second, 20*time.Second))
			back := time.Now()
			if a := <-comer; a != nil && (name == "stopped" || back.Sub(begun) > 10*time.Second) && (a.code() != -31015 || a.status != http.StatusServiceUnavailable) {
				t.Errorf("initialize during the outage: %v", a)
			}
			recovered := eventually(t, "a session can be opened", 10*time.Second, func() bool {
				a, err := newClient(t, g.address).initialize()
				return err == nil && a.Error == nil
			})
			time.Sleep(500 * time.Millisecond)
			served := time.Now()
			l.goesOn(t, 100)
			all := l.stop()
			refused := 0
			var worst time.Duration
			for _, r := range all {
				if r.err != nil {
					t.Fatalf("%s: %v", r.target, r.err)
				}
				if !r.legacy {
					worst = max(worst, r.a.took)
				}
				if !r.failed() {
					continue
				}
				refused++
				if !r.legacy || r.a.code() != -31015 || r.a.status != http.StatusServiceUnavailable {
					t.Fatalf("%s of a client, legacy: %t: %v", r.target, r.legacy, r.a)
				}
				if r.sent.Before(begun.Add(-time.Second)) || r.sent.After(served) {
					t.Fatalf("%s, %s after the database was back: %v", r.target, r.sent.Sub(back), r.a)
				}
			}
			// A database that is silent for less than the store waits costs time alone.
			if refused == 0 && (name == "stopped" || back.Sub(begun) > 10*time.Second) {
				t.Error("no request of a session was refused")
			}
			if worst > time.Second {
				t.Errorf("a modern request took %s", worst)
			}
			steadySessions(t, all, "counter")
			for _, c := range kept {
				if a, err := c.ask("ping", "", ""); err != nil || a.Error != nil {
					t.Errorf("a session from before: %v %v", a, err)
				}
			}
			t.Logf("%d of %d requests refused; sessions could be opened %s after the database was back", refused, len(all), recovered)
		})
	}
}

func stopped(t *testing.T, s *pgtest.Server, d time.Duration) {
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
}

// frozen keeps the connections, and nothing answers on them.
func frozen(t *testing.T, s *pgtest.Server, d time.Duration) {
	u, err := url.Parse(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(u.Query().Get("host"), "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(raw, []byte("\n"))
	parent, err := strconv.Atoi(string(first))
	if err != nil {
		t.Fatal(err)
	}
	all := append(childrenOf(parent), parent)
	defer func() {
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}()
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	time.Sleep(d)
}
