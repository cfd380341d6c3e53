package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/internal/store/migrations"
	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// outage is how long a database goes away for; go test -short shortens it.
func outage() time.Duration {
	if testing.Short() {
		return 2 * time.Second
	}
	return 20 * time.Second
}

// Requests during an outage get the one retryable error, soon; after it all is
// well without anybody's help, and nothing that was committed is lost.
func TestAnOutageOfPostgresIsUnavailableAndThenOver(t *testing.T) {
	server := pgtest.Own(t)
	address, err := server.Create(t.Context(), "penstock")
	if err != nil {
		t.Fatal(err)
	}
	clock := newClock()
	s := open(t, engine.Options{URL: address, Now: clock.now})
	sessions := s.Sessions()
	created(t, sessions, "a")
	ring, err := s.Keys().Ring(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	away := time.Now()
	clock.advance(3 * time.Second) // beyond what the cache may answer for
	for first := true; first || time.Since(away) < outage(); first = false {
		for what, do := range map[string]func(context.Context) error{
			"create": func(ctx context.Context) error {
				_, err := sessions.Create(ctx, session("b", 2))
				return err
			},
			"get":    func(ctx context.Context) error { _, err := sessions.Get(ctx, "a"); return err },
			"delete": func(ctx context.Context) error { return sessions.Delete(ctx, "a") },
			"expire": func(ctx context.Context) error { _, err := sessions.Expire(ctx, clock.now()); return err },
			"ring":   func(ctx context.Context) error { _, err := s.Keys().Ring(ctx); return err },
			"claim":  func(ctx context.Context) error { _, err := s.Claims().Take(ctx, "a", "one"); return err },
			"mint":   func(ctx context.Context) error { _, err := s.Tasks().Mint(ctx, task(1, 1)); return err },
			"owner": func(ctx context.Context) error {
				_, _, err := s.Tasks().Get(ctx, task(2, 1).Hash, task(2, 1).Principal)
				return err
			},
			"touch":  func(ctx context.Context) error { return s.Tasks().Touch(ctx, store.TaskTouch{}) },
			"health": s.Health,
		} {
			began := time.Now()
			if err := do(t.Context()); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s during the outage: %v", what, err)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("%s during the outage took %s", what, took)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 32 { // more than there are connections, all at once
		wg.Go(func() {
			if _, err := sessions.Get(t.Context(), "a"); err != nil {
				t.Errorf("after the outage: %v", err)
			}
		})
	}
	wg.Wait()
	if again, err := s.Keys().Ring(t.Context()); err != nil || string(again[0]) != string(ring[0]) {
		t.Errorf("another sealing key, error %v", err)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Errorf("health after the outage: %v", err)
	}
	created(t, sessions, "b")
}

// A server that ends and comes back between two requests is not noticed.
func TestConnectionsThatDiedWhileIdleAreReplaced(t *testing.T) {
	server := pgtest.Own(t)
	address, err := server.Create(t.Context(), "penstock")
	if err != nil {
		t.Fatal(err)
	}
	sessions := open(t, engine.Options{URL: address}).Sessions()
	var wg sync.WaitGroup
	for i := range 16 { // so that the pool is full
		wg.Go(func() {
			if _, err := sessions.Create(t.Context(), session(string(rune('a'+i)), byte(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(server.Stop(), server.Start()); err != nil {
		t.Fatal(err)
	}
	for i := range 16 {
		if err := sessions.Delete(t.Context(), string(rune('a'+i))); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestPostgresThatCannotBeReachedIsNamedWithoutThePassword(t *testing.T) {
	for _, address := range []string{
		"postgres://penstock:hunter2@127.0.0.1:1/state?connect_timeout=1",
		"postgres://penstock:hunter2@127.0.0.1:1/state?sslmode=nonsense",
		"postgres://penstock:hunter2@127.0.0.1:port/state",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := engine.Open(ctx, engine.Options{URL: address})
		cancel()
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
		if strings.Contains(address, "connect_timeout") && (!errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1/state")) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func schema(t *testing.T, address, statement string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestAPostgresSchemaOfANewerVersionIsRefused(t *testing.T) {
	address := pgtest.Database(t)
	if err := open(t, engine.Options{URL: address}).Close(); err != nil {
		t.Fatal(err)
	}
	schema(t, address, `INSERT INTO `+migrations.Table+` (version_id, is_applied) VALUES (9999, true)`)
	if _, err := engine.Open(t.Context(), engine.Options{URL: address}); !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "9999") {
		t.Errorf("open: %v", err)
	}
}

// A database that another version migrates while this one runs stays in use; one
// that comes back from a backup older than this schema is not written to.
func TestADatabaseThatComesBackInAnotherVersion(t *testing.T) {
	server := pgtest.Own(t)
	address, err := server.Create(t.Context(), "penstock")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, engine.Options{URL: address})
	created(t, s.Sessions(), "a")
	again := func() {
		t.Helper()
		if err := errors.Join(server.Stop(), server.Start()); err != nil {
			t.Fatal(err)
		}
	}
	schema(t, address, `INSERT INTO `+migrations.Table+` (version_id, is_applied) VALUES (9999, true)`)
	again()
	created(t, s.Sessions(), "newer")
	schema(t, address, `DROP TABLE `+migrations.Table)
	again()
	if _, err := s.Sessions().Create(t.Context(), session("older", 3)); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "version 0") {
		t.Errorf("create in an older schema: %v", err)
	}
}

// What a client sends as a session id is looked up as it is, and is nothing to a
// database that stores text only.
func TestAnIdOfAnyBytesIsNotFound(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		sessions := open(t, engine.Options{URL: fresh(t)}).Sessions()
		for _, id := range []string{"", "\x00", "a\x00", "\xff\xfe", "' OR 1=1 --", strings.Repeat("x", 1<<20), "$1", "ü\u0301"} {
			lacks(t, sessions, id)
		}
	})
}
