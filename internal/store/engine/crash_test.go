package engine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
)

// victimEnv, with an address, makes the test binary a process that writes to
// that store until it is killed.
const victimEnv = "PENSTOCK_TEST_VICTIM"

// victim creates, updates and deletes sessions, and says on stdout, one line
// each, what it was told is done: "+id" and "-id".
func victim(address string) {
	ctx := context.Background()
	s, err := engine.Open(ctx, engine.Options{URL: address, Sessions: 1 << 30, SessionsPerPrincipal: 1 << 30})
	if err != nil {
		fmt.Println("!", err)
		os.Exit(1)
	}
	ring, err := s.Keys().Ring(ctx)
	if err != nil {
		fmt.Println("!", err)
		os.Exit(1)
	}
	fmt.Printf("key %x\n", ring)
	var out sync.Mutex // guards stdout
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprint(os.Getpid(), ".", w, ".", i)
				if _, err := s.Sessions().Create(ctx, session(id, byte(w))); err != nil {
					say("! create: %v", err)
					return
				}
				say("+%s", id)
				if i%3 > 0 {
					continue
				}
				// Between these two lines nobody knows.
				say("?%s", id)
				if err := s.Sessions().Delete(ctx, id); err != nil {
					say("! delete: %v", err)
					return
				}
				say("-%s", id)
			}
		}()
	}
	select {} // until it is killed
}

// A process killed at a random moment loses no row that it was told is stored,
// keeps none that it was told is gone, and leaves a store that opens.
func TestSIGKILLLosesNoCommittedRow(t *testing.T) {
	durable(t, func(t *testing.T, fresh func(testing.TB) string) {
		address := fresh(t)
		there := map[string]bool{} // absent: unknown
		key := ""
		rounds := 8
		if testing.Short() {
			rounds = 2
		}
		for range rounds {
			for _, line := range strings.Split(killed(t, victimEnv, address), "\n") {
				switch {
				case strings.HasPrefix(line, "!"):
					t.Fatal(line)
				case strings.HasPrefix(line, "key "):
					if key != "" && key != line {
						t.Fatal("the sealing key changed")
					}
					key = line
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
			stored := 0
			for id, want := range there {
				_, err := s.Sessions().Get(t.Context(), id)
				if want && err != nil || !want && !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s: %v; want it there: %v", id, err, want)
				}
				if err == nil {
					stored++
				}
			}
			// Up to a create and a delete of each worker are not known.
			if n, err := s.Sessions().Len(t.Context()); err != nil || n < stored {
				t.Errorf("%d counted, at least %d stored, error %v", n, stored, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(there) < 20*rounds {
			t.Errorf("%d rows in %d rounds: nothing was tested", len(there), rounds)
		}
		// What is counted is what is there, also after all of this.
		s := open(t, engine.Options{URL: address, Now: func() time.Time { return time.Now().Add(time.Hour) }})
		before, err := s.Sessions().Len(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		gone, err := s.Sessions().Expire(t.Context(), time.Now().Add(time.Hour))
		if err != nil || len(gone) != before {
			t.Errorf("%d were counted and %d removed, error %v", before, len(gone), err)
		}
		if n, err := s.Sessions().Len(t.Context()); err != nil || n != 0 {
			t.Errorf("%d counted after the last, error %v", n, err)
		}
	})
}

// killed runs a victim, of the kind that env names, for a random while and
// returns what it said.
func killed(t *testing.T, env, address string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+address)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(out)
	timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for begun := false; lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if !begun && strings.HasPrefix(lines.Text(), "+") {
			begun = true
			time.AfterFunc(50*time.Millisecond+rand.N(150*time.Millisecond), func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the victim ended by itself")
	}
	return said.String()
}

func TestASecondProcessIsToldWhoHoldsTheFile(t *testing.T) {
	address := engines["sqlite"](t)
	s := open(t, engine.Options{URL: address})
	if _, err := s.Keys().Ring(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := killed(t, victimEnv, address)
	if !strings.HasPrefix(said, "! ") || !strings.Contains(said, fmt.Sprintf("process %d holds", os.Getpid())) ||
		!strings.Contains(said, strings.TrimPrefix(address, "sqlite:")) {
		t.Errorf("it said %q", said)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Errorf("the first was disturbed: %v", err)
	}
}
