package taskcost_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// A mint is one commit, and a poll none.
func TestAMintIsOneCommit(t *testing.T) {
	const n = 50
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			var h *house
			var commits func() int64 // since the last time
			if engine == "sqlite" {
				h = newHouse(t, "sqlite:"+filepath.Join(t.TempDir(), "penstock.db"))
				last := h.store.Commits()
				commits = func() int64 {
					before := last
					last = h.store.Commits()
					return last - before
				}
			} else {
				address := pgtest.Database(t)
				h = newHouse(t, address)
				commits = walCommits(t, address)
			}
			warm := h.mint(width, 1)
			// The database has work of its own now and then.
			var minted, polled int64
			for range 3 {
				commits()
				h.mint(n, 1)
				minted = commits()
				for _, of := range warm {
					h.poll(of.caller, of.id).serve(h)
				}
				if polled = commits(); minted == n && polled == 0 {
					break
				}
			}
			t.Logf("%d mints, %d commits; %d polls, %d commits", n, minted, len(warm), polled)
			if minted != n || polled != 0 {
				t.Errorf("%d commits of %d mints, and %d of polls", minted, n, polled)
			}
		})
	}
}

// walCommits counts the commits in the log of a PostgreSQL.
func walCommits(t *testing.T, address string) func() int64 {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	if _, err := c.Exec(t.Context(), `CREATE EXTENSION pg_walinspect`); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	const here = `SELECT pg_current_wal_flush_lsn()::text`
	var last string
	if err := c.QueryRow(t.Context(), here).Scan(&last); err != nil {
		t.Fatal(err)
	}
	return func() (n int64) {
		t.Helper()
		var now string
		err := c.QueryRow(t.Context(), here).Scan(&now)
		if err == nil && now != last {
			err = c.QueryRow(t.Context(), `SELECT count(*) FROM pg_get_wal_records_info($1::text::pg_lsn, $2::text::pg_lsn)
				WHERE resource_manager = 'Transaction' AND record_type LIKE 'COMMIT%'`, last, now).Scan(&n)
		}
		if err != nil {
			t.Fatal(err)
		}
		last = now
		return n
	}
}

// Mints at once share commits, as those of any calls do.
func TestMintsAtOnceShareCommits(t *testing.T) {
	const n, atOnce = 1280, 64
	h := newHouse(t, "sqlite:"+filepath.Join(t.TempDir(), "penstock.db"))
	h.mint(width, 1)
	before := h.store.Commits()
	h.mint(n, atOnce)
	commits := h.store.Commits() - before
	t.Logf("%d mints, %d at once: %d commits, %.2f of each", n, atOnce, commits, float64(commits)/n)
	if commits > n/2 || commits < n/atOnce {
		t.Errorf("%d commits of %d mints", commits, n)
	}
}
