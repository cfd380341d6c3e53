package engine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
)

// minterEnv is victimEnv for a process that mints tasks.
const minterEnv = "PENSTOCK_TEST_MINTER"

// minter mints, refreshes, deletes and expires tasks, and says on stdout, one
// line each, what it was told is done: "+n" and "-n".
func minter(address string) {
	ctx := context.Background()
	s, err := engine.Open(ctx, engine.Options{URL: address, Tasks: 1 << 30, TasksPerPrincipal: 1 << 30})
	if err != nil {
		fmt.Println("!", err)
		os.Exit(1)
	}
	var out sync.Mutex // guards stdout
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				n := (os.Getpid()*8+w)*10_000 + i
				is := task(n, byte(w))
				if _, err := s.Tasks().Mint(ctx, is); err != nil {
					say("! mint: %v", err)
					return
				}
				say("+%d %d", n, w)
				if i%3 > 0 {
					continue
				}
				say("?%d %d", n, w) // between these two lines nobody knows
				if err := s.Tasks().Delete(ctx, is.Hash, is.Principal); err != nil {
					say("! delete: %v", err)
					return
				}
				say("-%d %d", n, w)
			}
		}()
	}
	select {} // until it is killed
}

// What Mint returned is there after a crash, what Delete removed is not, and
// what is counted is what is there.
func TestSIGKILLLosesNoMintedTask(t *testing.T) {
	durable(t, func(t *testing.T, fresh func(testing.TB) string) {
		address := fresh(t)
		there := map[string]bool{} // "n principal"; absent: unknown
		rounds := 5
		if testing.Short() {
			rounds = 2
		}
		for range rounds {
			for _, line := range strings.Split(killed(t, minterEnv, address), "\n") {
				switch {
				case strings.HasPrefix(line, "!"):
					t.Fatal(line)
				case strings.HasPrefix(line, "+"):
					there[line[1:]] = true
				case strings.HasPrefix(line, "?"):
					delete(there, line[1:])
				case strings.HasPrefix(line, "-"):
					there[line[1:]] = false
				}
			}
			s, err := engine.Open(t.Context(), engine.Options{URL: address})
			if err != nil {
				t.Fatal(err)
			}
			for line, want := range there {
				var n, w int
				if _, err := fmt.Sscan(line, &n, &w); err != nil {
					t.Fatal(err)
				}
				if got := owner(t, s.Tasks(), task(n, byte(w))); (got != "none") != want {
					t.Errorf("%s: %s; want it there: %v", line, got, want)
				}
			}
			exact(t, s.Tasks(), 1<<30, 1<<30)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(there) < 20*rounds {
			t.Errorf("%d tasks in %d rounds: nothing was tested", len(there), rounds)
		}
		s := open(t, engine.Options{URL: address})
		n := exact(t, s.Tasks(), 1<<30, 1<<30)
		late := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
		if gone, err := s.Tasks().Expire(t.Context(), late, late, 1<<30); err != nil || gone != n {
			t.Errorf("%d were there and %d removed, error %v", n, gone, err)
		}
		if n := exact(t, s.Tasks(), 0, 0); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

func TestAStoreThatReopensHasItsTasks(t *testing.T) {
	durable(t, func(t *testing.T, fresh func(testing.TB) string) {
		o := engine.Options{URL: fresh(t)}
		s := open(t, o)
		var want []string
		for i := range 5 {
			if _, err := s.Tasks().Mint(t.Context(), task(i, 1)); err != nil {
				t.Fatal(err)
			}
			if err := s.Tasks().Mark(t.Context(), task(i, 1).Hash, task(i, 1).Principal, 0, store.TaskMark(i%4)); err != nil {
				t.Fatal(err)
			}
			want = append(want, owner(t, s.Tasks(), task(i, 1)))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, o)
		for i := range 5 {
			if got := owner(t, s.Tasks(), task(i, 1)); got != want[i] {
				t.Errorf("%s, want %s", got, want[i])
			}
		}
		if n := exact(t, s.Tasks(), 5, 5); n != 5 {
			t.Errorf("%d are there", n)
		}
	})
}
