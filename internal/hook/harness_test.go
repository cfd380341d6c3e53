package hook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// ample is a timeout that nothing in a test reaches that is not meant to.
const ample = 60 * time.Second

var everyEvent = []Event{ToolBefore, ToolAfter, PromptBefore, PromptAfter, ResourceBefore, ResourceAfter}

// bench is a Set, and what it told.
type bench struct {
	*Set
	log *syncBuffer

	mu       sync.Mutex // guards outcomes
	outcomes []string
}

// newBench fills in what a test does not care about.
func newBench(t testing.TB, hooks ...Hook) *bench {
	t.Helper()
	b := &bench{log: &syncBuffer{}}
	for i := range hooks {
		h := &hooks[i]
		if h.ID == "" {
			h.ID = string(rune('a' + i))
		}
		if h.Events == nil {
			h.Events = everyEvent
		}
		if h.Timeout == 0 {
			h.Timeout = ample
		}
	}
	s, err := New(hooks, Options{
		Log: slog.New(slog.NewTextHandler(b.log, nil)),
		Outcome: func(hook string, e Event, outcome string, d time.Duration) {
			if d < 0 {
				t.Errorf("%s took %s", hook, d)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.outcomes = append(b.outcomes, hook+" "+e.String()+" "+outcome)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Set = s
	t.Cleanup(s.Close)
	return b
}

// told returns the outcomes since it was asked last, one a line.
func (b *bench) told() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := strings.Join(b.outcomes, "\n")
	b.outcomes = nil
	return out
}

// count is how many outcomes there were of each sort.
func (b *bench) count() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := map[string]int{}
	for _, o := range b.outcomes {
		n[o[strings.LastIndexByte(o, ' ')+1:]]++
	}
	return n
}

// call is a call at e.
func call(e Event) *Call {
	c := &Call{
		Event:     e,
		Principal: Principal{Issuer: "https://issuer", Tenant: "acme", Subject: "ada", Scopes: []string{"mcp", "x"}},
		Server:    "default", Upstream: "github", Name: "gh__create_pr", Original: "create_pr",
		Arguments: []byte(`{"n":9007199254740993,"f":1.0}`),
	}
	if e.after() {
		c.Result = []byte(`{"content":[{"type":"text","text":"<1e400>"}],"big":1e400}`)
	}
	return c
}

// server is an HTTP server that ends with the test.
func server(t testing.TB, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// saying answers with the JSON.
func saying(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}
}

func deciding(v Verdict, err error) Func {
	return func(context.Context, *Call) (Verdict, error) { return v, err }
}

// code is the code of an error that can be shown; 0 for none, 1 for another.
func code(err error) fault.Code {
	var f *fault.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.Code
	}
	return 1
}

func public(err error) string { return fault.From(err).Public() }

// syncBuffer is a buffer that may be written and read at once.
type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
