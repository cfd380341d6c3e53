package south

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// rawServer hands each connection to f and closes it afterwards, at the end of
// the test at the latest.
func rawServer(t *testing.T, f func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards conns
		conns []net.Conn
	)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// scripted answers every request on a connection with the same bytes, in
// pieces of the given size, and closes after the last when asked to.
func scripted(answer string, piece int, thenClose bool) func(net.Conn) {
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			for rest := answer; rest != ""; {
				n := min(piece, len(rest))
				if _, err := io.WriteString(c, rest[:n]); err != nil {
					return
				}
				if rest = rest[n:]; rest != "" {
					time.Sleep(50 * time.Microsecond)
				}
			}
			if thenClose {
				return
			}
		}
	}
}

func plainFor(t *testing.T) *plainHop {
	h := newPlainHop(hopOptions{}).(*plainHop)
	t.Cleanup(h.closeIdle)
	return h
}

func (p *idleConns) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func TestResponsesInOddPieces(t *testing.T) {
	long := strings.Repeat("x", 40)
	for name, c := range map[string]struct {
		answer, body string
		kept         int
		surplus      bool
	}{
		"length":         {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 1, false},
		"equal lengths":  {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\nhello", "hello", 1, false},
		"empty":          {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 1, false},
		"no reason":      {"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", "x", 1, false},
		"bare LF":        {"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", "x", 1, false},
		"chunks":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n \r\n00A  \r\nworldworld\r\n0\r\n\r\n", "hello worldworld", 1, false},
		"trailer":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0;x\r\nA: b\r\nC: d\r\n\r\n", "x", 1, false},
		"many small":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 40) + "0\r\n\r\n", long, 1, false},
		"informational":  {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nContent-Length: 9\r\nContent-Type: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", 1, false},
		"no content":     {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "", 1, false},
		"said close":     {"HTTP/1.1 200 OK\r\nConnection: keep-alive, Close\r\nContent-Length: 1\r\n\r\nx", "x", 0, false},
		"old":            {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", "x", 0, false},
		"surplus":        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy", "x", 0, true},
		"big header":     {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 40<<10) + "\r\nContent-Length: 1\r\n\r\nx", "x", 1, false},
		"204 and answer": {"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "", 0, true},
	} {
		for _, piece := range []int{1, 2, 7, 1 << 20} {
			if len(c.answer) > 1<<14 && piece < 100 {
				piece *= 1000
			}
			if c.surplus && piece < 100 {
				continue // what comes after the next request was sent cannot be told from its answer
			}
			t.Run(name, func(t *testing.T) {
				h := plainFor(t)
				u := mustURL(t, "http://"+rawServer(t, scripted(c.answer, piece, false)))
				for range 2 {
					if _, got := fetch(t, h, post(u, "x")); got != c.body {
						t.Fatalf("pieces of %d: body %q, want %q", piece, got, c.body)
					}
				}
				if n := h.idle.len(); n != c.kept {
					t.Errorf("%d connections kept, want %d", n, c.kept)
				}
				h.closeIdle()
			})
		}
	}
}

func TestBodyUntilTheConnectionCloses(t *testing.T) {
	h := plainFor(t)
	u := mustURL(t, "http://"+rawServer(t, scripted("HTTP/1.1 200 OK\r\n\r\nhello", 3, true)))
	if resp, got := fetch(t, h, post(u, "x")); got != "hello" || resp.length != -1 {
		t.Errorf("body %q, length %d", got, resp.length)
	}
}

// TestAnswersThatAreRefused: of what another reader could frame differently
// nothing is taken, and nothing that an upstream sends is read without a bound.
func TestAnswersThatAreRefused(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, answer := range map[string]string{
		"both framings":         ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":           ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"list of lengths":       ok + "Content-Length: 5, 5\r\n\r\nhello",
		"signed length":         ok + "Content-Length: +5\r\n\r\nhello",
		"negative length":       ok + "Content-Length: -5\r\n\r\nhello",
		"hex length":            ok + "Content-Length: 0x5\r\n\r\nhello",
		"empty length":          ok + "Content-Length:\r\n\r\nhello",
		"huge length":           ok + "Content-Length: 99999999999999999999\r\n\r\nhello",
		"other coding":          ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"identity":              ok + "Transfer-Encoding: identity\r\n\r\nhello",
		"chunked twice":         ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"hidden coding":         ok + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n",
		"chunked in HTTP/1.0":   "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"folded line":           ok + "X: a\r\n Content-Length: 5\r\n\r\nhello",
		"folded first line":     ok + " X: a\r\nContent-Length: 5\r\n\r\nhello",
		"space before colon":    ok + "Content-Length : 5\r\n\r\nhello",
		"no name":               ok + ": 5\r\n\r\nhello",
		"no colon":              ok + "Content-Length\r\n\r\nhello",
		"NUL in a value":        ok + "X: a\x00b\r\nContent-Length: 5\r\n\r\nhello",
		"CR in a value":         ok + "X: a\rContent-Length: 1\r\nContent-Length: 5\r\n\r\nhello",
		"other protocol":        "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"no protocol":           "SSH-2.0-OpenSSH_9.9 hello\r\n\r\n",
		"status of two digits":  "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello",
		"status of four digits": "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello",
		"status below 100":      "HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\nhello",
		"switching protocols":   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
		"endless informational": strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100) + ok + "Content-Length: 0\r\n\r\n",
		"huge line":             ok + "X: " + strings.Repeat("x", 70<<10) + "\r\n\r\n",
		"many lines":            ok + strings.Repeat("X: 0123456789\r\n", 5000) + "\r\n",
		"closed at once":        "",
		"closed in the head":    ok + "Content-Length: 5\r\n",
		"closed in the body":    ok + "Content-Length: 5\r\n\r\nhell",
		"closed in a chunk":     ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhell",
		"closed before last":    ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"closed in the trailer": ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: a\r\n",
		"long chunk":            ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
		"short chunk":           ok + "Transfer-Encoding: chunked\r\n\r\n7\r\nhello\r\n0\r\n\r\n",
		"no size":               ok + "Transfer-Encoding: chunked\r\n\r\n;x\r\nhello\r\n0\r\n\r\n",
		"signed size":           ok + "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
		"prefixed size":         ok + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
		"huge size":             ok + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"negative size":         ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"size with a bare LF":   ok + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
		"CR in an extension":    ok + "Transfer-Encoding: chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n",
		"long extension":        ok + "Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("x", 5000) + "\r\nhello\r\n0\r\n\r\n",
		"only overhead":         ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\nx\r\n", 50) + "0\r\n\r\n",
		"endless trailer":       ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: 0123456789\r\n", 5000) + "\r\n",
		"malformed trailer":     ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := plainFor(t)
			u := mustURL(t, "http://"+rawServer(t, scripted(answer, 1<<20, true)))
			r := post(u, "x")
			resp, err := h.do(t.Context(), r)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(resp.body)
				resp.body.Close()
			}
			if err == nil || !r.sent {
				t.Errorf("taken: %q, sent %v", got, r.sent)
			}
			if h.idle.len() != 0 {
				t.Error("the connection was kept")
			}
		})
	}
}

