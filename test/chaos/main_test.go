//go:build linux

package chaos_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// What the environment tells this binary.
const (
	roleEnv = "PENSTOCK_CHAOS_ROLE" // be an upstream or a child, not a test
	formEnv = "PENSTOCK_CHAOS"      // long: the long form
	markEnv = "PENSTOCK_CHAOS_MARK" // marks a child and what it starts
)

// hasty is how the race detector is to be in the processes that tests start.
const hasty = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "upstream":
		serveUpstream()
	case "child":
		serveChild()
	}
	// The race detector would let each process sleep for a second at its end.
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" "+hasty)
	code := pgtest.Main(m)
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// folder holds the built command; set by command.
var folder string

// command builds the gateway once for all tests, with the race detector where
// the tests have it.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "penstock-chaos-")
	if err != nil {
		return "", err
	}
	folder = dir
	bin := filepath.Join(dir, "penstock")
	args := []string{"build", "-o", bin}
	if raceDetector {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../../cmd/penstock")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})

// creating makes one database at a time, as PostgreSQL wants it.
var creating sync.Mutex

// database is the address of an empty database for one test.
func database(t testing.TB) string {
	t.Helper()
	creating.Lock()
	defer creating.Unlock()
	return pgtest.Database(t)
}

// times is how often something is done in the short form and in the long one.
func times(short, long int) int {
	if os.Getenv(formEnv) == "long" {
		return long
	}
	return short
}

// lasting is how long something goes on in the short form and in the long one.
func lasting(short, long time.Duration) time.Duration {
	return time.Duration(times(int(short), int(long)))
}

// eventually waits until holds is true and returns how long that took.
func eventually(t testing.TB, what string, within time.Duration, holds func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > within {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(start)
}
