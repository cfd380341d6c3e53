package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/migrations"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

func opened(t testing.TB, path string) *DB {
	t.Helper()
	d, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

func place(t testing.TB) string { return filepath.Join(t.TempDir(), "penstock.db") }

// write adds a row.
func write(d *DB, name string, n int64) error {
	return d.Write(context.Background(), func(tx tables.Tx) error {
		_, err := tx.Exec(context.Background(), `INSERT INTO counts (scope, n) VALUES ($1, $2)`, []byte(name), n)
		return err
	})
}

func read(t testing.TB, d *DB, name string) (n int64, err error) {
	t.Helper()
	err = d.Read(t.Context(), func(tx tables.Tx) error {
		return tx.Row(t.Context(), `SELECT n FROM counts WHERE scope = $1`, []any{[]byte(name)}, &n)
	})
	return n, err
}

func TestACommitIsOnTheDisk(t *testing.T) {
	d := opened(t, place(t))
	for _, pragma := range [][2]string{{"journal_mode", "wal"}, {"synchronous", "2"}} {
		var is string
		err := d.Write(t.Context(), func(tx tables.Tx) error {
			return tx.Row(t.Context(), "PRAGMA "+pragma[0], nil, &is)
		})
		if err != nil || is != pragma[1] {
			t.Errorf("%s is %q, error %v; want %q", pragma[0], is, err, pragma[1])
		}
	}
}

func TestAReaderCannotWrite(t *testing.T) {
	d := opened(t, place(t))
	err := d.Read(t.Context(), func(tx tables.Tx) error {
		_, err := tx.Exec(t.Context(), `DELETE FROM counts`)
		return err
	})
	if err == nil {
		t.Error("a write went through a reader")
	}
}

func TestTheFileIsReadableByItsOwnerOnly(t *testing.T) {
	path := place(t)
	d := opened(t, path)
	if err := write(d, "a", 1); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{path, path + "-wal", path + ".lock"} {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, error %v", f, info.Mode(), err)
		}
	}
}

func TestAFailedWriteLeavesNothingAndCostsNoOther(t *testing.T) {
	d := opened(t, place(t))
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			name := fmt.Sprint(i)
			err := d.Write(context.Background(), func(tx tables.Tx) error {
				if _, err := tx.Exec(context.Background(), `INSERT INTO counts (scope, n) VALUES ($1, 1)`, []byte(name)); err != nil {
					return err
				}
				switch i % 4 {
				case 0:
					return store.ErrConflict // decides against itself
				case 1:
					_, err := tx.Exec(context.Background(), `INSERT INTO nowhere VALUES (1)`)
					return err
				case 2:
					_, err := tx.Exec(context.Background(), `INSERT INTO counts (scope, n) VALUES ($1, NULL)`, []byte(name+"+"))
					return err
				}
				return nil
			})
			if (err == nil) != (i%4 == 3) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i := range 100 {
		if _, err := read(t, d, fmt.Sprint(i)); (err == nil) != (i%4 == 3) {
			t.Errorf("row %d: %v", i, err)
		}
	}
}

func TestAWriteThatWasGivenUpInTimeIsNotMade(t *testing.T) {
	d := opened(t, place(t))
	started, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := d.Write(context.Background(), func(tables.Tx) error {
			close(started)
			<-release
			return nil
		})
		if err != nil {
			t.Errorf("the first: %v", err)
		}
	})
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := d.Write(ctx, func(tx tables.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO counts (scope, n) VALUES ($1, 1)`, []byte("late"))
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	close(release)
	wg.Wait()
	if err := write(d, "next", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, d, "late"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the given-up write: %v", err)
	}
}

func TestAContextThatEndsDuringItsWriteBreaksNothing(t *testing.T) {
	d := opened(t, place(t))
	ctx, cancel := context.WithCancel(t.Context())
	err := d.Write(ctx, func(tx tables.Tx) error {
		cancel()
		_, err := tx.Exec(ctx, `INSERT INTO counts (scope, n) VALUES ($1, 1)`, []byte("a"))
		return err
	})
	if err != nil {
		t.Errorf("the outcome is known, but: %v", err)
	}
	if _, err := read(t, d, "a"); err != nil {
		t.Error(err)
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	d := opened(t, place(t))
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if err := write(d, fmt.Sprint(i), 1); err != nil && !errors.Is(err, store.ErrClosed) {
				t.Errorf("beside close: %v", err)
			}
		})
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := write(d, "late", 1); !errors.Is(err, store.ErrClosed) {
		t.Errorf("write: %v", err)
	}
	if _, err := read(t, d, "a"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if err := d.Health(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("health: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestASecondOpenOfAFileIsRefusedUnderEachOfItsNames(t *testing.T) {
	path := place(t)
	first := opened(t, path)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		_, err := Open(t.Context(), name)
		if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
			t.Errorf("open of %s: %v", name, err)
		}
	}
	if err := write(first, "a", 1); err != nil {
		t.Errorf("the first was disturbed: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, opened(t, link), "a"); err != nil {
		t.Error(err)
	}
}

func TestAFileOfANewerVersionIsRefusedAndNotTouched(t *testing.T) {
	path := place(t)
	if err := opened(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Exec(`INSERT INTO ` + migrations.Table + ` (version_id, is_applied) VALUES (9999, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path)
	if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "9999") || !strings.Contains(err.Error(), path) {
		t.Errorf("open: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file changed (%v)", err)
	}
}