// TestSentRequestIsNotSentAgain: a connection that breaks after the request
// left says nothing of whether it ran.
func TestSentRequestIsNotSentAgain(t *testing.T) {
	var requests atomic.Int32
	u := mustURL(t, "http://"+rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for n := requests.Add(1); ; n = requests.Add(1) {
			if _, err := http.ReadRequest(r); err != nil {
				requests.Add(-1)
				return
			}
			if n%2 == 0 {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}))
	h := plainFor(t)
	get := &hopRequest{verb: "GET", url: u}
	fetch(t, h, get)
	again := &hopRequest{verb: "GET", url: u}
	if _, err := h.do(t.Context(), again); !errors.Is(err, io.ErrUnexpectedEOF) || !again.sent {
		t.Errorf("error %v, sent %v", err, again.sent)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests arrived, want 2", n)
	}
}

// brittle fails writes without taking a byte, as a connection does that broke
// between the look at it and the write.
type brittle struct {
	net.Conn
	broken *atomic.Bool
}

func (b brittle) Write(p []byte) (int, error) {
	if b.broken.Swap(false) {
		return 0, io.ErrClosedPipe
	}
	return b.Conn.Write(p)
}

func TestUnwrittenRequestGoesToANewConnection(t *testing.T) {
	u, conns, _ := countedServer(t, echo)
	var broken atomic.Bool
	h := newPlainHop(hopOptions{dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return brittle{c, &broken}, err
	}})
	defer h.closeIdle()
	fetch(t, h, post(u, "x"))
	broken.Store(true)
	if _, got := fetch(t, h, post(u, "again")); got != "again" {
		t.Errorf("got %q", got)
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	h.closeIdle()
	broken.Store(true)
	r := post(u, "x")
	if _, err := h.do(t.Context(), r); !errors.Is(err, io.ErrClosedPipe) || r.sent {
		t.Errorf("on a new connection: error %v, sent %v", err, r.sent)
	}
}

