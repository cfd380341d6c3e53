package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running starts a Log; stop ends it and returns what Run returned.
func running(t testing.TB, l *Log) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	var err error
	stopped := false
	stop = func() error {
		if !stopped {
			stopped = true
			cancel()
			err = <-done
		}
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func event(i int) *Event {
	return &Event{
		Time: time.Date(2026, 11, 30, 12, 0, 0, i*1000, time.UTC), Duration: time.Duration(i) * time.Millisecond,
		Issuer: "https://issuer.example", Subject: "alice", Source: "192.0.2.7", Server: "main", Method: "tools/call", Kind: "tools",
		Name: fmt.Sprintf("github__tool_%d", i), Original: fmt.Sprintf("tool_%d", i), Upstream: "github",
		Decision: "allow", Rule: "readers", Outcome: "ok", BytesIn: 312, BytesOut: 1024,
		RequestID: fmt.Sprint(i), TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Session: "a1b2c3",
	}
}

// chronicle writes n events in one run and returns the file's text.
func chronicle(t testing.TB, o Options, from, n int) string {
	t.Helper()
	l := New(o)
	stop := running(t, l)
	for i := range n {
		l.Record(event(from + i))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return text(t, o.File)
}

func text(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func verify(t testing.TB, s string, key, expect string) Report {
	t.Helper()
	r, err := Verify(strings.NewReader(s), "f", []byte(key), expect)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantOK fails when there is a problem.
func wantOK(t testing.TB, r Report) {
	t.Helper()
	if !r.OK() {
		t.Fatalf("problems: %v", r.Problems)
	}
}

// wantProblem fails unless a problem at that line says so.
func wantProblem(t testing.TB, r Report, line int, says string) {
	t.Helper()
	for _, p := range r.Problems {
		if p.Line == line && strings.Contains(p.Message, says) {
			return
		}
	}
	t.Fatalf("no problem %q at line %d: %v", says, line, r.Problems)
}

// split returns the lines with their ends.
func split(s string) []string {
	all := strings.SplitAfter(s, "\n")
	return all[:len(all)-1]
}

// until waits for a condition that the writer brings about.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}

func here(t testing.TB) string { return filepath.Join(t.TempDir(), "audit.jsonl") }
