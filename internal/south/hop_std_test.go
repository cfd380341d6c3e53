package south

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func TestProxyIsAskedInsteadOfTheUpstream(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.String())
	}))
	defer proxy.Close()
	h := newHop(hopOptions{scheme: "http", proxy: mustURL(t, proxy.URL)})
	defer h.closeIdle()
	const target = "http://upstream.invalid/mcp?a=b"
	if _, got := fetch(t, h, post(mustURL(t, target), "x")); got != target {
		t.Errorf("the proxy was asked for %q, want %q", got, target)
	}
}

func TestStdHopRefusesToSwitchProtocols(t *testing.T) {
	h := newStdHop(hopOptions{scheme: "http"})
	defer h.closeIdle()
	u := mustURL(t, "http://"+rawServer(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	}))
	if _, err := h.do(t.Context(), post(u, "x")); !errors.Is(err, errSwitch) {
		t.Errorf("error %v, want %v", err, errSwitch)
	}
}

func TestStdHopDoesNotReadABodyThatWasGivenBack(t *testing.T) {
	var p pieces
	body := &piece{of: &p, rest: []byte("abc"), sent: new(atomic.Bool)}
	one := make([]byte, 1)
	if _, err := body.Read(one); err != nil || one[0] != 'a' || !body.sent.Load() {
		t.Fatalf("read %q, %v", one, err)
	}
	p.end()
	if n, err := body.Read(one); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes after the end, %v", n, err)
	}
}
