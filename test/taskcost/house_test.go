package taskcost_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/gateway"
	"github.com/penstock-mcp/penstock/internal/store/engine"
)

const (
	width     = 100  // upstreams
	callers   = 1000 // principals
	extension = "io.modelcontextprotocol/tasks"
)

// house is a gateway in front of the upstreams, for the callers.
type house struct {
	t       testing.TB
	store   *engine.Store
	handler http.Handler
	ups     *upstreams
}

// newHouse is a gateway that keeps its state at an address.
func newHouse(t testing.TB, state string) *house {
	t.Helper()
	h := &house{t: t, ups: newUpstreams(t)}
	var b strings.Builder
	b.WriteString("tasks: {probe: off}\nauth:\n  api_keys:\n")
	for i := range callers {
		fmt.Fprintf(&b, "    - {name: c%d, hash: \"sha256:%x\", subject: c%d, scopes: [mcp]}\n", i, sha256.Sum256([]byte(keyOf(i))), i)
	}
	b.WriteString("upstreams:\n")
	for i := range width {
		fmt.Fprintf(&b, "  u%d: {url: %q, era: modern}\n", i, fmt.Sprintf("%s/%d/mcp", h.ups.url, i))
	}
	doc, err := config.Parse("test.yaml", []byte(b.String()), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if h.store, err = engine.Open(t.Context(), engine.Options{URL: state}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.store.Close() })
	ring, err := h.store.Keys().Ring(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(doc, gateway.Version{Name: "penstock", Version: "test"}, slog.New(slog.DiscardHandler), gateway.Storage{
		Sessions: h.store.Sessions(), Souths: h.store.South(), Claims: h.store.Claims(), Tasks: h.store.Tasks(),
		Ring: ring, Instance: h.store.Instance(), Health: h.store.Health,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g.Await(ctx)
	h.handler = g.Handler()
	return h
}

func keyOf(i int) string { return fmt.Sprintf("caller-%06d-0123456789abcdef", i) }

// request is one that can be served again and again.
type request struct {
	r       *http.Request
	body    []byte
	content *bytes.Reader
	w       sink
}

func (h *house) request(caller int, method, name, params string) *request {
	h.t.Helper()
	q := &request{w: sink{header: http.Header{}}}
	q.body = []byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"` + extension + `":{}}}}}}`)
	q.content = bytes.NewReader(q.body)
	q.r = httptest.NewRequestWithContext(h.t.Context(), http.MethodPost, "http://localhost/mcp", http.NoBody)
	q.r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + keyOf(caller)},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name},
	}
	q.r.ContentLength, q.r.Body = int64(len(q.body)), io.NopCloser(q.content)
	return q
}

// poll asks for the n-th task that mints made, or nobody's.
func (h *house) poll(caller int, id string) *request {
	return h.request(caller, "tasks/get", id, `"taskId":"`+id+`"`)
}

func (h *house) call(caller, upstream int) *request {
	tool := fmt.Sprintf("u%d__work", upstream)
	return h.request(caller, "tools/call", tool, `"name":"`+tool+`","arguments":{}`)
}

// serve has the handler answer the request; the answer stays until the next.
func (q *request) serve(h *house) []byte {
	q.content.Reset(q.body)
	clear(q.w.header)
	q.w.status, q.w.body = 0, q.w.body[:0]
	h.handler.ServeHTTP(&q.w, q.r)
	return q.w.body
}

// sink is a response that is used again.
type sink struct {
	header http.Header
	status int
	body   []byte
}

func (s *sink) Header() http.Header              { return s.header }
func (s *sink) WriteHeader(status int)           { s.status = status }
func (s *sink) Write(p []byte) (int, error)      { s.body = append(s.body, p...); return len(p), nil }
func (*sink) Flush()                             {}
func (*sink) SetReadDeadline(time.Time) error    { return nil }
func (*sink) SetWriteDeadline(_ time.Time) error { return nil }

// owned is a task and whose it is.
type owned struct {
	id     string
	caller int
}

// mint makes tasks by calls, so many at once, of the callers and at the upstreams in
// turns.
func (h *house) mint(n, atOnce int) []owned {
	h.t.Helper()
	all := make([]owned, n)
	var next atomic.Int64
	var minting sync.WaitGroup
	for range atOnce {
		minting.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				q := h.call(i%callers, i%width)
				_, after, _ := strings.Cut(string(q.serve(h)), `"taskId":"`)
				id, _, is := strings.Cut(after, `"`)
				if !is {
					h.t.Errorf("no task: HTTP %d %s", q.w.status, q.w.body)
					return
				}
				all[i] = owned{id, i % callers}
			}
		})
	}
	minting.Wait()
	if h.t.Failed() {
		h.t.FailNow()
	}
	return all
}
