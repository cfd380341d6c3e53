package routing_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
)

// peers are upstreams by key.
type peers map[string]*peer

// endpoint is a running gateway.
type endpoint struct {
	base     string
	gw       *penstock.Gateway
	document string
}

// reload serves the document with one line of it replaced.
func (e *endpoint) reload(t testing.TB, line, by string) {
	t.Helper()
	var out []string
	for l := range strings.SplitSeq(e.document, "\n") {
		if strings.HasPrefix(l, line) {
			l, line = by, "\x00"
		}
		out = append(out, l)
	}
	if line != "\x00" {
		t.Fatalf("the document has no line %q:\n%s", line, e.document)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := e.gw.Reload(ctx, parsed(t, strings.Join(out, "\n"))); err != nil {
		t.Fatal(err)
	}
}

// serve starts the peers and a gateway in front of them. servers is the body
// of the document's `servers` key, indented by two; "" leaves it out.
func serve(t testing.TB, up peers, servers string) *endpoint {
	t.Helper()
	return serveWith(t, up, servers, "limits: {list_timeout: 1s}")
}

func serveWith(t testing.TB, up peers, servers string, more ...string) *endpoint {
	t.Helper()
	e, end := start(t, document(t, up, servers, more...), nil)
	t.Cleanup(end)
	return e
}

// document writes the document of serveWith, and starts the peers.
func document(t testing.TB, up peers, servers string, more ...string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(strings.Join(more, "\n") + "\n")
	if len(up) > 0 {
		b.WriteString("upstreams:\n")
	}
	keys := make([]string, 0, len(up))
	for key := range up {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		p := up[key]
		if p.url == "" {
			p.start(t)
		}
		b.WriteString("  " + key + ": {url: '" + p.url + "'")
		if p.namespace != "" {
			b.WriteString(", namespace: " + p.namespace)
		}
		b.WriteString("}\n")
	}
	if servers != "" {
		b.WriteString("servers:\n" + servers + "\n")
	}
	return b.String()
}

func parsed(t testing.TB, document string) *config.Document {
	t.Helper()
	doc, err := config.Parse("test.yaml", []byte(document), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("the document is refused: %v\n%s", err, document)
	}
	return doc
}

// start runs a gateway with its state in a store, or without one. end ends it,
// and leaves the store to its owner.
func start(t testing.TB, document string, store *penstock.Store) (e *endpoint, end func()) {
	t.Helper()
	var opts []penstock.Option
	if store != nil {
		opts = append(opts, penstock.WithStore(store))
	}
	gw, err := penstock.New(parsed(t, document), opts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- gw.Run(ctx) }()
	s := httptest.NewServer(gw.Handler())
	return &endpoint{base: s.URL, gw: gw, document: document}, func() {
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
	}
}

// refused returns the problems of a document that must not load.
func refused(t *testing.T, document string) string {
	t.Helper()
	_, err := config.Parse("test.yaml", []byte(document), func(string) (string, bool) { return "", false })
	if err == nil {
		t.Fatalf("the document loads:\n%s", document)
	}
	return err.Error()
}
