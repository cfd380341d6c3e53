package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

func taskOf(n int) *store.Task {
	return &store.Task{
		Hash: sha256.Sum256(fmt.Append(nil, n)), Principal: [32]byte{1}, Server: "default", Upstream: "jobs", Tool: "start_job",
		Sealed: make([]byte, 76), Expires: time.Now().Add(time.Hour),
	}
}

func TestAMintIsOneCommitAndALookupNone(t *testing.T) {
	d := opened(t, place(t))
	tasks := tables.NewTasks(d, tables.TaskBounds{Max: 100, MaxFor: 100, Cached: 1000}, time.Now)
	for i := range 5 {
		before := d.Commits()
		if _, err := tasks.Mint(t.Context(), taskOf(i%3)); err != nil { // new, and refreshed
			t.Fatal(err)
		}
		if n := d.Commits() - before; n != 1 {
			t.Errorf("a mint took %d commits", n)
		}
	}
	before := d.Commits()
	for i := range 5 {
		_, _, _ = tasks.Get(t.Context(), taskOf(i).Hash, taskOf(i).Principal)
	}
	if n := d.Commits() - before; n != 0 {
		t.Errorf("lookups took %d commits", n)
	}
}

func TestMintsBesideEachOtherShareCommits(t *testing.T) {
	d := opened(t, place(t))
	tasks := tables.NewTasks(d, tables.TaskBounds{Max: 100, MaxFor: 100, Cached: 1000}, time.Now)
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
	const mints = 64
	for i := range mints {
		wg.Go(func() {
			if _, err := tasks.Mint(t.Context(), taskOf(i)); err != nil {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(10 * time.Second); len(d.writer.queue) < mints; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d mints queued", len(d.writer.queue), mints)
		}
		time.Sleep(time.Millisecond)
	}
	before := d.Commits()
	close(release)
	wg.Wait()
	if n := d.Commits() - before; n > 2 {
		t.Errorf("%d mints at once took %d commits", mints, n)
	}
	if own, all, err := tasks.Count(t.Context(), [32]byte{1}); err != nil || own != mints || all != mints {
		t.Errorf("counted %d of %d, error %v", own, all, err)
	}
}

// planned notes the plan of each statement that runs.
type planned struct {
	*DB
	mu    sync.Mutex // guards plans
	plans map[string]string
}

func (p *planned) Read(ctx context.Context, f func(tables.Tx) error) error {
	return p.DB.Read(ctx, func(tx tables.Tx) error { return f(&planner{tx, p}) })
}

func (p *planned) Write(ctx context.Context, f func(tables.Tx) error) error {
	return p.DB.Write(ctx, func(tx tables.Tx) error { return f(&planner{tx, p}) })
}

type planner struct {
	tables.Tx
	p *planned
}

func (x *planner) note(ctx context.Context, query string, args []any) error {
	plan := ""
	err := x.Tx.Rows(ctx, "EXPLAIN QUERY PLAN "+query, args, func(r tables.Scanner) error {
		var id, parent, unused int64
		var detail string
		err := r.Scan(&id, &parent, &unused, &detail)
		plan += detail + "\n"
		return err
	})
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	x.p.plans[query] = plan
	return err
}

func (x *planner) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if err := x.note(ctx, query, args); err != nil {
		return 0, err
	}
	return x.Tx.Exec(ctx, query, args...)
}

func (x *planner) ExecEach(ctx context.Context, query string, args [][]any) error {
	if err := x.note(ctx, query, args[0]); err != nil {
		return err
	}
	return x.Tx.ExecEach(ctx, query, args)
}

func (x *planner) Row(ctx context.Context, query string, args []any, dest ...any) error {
	if err := x.note(ctx, query, args); err != nil {
		return err
	}
	return x.Tx.Row(ctx, query, args, dest...)
}

func (x *planner) Rows(ctx context.Context, query string, args []any, scan func(tables.Scanner) error) error {
	if err := x.note(ctx, query, args); err != nil {
		return err
	}
	return x.Tx.Rows(ctx, query, args, scan)
}

// No statement about tasks may look at all of them, or sort what an index has in
// order.
func TestEachStatementAboutTasksUsesAnIndex(t *testing.T) {
	p := &planned{DB: opened(t, place(t)), plans: map[string]string{}}
	tasks := tables.NewTasks(p, tables.TaskBounds{Max: 100, MaxFor: 100, Cached: 1000}, time.Now)
	ctx, is, past := t.Context(), taskOf(1), time.Now().Add(-time.Hour)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := tasks.Locate(ctx, taskOf(2))
	must(err)
	located := *taskOf(2)
	located.Principal[0] = 2
	_, err = tasks.Mint(ctx, &located) // and the other gives way
	must(err)
	minted, err := tasks.Mint(ctx, is)
	must(err)
	next := *is
	next.Upstream = "other"
	_, err = tasks.Replace(ctx, &next, minted)
	must(err)
	_, _, err = tasks.Get(ctx, taskOf(2).Hash, is.Principal)
	if err == nil {
		t.Error("what gave way is there")
	}
	must(tasks.Touch(ctx, store.TaskTouch{Hash: is.Hash, Principal: is.Principal, Expires: past}))
	must(tasks.Mark(ctx, is.Hash, is.Principal, 0, store.TaskRevoked))
	_ = tasks.Mark(ctx, is.Hash, is.Principal, 99, store.TaskRevoked)
	for _, upstream := range []string{"", "jobs"} {
		_, err = tasks.All(ctx, upstream, is.Position(), 10)
		must(err)
	}
	_, err = tasks.List(ctx, is.Principal, "default", is.Position(), 10)
	must(err)
	_, _, err = tasks.Count(ctx, is.Principal)
	must(err)
	if n, err := tasks.Expire(ctx, time.Now(), past, 10); err != nil || n != 1 {
		t.Errorf("expired %d, error %v", n, err)
	}
	must(tasks.Delete(ctx, located.Hash, located.Principal))
	for statement, plan := range p.plans {
		for line := range strings.Lines(plan) {
			whole := strings.HasPrefix(line, "SCAN t") && !strings.Contains(line, "USING COVERING INDEX tasks_by_age") && !strings.Contains(line, "USING INDEX tasks_by_age")
			// All of an upstream, a principal or a time are not few.
			whole = whole || strings.Contains(line, "(upstream=?)") || strings.Contains(line, "(principal=?)") || strings.Contains(line, "tasks_of_principal (principal=? AND server=?)")
			if whole || strings.Contains(line, "TEMP B-TREE") {
				t.Errorf("%s\n%s", statement, plan)
				break
			}
		}
	}
	if len(p.plans) < 18 {
		t.Errorf("%d statements were seen", len(p.plans))
	}
}
