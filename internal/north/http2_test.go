package north

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// open2 is open over TLS and HTTP/2.
func open2(t *testing.T, g *rooms, change ...func(*Options)) *front {
	t.Helper()
	f := build(t, g, change...)
	srv := httptest.NewUnstartedServer(f.h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	f.url, f.client = srv.URL, srv.Client()
	return f
}

func TestHTTP2ServesAnswersAndEvents(t *testing.T) {
	f := open2(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		if x.Msg.Method == "tools/call" {
			if _, err := x.Event([]byte(`{"n":1}`)); err != nil {
				return err
			}
		}
		return x.Result([]byte(`{}`))
	}})
	if g := f.modern("tools/list", "", ""); g.status != 200 || g.body != `{"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Errorf("HTTP %d %q %v", g.status, g.body, g.err)
	}
	if g := f.modern("tools/call", "a", `"name":"a"`); g.status != 200 || strings.Count(g.body, "data: ") != 2 {
		t.Errorf("HTTP %d %q %v", g.status, g.body, g.err)
	}
}

func TestHTTP2AnswersThatFailMidwayNeverLookComplete(t *testing.T) {
	f := open2(t, streamed(false, `{"a":"`, strings.Repeat("a", 100<<10)))
	if g := f.modern("tools/list", "", ""); g.err == nil {
		t.Errorf("HTTP %d, %d bytes, and no error", g.status, len(g.body))
	}
	f = open2(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		if _, err := x.Event([]byte(`{"n":1}`)); err != nil {
			return err
		}
		return errors.New("lost")
	}})
	if g := f.modern("tools/list", "", ""); g.err != nil || !strings.Contains(g.body, `"error":{"code":-32603`) {
		t.Errorf("after an event: HTTP %d %q %v", g.status, g.body, g.err)
	}
}

func TestHTTP2BodiesThatDoNotArriveAreGivenUp(t *testing.T) {
	f := open2(t, &rooms{}, func(o *Options) { o.BodyTimeout = 100 * time.Millisecond })
	slow, feed := io.Pipe()
	t.Cleanup(func() { _ = feed.Close() })
	go func() { _, _ = io.WriteString(feed, `{"jsonrpc":`) }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/mcp", slow)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	g := f.do(r, map[string]string{"Content-Type": "application/json"})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("given up after %v", took)
	}
	if g.err == nil && g.status != 400 {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
	if g := f.modern("tools/list", "", ""); g.status != 200 { // the same connection
		t.Errorf("another request: HTTP %d %v", g.status, g.err)
	}
}

func TestHTTP2ClientsThatResetAStreamCancel(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	f := open2(t, &rooms{serve: func(ctx context.Context, _ *Exchange) error {
		close(began)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}})
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-began; leave() }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+meta+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	h := modernHeaders("tools/list", "")
	h["Content-Type"] = "application/json"
	if g := f.do(r, h); g.err == nil {
		t.Errorf("HTTP %d", g.status)
	}
	<-ended
}
