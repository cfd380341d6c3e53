package north

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// sized is a valid modern request of n bytes.
func sized(n int) string {
	head, tail := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"pad":"`, `",`+meta+`}}`
	return head + strings.Repeat("a", n-len(head)-len(tail)) + tail
}

func TestBodiesUpToTheBoundAreTakenAndNoLarger(t *testing.T) {
	const limit = 100 << 10
	f := open(t, &rooms{}, func(o *Options) { o.RequestBytes = limit })
	for _, n := range []int{400, usual - 1, usual, usual + 1, 70 << 10, limit - 1, limit, limit + 1, 3 * limit} {
		for _, chunked := range []bool{false, true} {
			h := modernHeaders("tools/list", "")
			h["Content-Type"] = "application/json"
			var body io.Reader = strings.NewReader(sized(n))
			if chunked {
				body = struct{ io.Reader }{body} // hides the length
			}
			r, err := http.NewRequestWithContext(t.Context(), "POST", f.url+"/mcp", body)
			if err != nil {
				t.Fatal(err)
			}
			g := f.do(r, h)
			if n <= limit && g.status != 200 {
				t.Errorf("%d bytes, chunked %v: HTTP %d %s %v", n, chunked, g.status, g.body, g.err)
			}
			// A refused client that is still sending may see the cut before the answer.
			if n > limit && g.err == nil && (g.status != http.StatusRequestEntityTooLarge || g.code(t) != -31008) {
				t.Errorf("%d bytes, chunked %v: HTTP %d %s", n, chunked, g.status, g.body)
			}
			if n > limit && !chunked && n < limit+10 && g.status != http.StatusRequestEntityTooLarge {
				t.Errorf("%d bytes: HTTP %d %v", n, g.status, g.err)
			}
		}
	}
}

func TestAnEmptyBodyIsNoMessage(t *testing.T) {
	f := open(t, &rooms{})
	for _, body := range []string{"", " ", "\n"} {
		if g := f.post(body, modernHeaders("tools/list", "")); g.status != 400 || g.code(t) != -32700 {
			t.Errorf("%q: HTTP %d %s", body, g.status, g.body)
		}
	}
}

// dial opens a connection of its own and sends text.
func dial(t testing.TB, addr, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

const rawHead = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

// Whatever is refused early is answered, and its connection ended, although the
// body that was announced never comes.
func TestARefusedRequestDoesNotWaitForItsBody(t *testing.T) {
	f := open(t, &rooms{}, func(o *Options) { o.BodyTimeout = 100 * time.Millisecond })
	addr := strings.TrimPrefix(f.url, "http://")
	for what, head := range map[string]string{
		"media type": "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n",
		"origin":     "POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n",
		"path":       "POST /nothing HTTP/1.1\r\nHost: localhost\r\n",
		"DELETE":     "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n",
		"GET":        "GET /mcp HTTP/1.1\r\nHost: localhost\r\n",
		"health":     "POST /health HTTP/1.1\r\nHost: localhost\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, r := dial(t, addr, head+"Content-Length: 100\r\n\r\n{")
			_ = c.SetDeadline(time.Now().Add(3 * time.Second))
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if _, err := r.ReadByte(); err == nil || timedOut(err) {
				t.Errorf("the connection waits on: %v", err)
			}
		})
	}
}

func TestABodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	f := open(t, &rooms{}, func(o *Options) { o.BodyTimeout = 100 * time.Millisecond })
	addr := strings.TrimPrefix(f.url, "http://")
	for _, body := range []string{"Content-Length: 100\r\n\r\n{\"jsonrpc\":", "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n", "Content-Length: 1\r\n\r\n"} {
		began := time.Now()
		c, r := dial(t, addr, rawHead+body)
		_ = c.SetDeadline(time.Now().Add(3 * time.Second))
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Errorf("%q: %v", body, err)
			continue
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 400 || !strings.Contains(string(b), "did not arrive in time") || time.Since(began) > 5*time.Second {
			t.Errorf("%q after %v: HTTP %d %s", body, time.Since(began), resp.StatusCode, b)
		}
		if _, err := r.ReadByte(); err == nil || timedOut(err) {
			t.Errorf("%q: the connection goes on", body)
		}
	}
	if len(f.reached()) != 0 {
		t.Error("half a message was served")
	}
}

// The bound on one body is none on the connection.
func TestAConnectionOutlivesTheBoundOnABody(t *testing.T) {
	f := open(t, &rooms{}, func(o *Options) { o.BodyTimeout, o.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond })
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`
	request := rawHead + fmt.Sprintf("Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	note := `{"jsonrpc":"2.0","method":"notifications/x","params":{` + meta + `}}`
	notification := rawHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(note), note)
	c, r := dial(t, strings.TrimPrefix(f.url, "http://"), request)
	for i, next := range []string{notification, request, notification, ""} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if want := []int{200, 202, 200, 202}[i]; resp.StatusCode != want {
			t.Errorf("answer %d: HTTP %d", i, resp.StatusCode)
		}
		time.Sleep(120 * time.Millisecond)
		if _, err := io.WriteString(c, next); err != nil {
			t.Fatal(err)
		}
	}
}