func TestAnswerOfAnUpstreamThatStoppedReading(t *testing.T) {
	u := mustURL(t, "http://"+rawServer(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
		_, _ = io.CopyN(io.Discard, c, 1000)
	}))
	h := plainFor(t)
	for _, size := range []int{1000, 60 << 10, 64 << 20} {
		r := post(u, "")
		r.body = make([]byte, size)
		// The reset that follows may destroy the answer; a call must end either way.
		if resp, err := h.do(t.Context(), r); err == nil {
			if resp.status != 413 {
				t.Errorf("%d bytes: status %d", size, resp.status)
			}
			resp.body.Close()
		} else if !r.sent {
			t.Errorf("%d bytes: not sent, %v", size, err)
		}
	}
}

func TestSmallRestIsReadOnToKeepTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		kept   int
	}{
		"small rest":    {"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n" + strings.Repeat("x", 3000), 1},
		"small chunks":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1\r\nx\r\n0\r\n\r\n", 1},
		"large rest":    {"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat("x", 9000), 0},
		"large chunk":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2328\r\n" + strings.Repeat("x", 9000) + "\r\n0\r\n\r\n", 0},
		"not yet here":  {"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\nx", 0},
		"chunk to come": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := plainFor(t)
			u := mustURL(t, "http://"+rawServer(t, scripted(c.answer, 1<<20, false)))
			resp, err := h.do(t.Context(), post(u, "x"))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond) // all that is coming has come
			start := time.Now()
			resp.body.Close()
			if took := time.Since(start); took > 500*time.Millisecond {
				t.Errorf("Close waited %v", took)
			}
			if n := h.idle.len(); n != c.kept {
				t.Errorf("%d connections kept, want %d", n, c.kept)
			}
			if _, err := resp.body.Read(make([]byte, 1)); !errors.Is(err, errBodyClosed) {
				t.Errorf("read after close: %v", err)
			}
			h.closeIdle()
		})
	}
}

func TestUnaskedBytesEndAnIdleConnection(t *testing.T) {
	h := plainFor(t)
	var conns atomic.Int32
	u := mustURL(t, "http://"+rawServer(t, func(c net.Conn) {
		conns.Add(1)
		scripted("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood", 1<<20, false)(spoken{c})
	}))
	for range 2 {
		if _, got := fetch(t, h, post(u, "x")); got != "good" {
			t.Errorf("got %q", got)
		}
		time.Sleep(40 * time.Millisecond)
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// spoken says something more a little after each answer.
type spoken struct{ net.Conn }

func (s spoken) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	time.Sleep(20 * time.Millisecond)
	_, _ = io.WriteString(s.Conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
	return n, err
}

// piped makes a hop whose connections are in memory, so that time can be faked.
func piped(o hopOptions, open *atomic.Int32) hop {
	return pipedTo(o, open, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
}

func pipedTo(o hopOptions, open *atomic.Int32, answer string) hop {
	o.dial = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		open.Add(1)
		go func() {
			defer open.Add(-1)
			scripted(answer, 1<<20, false)(far)
		}()
		return near, nil
	}
	return newPlainHop(o)
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		h := piped(hopOptions{idleTimeout: time.Minute}, &open)
		u := mustURL(t, "http://in.memory/")
		hold := func(n int) {
			var all []*hopResponse
			for range n {
				resp, err := h.do(t.Context(), post(u, "x"))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, resp)
			}
			for _, r := range all {
				io.Copy(io.Discard, r.body)
				r.body.Close()
			}
		}
		hold(3)
		time.Sleep(40 * time.Second)
		hold(1)
		time.Sleep(30 * time.Second) // 70 s after the first three, 30 s after the last
		synctest.Wait()
		if n := open.Load(); n != 1 {
			t.Errorf("%d connections open, want the one used last", n)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections open, want none", n)
		}
		hold(2)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections open after the timer was armed again, want none", n)
		}
	})
}

