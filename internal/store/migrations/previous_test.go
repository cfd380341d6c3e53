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

// previous are statements that the version before tasks runs, which may be
// beside this one while the instances of a fleet are replaced.
var previous = []string{
	`INSERT INTO sessions (id, server, principal, revision, capabilities, client_info, log_level, generation, created, subscriptions, last_used, instance)
		VALUES ($1, 'default', $2, '2025-06-18', $2, $2, '', 1, 1, '["a"]', $3, 'one')`,
	`INSERT INTO counts (scope, n) VALUES ($2, 1) ON CONFLICT (scope) DO UPDATE SET n = counts.n + 1 WHERE counts.n < $3 AND $1 <> ''`,
	`INSERT INTO souths (key, server, upstream, north, id, revision, instance, generation, created, last_used)
		VALUES ($2, 'default', 'jobs', $1, $2, '2025-06-18', 'one', 1, 1, $3)`,
	`INSERT INTO claims (session, owner, generation) SELECT $1, 'one', 1 WHERE $3 > 0 AND length($2) > 0`,
	`UPDATE sessions SET last_used = CASE WHEN last_used < $3 THEN $3 ELSE last_used END WHERE id = $1 AND principal = $2`,
	`DELETE FROM counts WHERE n <= 0 AND scope <> $2 AND $1 <> '' AND $3 > 0`,
}

// A database of the version before keeps its data through the migration, which
// that version's open connections live through.
func TestTheMigrationToTasksKeepsWhatThereIs(t *testing.T) {
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
			if err := migrations.UpTo(t.Context(), dialect, db, 2); err != nil {
				t.Fatal(err)
			}
			var ready []*sql.Stmt
			for _, statement := range previous {
				if dialect == migrations.SQLite {
					statement = strings.ReplaceAll(statement, "$", "?")
				} else {
					statement = strings.NewReplacer("SELECT $1, 'one'", "SELECT $1::text, 'one'", "length($2)", "length($2::bytea)",
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
			if _, err := s.Tasks().Mint(t.Context(), &store.Task{Hash: [32]byte{1}, Upstream: "jobs"}); err != nil {
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
			if own, all, err := s.Tasks().Count(t.Context(), [32]byte{}); err != nil || own != 1 || all != 1 {
				t.Errorf("counted %d of %d tasks, error %v", own, all, err)
			}
		})
	}
}