func TestAFileThatIsNoDatabaseIsRefusedAndNotTouched(t *testing.T) {
	good := place(t)
	d := opened(t, good)
	for i := range 500 {
		if err := write(d, fmt.Sprint(i, strings.Repeat("x", 200)), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	scrambled := bytes.Clone(whole)
	for i := range scrambled[:4096] { // the first page, which holds header and schema
		scrambled[i] = byte(rand.Uint32())
	}
	schema := bytes.Clone(whole)
	clear(schema[100:4096])
	for name, content := range map[string][]byte{
		"text":           bytes.Repeat([]byte("this is no database\n"), 1000),
		"scrambled":      scrambled,
		"erased schema":  schema,
		"cut after 100":  whole[:100],
		"cut in a page":  whole[:4096+1000],
		"cut at a third": whole[:len(whole)/3/4096*4096],
	} {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), path)
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("open: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(content, after) {
				t.Errorf("the file changed (%v)", err)
			}
		})
	}
}

func TestAMissingFolderIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "penstock.db")
	if _, err := Open(t.Context(), path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), filepath.Dir(path)) {
		t.Errorf("open: %v", err)
	}
}

func TestAPathMayHoldAnyCharacter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c=d#e%20&ü")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "p;q+.db")
	opened(t, path)
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Errorf("the database is somewhere else: %v", err)
	}
}

// A full disk is told by SQLite in the same way when the file may not grow.
func TestAFullDiskFailsTheWriteAndNothingElse(t *testing.T) {
	d := opened(t, place(t))
	if err := write(d, "before", 1); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		t.Helper()
		err := d.Write(t.Context(), func(tx tables.Tx) error {
			var is int64
			return tx.Row(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages), nil, &is)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // SQLite takes the present size
	var full, fine int
	var mu sync.Mutex // guards full and fine
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			err := write(d, fmt.Sprint(i, strings.Repeat("x", 5000)), 1)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				fine++
			case errors.Is(err, store.ErrNoSpace):
				full++
			default:
				t.Errorf("write: %v", err)
			}
		})
	}
	wg.Wait()
	if full == 0 {
		t.Fatalf("%d writes of 5000 bytes found room", fine)
	}
	if err := d.Health(t.Context()); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("health on a full disk: %v", err)
	}
	if n, err := read(t, d, "before"); err != nil || n != 1 {
		t.Errorf("a read on a full disk: %d, %v", n, err)
	}
	limit(1 << 30)
	if err := write(d, "after", 1); err != nil {
		t.Errorf("once there is room again: %v", err)
	}
	if err := d.Health(t.Context()); err != nil {
		t.Errorf("health once there is room again: %v", err)
	}
}

func TestWritersBesideEachOtherShareCommits(t *testing.T) {
	d := opened(t, place(t))
	blocked, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = d.Write(context.Background(), func(tables.Tx) error { // decides nothing
			close(blocked)
			<-release
			return nil
		})
	})
	<-blocked
	const writers = 50
	for i := range writers {
		wg.Go(func() {
			if err := write(d, fmt.Sprint(i), 1); err != nil {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(5 * time.Second); len(d.writer.queue) < writers; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d writes queued", len(d.writer.queue), writers)
		}
		time.Sleep(time.Millisecond)
	}
	before := d.writer.commits.Load()
	close(release)
	wg.Wait()
	if n := d.writer.commits.Load() - before; n > 2 {
		t.Errorf("%d queued writes took %d commits", writers, n)
	}
}
