//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// The server that the tests of one process share.
var (
	once      sync.Once
	shared    *Server
	failed    error
	databases atomic.Int64
)

// Main runs the tests of a package and ends the shared server. It returns the
// exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared != nil {
		if err := shared.End(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			return max(code, 1)
		}
	}
	return code
}

// Database returns the address of an empty database on the shared server, which
// the first call starts. Without PostgreSQL it skips the test.
func Database(t testing.TB) string {
	t.Helper()
	once.Do(func() { shared, failed = NewServer() })
	check(t, failed)
	address, err := shared.Create(t.Context(), "test"+strconv.FormatInt(databases.Add(1), 10))
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Own returns a server for one test, which may stop and start it. Without
// PostgreSQL it skips the test.
func Own(t testing.TB) *Server {
	t.Helper()
	s, err := NewServer()
	check(t, err)
	t.Cleanup(func() {
		if err := s.End(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}
