package taskslegacy_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/demo"
)

// patience bounds every wait of a test.
const patience = 20 * time.Second

// shop is a job server and what arrived at it.
type shop struct {
	*demo.JobServer
	url string

	mu    sync.Mutex // guards calls
	calls []demo.JobCall
}

func (s *shop) log(c demo.JobCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// got is how often a method arrived.
func (s *shop) got(method string) int { return len(s.bodies(method)) }

// bodies are the messages of a method that arrived.
func (s *shop) bodies(method string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Method == method {
			out = append(out, string(c.Body))
		}
	}
	return out
}

// open starts a job server.
func open(t *testing.T, make func(demo.JobOptions) *demo.JobServer, o demo.JobOptions) *shop {
	t.Helper()
	s := &shop{}
	o.Log = s.log
	s.JobServer = make(o)
	h := httptest.NewServer(s.JobServer)
	s.url = h.URL
	t.Cleanup(func() {
		s.Close()
		h.CloseClientConnections()
		h.Close()
	})
	return s
}

// quick is a job server whose jobs are done soon.
func quick(t *testing.T, make func(demo.JobOptions) *demo.JobServer) *shop {
	t.Helper()
	return open(t, make, demo.JobOptions{Pace: 60 * time.Millisecond, Poll: 50 * time.Millisecond})
}

// slow is a job server whose jobs are not done within a test.
func slow(t *testing.T, make func(demo.JobOptions) *demo.JobServer) *shop {
	t.Helper()
	return open(t, make, demo.JobOptions{Pace: time.Minute, Poll: 50 * time.Millisecond, Grace: 20 * time.Millisecond})
}

// house is a gateway.
type house struct {
	gw  *penstock.Gateway
	url string
}

// serve starts a gateway before some upstreams. more are further lines of its document.
func serve(t *testing.T, upstreams map[string]string, more ...string) *house {
	t.Helper()
	return serveWith(t, upstreams, nil, more...)
}

// serveWith is serve for a program that has options of its own.
func serveWith(t *testing.T, upstreams map[string]string, options []penstock.Option, more ...string) *house {
	t.Helper()
	var b strings.Builder
	b.WriteString(strings.Join(more, "\n") + "\nupstreams:\n")
	for key, url := range upstreams {
		if !strings.HasPrefix(url, "{") {
			url = "{url: '" + url + "'}"
		}
		fmt.Fprintf(&b, "  %s: %s\n", key, url)
	}
	doc, err := config.Parse("test.yaml", []byte(b.String()), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("the document is refused: %v\n%s", err, b.String())
	}
	gw, err := penstock.New(doc, options...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- gw.Run(ctx) }()
	s := httptest.NewServer(gw.Handler())
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		end, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		if err := gw.Close(end); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &house{gw: gw, url: s.URL + "/mcp"}
}

// stdio is a client of the house over a pair of pipes.
func (h *house) stdio(t *testing.T, revision, caps string) *client {
	t.Helper()
	in, feed := io.Pipe()
	read, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.gw.ServeStdio(ctx, "default", in, out, time.Second) }()
	c := newClient(revision, caps)
	c.feed = feed
	go c.lines(read)
	t.Cleanup(func() {
		_ = feed.Close()
		cancel()
		<-ended
		_ = out.Close()
	})
	c.begin(t)
	return c
}

// http is a client of the house over HTTP.
func (h *house) http(t *testing.T, revision, caps string) *client {
	t.Helper()
	c := newClient(revision, caps)
	c.url = h.url
	t.Cleanup(c.end)
	c.begin(t)
	return c
}

// each runs a test over HTTP and over stdio.
func each(t *testing.T, test func(t *testing.T, dial func(h *house, revision, caps string) *client)) {
	t.Run("http", func(t *testing.T) {
		test(t, func(h *house, revision, caps string) *client { return h.http(t, revision, caps) })
	})
	t.Run("stdio", func(t *testing.T) {
		test(t, func(h *house, revision, caps string) *client { return h.stdio(t, revision, caps) })
	})
}
