package migrations_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers
	_ "modernc.org/sqlite"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/internal/store/migrations"
	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// previous are statements that the version before routes runs, which may be
// beside this one while the instances of a fleet are replaced.
var previous = []string{
	`INSERT INTO sessions (id, server, principal, revision, capabilities, client_info, log_level, generation, created, subscriptions, last_used, instance)
		VALUES ($1, 'default', $2, '2025-06-18', $2, $2, '', 1, 1, '["a"]', $3, 'one')`,
	`INSERT INTO counts (scope, n) VALUES ($2, 1) ON CONFLICT (scope) DO UPDATE SET n = counts.n + 1 WHERE counts.n < $3 AND $1 <> ''`,
	`INSERT INTO souths (key, server, upstream, north, id, revision, instance, generation, created, last_used)
		VALUES ($2, 'default', 'jobs', $1, $2, '2025-06-18', 'one', 1, 1, $3)`,
	`INSERT INTO claims (session, owner, generation) SELECT $1, 'one', 1 WHERE $3 > 0 AND length($2) > 0`,
	`INSERT INTO tasks (hash, principal, sealed, server, upstream, tool, exposed, legacy, replica, instance, session, located, mark, created, expires, used, generation)
		VALUES ($2, $2, $2, 'default', 'jobs', $2, $2, 0, NULL, $1, '', 0, 0, 1, 0, $3, 1)`,
	`INSERT INTO task_counts (scope, slot, n) SELECT $2, 0, 1 WHERE $3 > 0 AND $1 <> ''`,
	`UPDATE tasks SET used = CASE WHEN used < $3 THEN $3 ELSE used END, mark = 1, generation = generation + 1 WHERE hash = $2 AND instance = $1`,
	`UPDATE sessions SET last_used = CASE WHEN last_used < $3 THEN $3 ELSE last_used END WHERE id = $1 AND principal = $2`,
	`DELETE FROM counts WHERE n <= 0 AND scope <> $2 AND $1 <> '' AND $3 > 0`,
}

// A database of the version before keeps its data through the migration, which
// that version's open connections live through.
func TestTheMigrationToRoutesKeepsWhatThereIs(t *testing.T) {
	for dialect, place := range map[migrations.Dialect]func(t *testing.T) (driver, source, address string){
		migrations.SQLite: func(t *testing.T) (driver, source, address string) {
			path := filepath.Join(t.TempDir(), "penstock.db")
			return "sqlite", path, "sqlite:" + path
		},
		migrations.Postgres: func(t *testing.T) (driver, source, address string) {
			address = pgtest.Database(t)
			return "pgx", address, address
		},
	} {
		t.Run(string(dialect), func(t *testing.T) {
			driver, source, address := place(t)
			db, err := sql.Open(driver, source)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			if err := migrations.UpTo(t.Context(), dialect, db, 3); err != nil {
				t.Fatal(err)
			}
			var ready []*sql.Stmt
			for _, statement := range previous {
				if dialect == migrations.SQLite {
					statement = strings.ReplaceAll(statement, "$", "?")
				} else {
					statement = strings.NewReplacer("SELECT $1, 'one'", "SELECT $1::text, 'one'", "SELECT $2, 0", "SELECT $2::bytea, 0", "length($2)", "length($2::bytea)",
						"$1 <> ''", "$1::text <> ''", "$3 > 0", "$3::bigint > 0").Replace(statement)
				}
				stmt, err := db.PrepareContext(t.Context(), statement)
				if err != nil {
					t.Fatal(statement, err)
				}
				defer stmt.Close()
				ready = append(ready, stmt)
			}
			runs := func(id string) {
				t.Helper()
				for i, stmt := range ready {
					if _, err := stmt.ExecContext(t.Context(), id, []byte(id+strings.Repeat("\x00", 32-len(id))), time.Now().UnixNano()); err != nil {
						t.Errorf("%s: %v", previous[i], err)
					}
				}
			}
			runs("before")
			s, err := engine.Open(t.Context(), engine.Options{URL: address})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			route := &store.Route{ID: "pst_1", Principal: "p", Key: "k", Phase: "prepared", Expires: time.Now().Add(time.Hour)}
			if _, created, err := s.Routes().Begin(t.Context(), route, &store.RouteEvent{Route: "pst_1", To: "prepared"}, time.Now(),
				store.RouteBounds{Max: 1, MaxPerCaller: 1}); err != nil || !created {
				t.Errorf("begun %v, error %v", created, err)
			}
			lease := &store.Lease{ID: "l", Principal: "p", Expires: time.Now().Add(time.Hour)}
			if err := s.Leases().Put(t.Context(), lease, time.Now(), store.LeaseBounds{Max: 1, MaxPerCaller: 1}); err != nil {
				t.Error(err)
			}
			runs("after")
			for _, id := range []string{"before", "after"} {
				if is, err := s.Sessions().Get(t.Context(), id); err != nil || is.Server != "default" || len(is.Subscriptions) != 1 {
					t.Errorf("session %s: %+v, %v", id, is, err)
				}
				if all, err := s.South().OfNorth(t.Context(), id, [32]byte{}, 10); err != nil || len(all) != 1 {
					t.Errorf("southbound sessions of %s: %v, %v", id, all, err)
				}
				if is, err := s.Claims().Get(t.Context(), id); err != nil || is.Owner != "one" {
					t.Errorf("claim on %s: %+v, %v", id, is, err)
				}
			}
			for _, id := range []string{"before", "after"} {
				key := [32]byte([]byte(id + strings.Repeat("\x00", 32-len(id))))
				if is, _, err := s.Tasks().Get(t.Context(), key, key); err != nil || is.Instance != id || is.Mark != store.TaskWithheld {
					t.Errorf("task %s: %+v, %v", id, is, err)
				}
			}
			if is, err := s.Routes().Get(t.Context(), "pst_1"); err != nil || is.Key != "k" {
				t.Errorf("route: %+v, %v", is, err)
			}
			if is, err := s.Leases().Get(t.Context(), "l"); err != nil || is.Principal != "p" {
				t.Errorf("lease: %+v, %v", is, err)
			}
		})
	}
}