// TestConnectionIsGivenUpBeforeItsPeerDoes: Node closes after 5 s unless told
// otherwise, and a call that crosses the close is lost.
func TestConnectionIsGivenUpBeforeItsPeerDoes(t *testing.T) {
	for _, c := range []struct {
		says  string
		after time.Duration
		open  int32
	}{
		{"timeout=5", 3 * time.Second, 1},
		{"timeout=5", 4 * time.Second, 0},
		{"max=100, Timeout=5", 4 * time.Second, 0},
		{"timeout=0", 0, 0},
		{"timeout=1000", 61 * time.Second, 0},
		{"timeout=-5", 59 * time.Second, 1},
		{"max=100", 59 * time.Second, 1},
	} {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var open atomic.Int32
				h := pipedTo(hopOptions{idleTimeout: time.Minute}, &open, "HTTP/1.1 200 OK\r\nKeep-Alive: "+c.says+"\r\nContent-Length: 1\r\n\r\nx")
				fetch(t, h, post(mustURL(t, "http://in.memory/"), "x"))
				time.Sleep(c.after)
				synctest.Wait()
				if n := open.Load(); n != c.open {
					t.Errorf("%d connections open after %v, want %d", n, c.after, c.open)
				}
				h.closeIdle()
			})
		})
	}
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		h := piped(hopOptions{maxIdle: 2}, &open)
		u := mustURL(t, "http://in.memory/")
		var all []*hopResponse
		for range 5 {
			resp, err := h.do(t.Context(), post(u, "x"))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, resp)
		}
		for _, r := range all[:4] {
			io.Copy(io.Discard, r.body)
		}
		synctest.Wait()
		if n := open.Load(); n != 3 {
			t.Errorf("%d connections open, want two idle and one in use", n)
		}
		h.closeIdle()
		io.Copy(io.Discard, all[4].body)
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections open after closeIdle, want none", n)
		}
	})
}

func TestHostsDoNotShareConnections(t *testing.T) {
	a, aConns, _ := countedServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a") })
	b, bConns, _ := countedServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "b") })
	h := plainFor(t)
	for range 10 {
		_, gotA := fetch(t, h, post(a, "x"))
		_, gotB := fetch(t, h, post(b, "x"))
		if gotA != "a" || gotB != "b" {
			t.Fatalf("got %q and %q", gotA, gotB)
		}
	}
	if aConns.Load() != 1 || bConns.Load() != 1 {
		t.Errorf("%d and %d connections, want one each", aConns.Load(), bConns.Load())
	}
}

func TestRequestURLThatWouldBreakTheHeadIsRefused(t *testing.T) {
	h := plainFor(t)
	u, conns, _ := countedServer(t, echo)
	for _, c := range []struct{ host, query, verb string }{
		{host: "", verb: "POST"},
		{host: "a\r\nX: b", verb: "POST"},
		{host: u.Host, query: "a b", verb: "POST"},
		{host: u.Host, query: "a\r\nX: b", verb: "POST"},
		{host: u.Host, verb: "POST / HTTP/1.1\r\nX: b\r\n\r\nGET"},
	} {
		bad := *u
		bad.Host, bad.RawQuery = c.host, c.query
		r := post(&bad, "x")
		r.verb = c.verb
		if _, err := h.do(t.Context(), r); err == nil || r.sent {
			t.Errorf("%q: error %v, sent %v", c, err, r.sent)
		}
	}
	if conns.Load() != 0 {
		t.Error("a connection was made")
	}
}
