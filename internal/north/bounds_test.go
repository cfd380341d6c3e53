package north

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRequestsInFlightAreCappedPerPrincipal(t *testing.T) {
	a, b := &Principal{Key: [32]byte{1}}, &Principal{Key: [32]byte{2}}
	began, release := make(chan struct{}, 10), make(chan struct{})
	g := &rooms{
		identify: func(r *http.Request) (*Principal, error) {
			if r.Header.Get("X-Who") == "b" {
				return b, nil
			}
			return a, nil
		},
		serve: func(_ context.Context, x *Exchange) error {
			if x.Principal == a {
				began <- struct{}{}
				<-release
			}
			return x.Result([]byte(`{}`))
		},
	}
	f := open(t, g, func(o *Options) { o.InFlight = 2 })
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if g := f.post(body, modernHeaders("tools/list", "")); g.status != 200 {
				t.Errorf("within the cap: HTTP %d %s", g.status, g.body)
			}
		})
	}
	<-began
	<-began
	if g := f.post(body, modernHeaders("tools/list", "")); g.status != 503 || g.code(t) != -31009 {
		t.Errorf("beyond the cap: HTTP %d %s", g.status, g.body)
	}
	h := modernHeaders("tools/list", "")
	h["X-Who"] = "b"
	if g := f.post(body, h); g.status != 200 {
		t.Errorf("another principal: HTTP %d %s", g.status, g.body)
	}
	close(release)
	wg.Wait()
	for range 3 { // refused requests and errors give their place back, too
		if g := f.post("{", modernHeaders("tools/list", "")); g.status != 400 {
			t.Errorf("afterwards: HTTP %d %s", g.status, g.body)
		}
	}
	eventually(t, "all places given back", func() bool { return a.tally().inFlight.Load() == 0 && b.tally().inFlight.Load() == 0 })
}

// listen serves h on a Listener of this package until the test ends.
func listen(t *testing.T, h http.Handler, o ListenOptions) *Listener {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l, err := Listen(t.Context(), "127.0.0.1:0", h, o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- l.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = l.Shutdown(ctx) // what is left is cut
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l
}

func TestConnectionsBeyondTheBoundAreClosed(t *testing.T) {
	log := &lockedBuffer{}
	f := build(t, &rooms{})
	l := listen(t, f.h, ListenOptions{Connections: 2, Log: slog.New(slog.NewTextHandler(log, nil))})
	ask := func(r *bufio.Reader, w io.Writer) error {
		if _, err := io.WriteString(w, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.Body.Close()
	}
	c1, r1 := dial(t, l.Addr().String(), "")
	c2, r2 := dial(t, l.Addr().String(), "")
	for range 2 {
		if err := errors.Join(ask(r1, c1), ask(r2, c2)); err != nil {
			t.Fatalf("within the bound: %v", err)
		}
	}
	for range 5 {
		c3, r3 := dial(t, l.Addr().String(), "")
		if err := ask(r3, c3); err == nil {
			t.Error("a connection beyond the bound is served")
		}
	}
	if n := strings.Count(log.String(), "limits.connections"); n != 1 { // a flood does not fill the log
		t.Errorf("the log says so %d times: %q", n, log.String())
	}
	if err := ask(r1, c1); err != nil {
		t.Errorf("an old connection after that: %v", err)
	}
	_ = c1.Close()
	eventually(t, "a place for another connection", func() bool {
		c, r := dial(t, l.Addr().String(), "")
		defer func() { _ = c.Close() }()
		return ask(r, c) == nil
	})
}

func TestLargeHeadersAreRefused(t *testing.T) { // checklist section 9: 431
	f := build(t, &rooms{})
	l := listen(t, f.h, ListenOptions{HeaderBytes: 8 << 10})
	_, r := dial(t, l.Addr().String(), "GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: "+strings.Repeat("a", 16<<10)+"\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("HTTP %d", resp.StatusCode)
	}
}

// A client that reads nothing is cut off, and nobody else notices.
func TestASlowReaderIsCutOffAlone(t *testing.T) {
	ended := make(chan error, 1)
	g := &rooms{serve: func(_ context.Context, x *Exchange) error {
		if x.Msg.Method != "tools/call" {
			return x.Result([]byte(`{}`))
		}
		w, err := x.Begin()
		for chunk := []byte(strings.Repeat("a", 64<<10)); err == nil; {
			_, err = w.Write(chunk)
		}
		ended <- err
		return err
	}}
	f := build(t, g, func(o *Options) { o.WriteTimeout = 300 * time.Millisecond })
	l := listen(t, f.h, ListenOptions{})
	f.url, f.client = "http://"+l.Addr().String(), &http.Client{Transport: &http.Transport{}}
	t.Cleanup(f.client.CloseIdleConnections)
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a",` + meta + `}}`
	began := time.Now()
	_, _ = dial(t, l.Addr().String(), "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: a\r\n"+
		"Content-Length: "+itoa(len(body))+"\r\n\r\n"+body)
	for i := 0; ; i++ {
		select {
		case err := <-ended:
			if !IsGone(err) {
				t.Errorf("the write ended with %v", err)
			}
			if i == 0 || time.Since(began) > 8*time.Second {
				t.Errorf("cut off after %v and %d other requests", time.Since(began), i)
			}
			return
		default:
		}
		if g := f.modern("tools/list", "", ""); g.status != 200 {
			t.Fatalf("another client: HTTP %d %v", g.status, g.err)
		}
		time.Sleep(20 * time.Millisecond)
		if time.Since(began) > 10*time.Second {
			t.Fatal("the slow reader is still served")
		}
	}
}

func TestShutdownWaitsForWhatIsInFlight(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	f := build(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		close(began)
		<-release
		return x.Result([]byte(`{}`))
	}})
	l, err := Listen(t.Context(), "127.0.0.1:0", f.h, ListenOptions{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- l.Serve() }()
	f.url, f.client = "http://"+l.Addr().String(), &http.Client{Transport: &http.Transport{}}
	t.Cleanup(f.client.CloseIdleConnections)
	answer := make(chan got, 1)
	go func() { answer <- f.modern("tools/list", "", "") }()
	<-began
	down := make(chan error, 1)
	go func() { down <- l.Shutdown(context.Background()) }()
	if err := <-served; err != nil { // accepting ends at once
		t.Errorf("Serve: %v", err)
	}
	select {
	case err := <-down:
		t.Fatalf("Shutdown returned with a request in flight: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if g := <-answer; g.status != 200 {
		t.Errorf("the request in flight: HTTP %d %v", g.status, g.err)
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestShutdownCutsWhatOutlastsIt(t *testing.T) {
	began := make(chan struct{})
	f := build(t, &rooms{serve: func(ctx context.Context, _ *Exchange) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}})
	l, err := Listen(t.Context(), "127.0.0.1:0", f.h, ListenOptions{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- l.Serve() }()
	f.url, f.client = "http://"+l.Addr().String(), &http.Client{Transport: &http.Transport{}}
	answer := make(chan got, 1)
	go func() { answer <- f.modern("tools/list", "", "") }()
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.Shutdown(ctx); err == nil {
		t.Error("Shutdown says that nothing was cut")
	}
	if g := <-answer; g.err == nil {
		t.Errorf("the cut request got HTTP %d", g.status)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
