package south

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// canned is a connection that gives out fixed bytes in pieces and then ends.
type canned struct {
	rest  []byte
	piece int
}

func (c *canned) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
func (*canned) Write(p []byte) (int, error)      { return len(p), nil }
func (*canned) Close() error                     { return nil }
func (*canned) LocalAddr() net.Addr              { return nil }
func (*canned) RemoteAddr() net.Addr             { return nil }
func (*canned) SetDeadline(time.Time) error      { return nil }
func (*canned) SetReadDeadline(time.Time) error  { return nil }
func (*canned) SetWriteDeadline(time.Time) error { return nil }

// parsed is what a reader makes of the bytes of a connection.
type parsed struct {
	status int
	length int64
	typ    string
	body   string
}

func readPlain(t *testing.T, raw []byte, verb string, piece int) (p parsed, kept bool, ok bool) {
	h := newPlainHop(hopOptions{dial: func(context.Context, string, string) (net.Conn, error) {
		return &canned{rest: raw, piece: piece}, nil
	}}).(*plainHop)
	defer h.closeIdle()
	resp, err := h.do(context.Background(), &hopRequest{verb: verb, url: mustURL(t, "http://a/")})
	if err != nil {
		return p, false, false
	}
	defer resp.body.Close()
	body, err := io.ReadAll(resp.body)
	return parsed{resp.status, resp.length, resp.contentType, string(body)}, h.idle.len() == 1, err == nil
}

func readStd(raw []byte, verb string) (p parsed, rest []byte, ok bool) {
	r := bufio.NewReader(bytes.NewReader(raw))
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: verb})
		if err != nil {
			return p, nil, false
		}
		if resp.StatusCode < 200 && resp.StatusCode != 101 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return p, nil, false
		}
		rest, _ := io.ReadAll(r)
		return parsed{resp.StatusCode, resp.ContentLength, resp.Header.Get("Content-Type"), string(body)}, rest, true
	}
}

// FuzzResponse: what both our reader and net/http's take, they read alike, in
// whatever pieces it arrives; and a connection is kept only at the very end of
// what net/http takes for the response.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: application/json\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nall of it",
		"HTTP/1.1 200 OK\nContent-Length: 1\ncontent-length: 1\n\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
	} {
		f.Add([]byte(s), uint16(1), false)
		f.Add([]byte(s), uint16(1<<15), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, piece uint16, head bool) {
		verb := "GET"
		if head {
			verb = "HEAD"
		}
		ours, kept, ok := readPlain(t, raw, verb, int(piece)+1)
		whole, _, wholeOK := readPlain(t, raw, verb, 1<<20)
		if ok != wholeOK || ours != whole {
			t.Errorf("in pieces %v %+v, whole %v %+v", ok, ours, wholeOK, whole)
		}
		theirs, rest, theyOK := readStd(raw, verb)
		if !ok || !theyOK {
			return
		}
		if ours != theirs {
			t.Errorf("ours %+v, theirs %+v", ours, theirs)
		}
		if kept && int(piece)+1 >= len(raw) && len(raw) < inSize && len(rest) > 0 {
			t.Errorf("the connection was kept before %q", rest)
		}
	})
}

// FuzzChunks does the same for the bodies alone, which a fuzzer of whole
// responses seldom reaches.
func FuzzChunks(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "00a ;x\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
		"1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\n\r\nHTTP/1.1", "f\r\n", "5\nhello\r\n0\r\n\r\n", "ffffffffffffffff\r\n",
	} {
		f.Add([]byte(s), uint16(0))
		f.Add([]byte(s), uint16(1<<15))
	}
	f.Fuzz(func(t *testing.T, body []byte, piece uint16) {
		raw := append([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), body...)
		ours, _, ok := readPlain(t, raw, "GET", int(piece)+1)
		whole, kept, wholeOK := readPlain(t, raw, "GET", 1<<20)
		if ok != wholeOK || ours != whole {
			t.Errorf("in pieces %v %+v, whole %v %+v", ok, ours, wholeOK, whole)
		}
		theirs, rest, theyOK := readStd(raw, "GET")
		if !ok || !theyOK {
			return
		}
		if ours != theirs {
			t.Errorf("ours %+v, theirs %+v", ours, theirs)
		}
		if kept && len(raw) < inSize && len(rest) > 0 {
			t.Errorf("the connection was kept before %q", rest)
		}
	})
}
