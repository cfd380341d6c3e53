package south

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hopKinds are both hops; whoever uses one must not see which.
var hopKinds = map[string]func(hopOptions) hop{"plain": newPlainHop, "std": newStdHop}

func bothHops(t *testing.T, f func(t *testing.T, h hop)) {
	for name, make := range hopKinds {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			h := make(hopOptions{scheme: "http", static: []field{{"User-Agent", "penstock"}, {"Accept-Encoding", "identity"}}})
			t.Cleanup(func() {
				h.closeIdle()
				noMoreGoroutines(t, before)
			})
			f(t, h)
		})
	}
}

// noMoreGoroutines waits for those that are just ending. Servers must have
// been closed before.
func noMoreGoroutines(t *testing.T, before int) {
	t.Helper()
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}

// countedServer counts the connections it accepts.
func countedServer(t *testing.T, f http.HandlerFunc) (u *url.URL, conns *atomic.Int32, srv *httptest.Server) {
	t.Helper()
	conns = new(atomic.Int32)
	srv = httptest.NewUnstartedServer(f)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return mustURL(t, srv.URL), conns, srv
}

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func post(u *url.URL, body string) *hopRequest {
	return &hopRequest{verb: "POST", url: u, fields: []field{{"Content-Type", "application/json"}}, body: []byte(body)}
}

// fetch does one request and reads its response to the end.
func fetch(t testing.TB, h hop, r *hopRequest) (*hopResponse, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := h.do(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.body.Close()
	b, err := io.ReadAll(resp.body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

func TestOneConnectionServesManyCallsInARow(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		u, conns, _ := countedServer(t, echo)
		for i := range 50 {
			want := fmt.Sprint("call ", i)
			if _, got := fetch(t, h, post(u, want)); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

func TestConnectionThatTheUpstreamClosedIsNotUsed(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		u, conns, srv := countedServer(t, echo)
		for range 20 {
			fetch(t, h, post(u, "x"))
			srv.CloseClientConnections()
			time.Sleep(10 * time.Millisecond) // the end arrives before the next call, as after an idle time
		}
		if n := conns.Load(); n < 20 {
			t.Errorf("%d connections, want at least 20", n)
		}
	})
}

func TestManyCallsAtOnce(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		u, _, _ := countedServer(t, echo)
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				want := strings.Repeat(fmt.Sprint(i, " "), i)
				ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
				defer cancel()
				resp, err := h.do(ctx, post(u, want))
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.body.Close()
				if got, err := io.ReadAll(resp.body); err != nil || string(got) != want {
					t.Errorf("call %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		wg.Wait()
	})
}

func TestLargeBodiesBothWays(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		u, conns, _ := countedServer(t, echo)
		body := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
		for range 3 {
			r := post(u, "")
			r.body = body
			if _, got := fetch(t, h, r); got != string(body) {
				t.Errorf("%d bytes came back of %d, or others", len(got), len(body))
			}
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

func TestAnswerBeforeTheRequestWasRead(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		release := make(chan struct{})
		u, _, _ := countedServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, "too large")
			_ = http.NewResponseController(w).Flush()
			<-release
		})
		defer close(release)
		r := post(u, "")
		r.body = make([]byte, 64<<20) // no socket buffer takes that much
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		resp, err := h.do(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 9)
		if _, err := io.ReadFull(resp.body, got); err != nil || resp.status != 413 || string(got) != "too large" {
			t.Errorf("status %d, %q, %v", resp.status, got, err)
		}
		resp.body.Close()
		clear(r.body) // with -race: nobody reads it any more
	})
}

func TestRefusedFieldsLeaveNothingSent(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		u, conns, _ := countedServer(t, echo)
		for _, f := range []field{
			{"X-A", "a\r\nX-B: b"},
			{"X-A", "a\nb"},
			{"X-A", "a\x00"},
			{"X-A\r\nX-B", "a"},
			{"X A", "a"},
			{"", "a"},
			{"content-length", "1"},
			{"Transfer-Encoding", "chunked"},
			{"Host", "other"},
			{"Connection", "close"},
		} {
			r := post(u, "x")
			r.fields = append(r.fields, f)
			if _, err := h.do(t.Context(), r); err == nil || r.sent {
				t.Errorf("%q: error %v, sent %v", f, err, r.sent)
			}
		}
		if n := conns.Load(); n != 0 {
			t.Errorf("%d connections, want none", n)
		}
	})
}

func TestUnreachableUpstreamWasSentNothing(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		r := post(mustURL(t, "http://"+l.Addr().String()), "x")
		if _, err := h.do(t.Context(), r); err == nil || r.sent {
			t.Errorf("error %v, sent %v", err, r.sent)
		}
	})
}

// seen is what both hops must give alike.
type seen struct {
	Status                                           int
	Type, Encoding, Session, Location, Retry, Body   string
	Length                                           int64
	Method, URI, Host, Agent, Accept, Custom, Cookie string
	RequestLength                                    int64
}

func TestBothHopsGiveTheSameResponses(t *testing.T) {
	big := strings.Repeat("0123456789", 30_000)
	handlers := map[string]http.HandlerFunc{
		"/json": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{}`)
		},
		"/chunked": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			io.WriteString(w, big)
		},
		"/big": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "300000")
			io.WriteString(w, big)
		},
		"/202": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) },
		"/204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"/304": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Etag", `"x"`); w.WriteHeader(304) },
		"/307": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/json"); w.WriteHeader(307) },
		"/429": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "7"); w.WriteHeader(429) },
		"/early": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(103)
			w.WriteHeader(200)
			io.WriteString(w, "x")
		},
		"/session": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Mcp-Session-Id", "s-1")
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "x")
		},
		"/close": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			io.WriteString(w, big)
		},
		"/trailer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-T")
			io.WriteString(w, "x")
			w.Header().Set("X-T", "1")
		},
		"/a%2Fb/%C3%BC": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.EscapedPath()) },
	}
	verbs := []string{"POST", "GET", "DELETE", "HEAD"}
	outcomes := map[string]map[string]seen{}
	bothHops(t, func(t *testing.T, h hop) {
		of := map[string]seen{}
		var now seen
		u, _, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			now = seen{
				Method: r.Method, URI: r.RequestURI, Host: r.Host[:strings.IndexByte(r.Host, ':')], Agent: r.UserAgent(),
				Accept: r.Header.Get("Accept-Encoding"), Custom: strings.Join(r.Header["X-Custom"], "|"), RequestLength: r.ContentLength,
			}
			handlers[strings.TrimSuffix(r.RequestURI, "?q=1&q=%20")](w, r)
		})
		for path := range handlers {
			for _, verb := range verbs {
				r := &hopRequest{verb: verb, url: mustURL(t, u.String()+path+"?q=1&q=%20"), fields: []field{{"X-Custom", "ä"}, {"X-Custom", "b"}}}
				if verb == "POST" {
					r.body = []byte("body")
				}
				resp, body := fetch(t, h, r)
				if !r.sent {
					t.Error("a request that was answered was not sent")
				}
				now.Status, now.Type, now.Encoding, now.Session = resp.status, resp.contentType, resp.contentEncoding, resp.session
				now.Location, now.Retry, now.Body, now.Length = resp.location, resp.retryAfter, body, resp.length
				of[verb+" "+path] = now
			}
		}
		outcomes[t.Name()] = of
	})
	plain, std := outcomes[t.Name()+"/plain"], outcomes[t.Name()+"/std"]
	if len(plain) != len(handlers)*len(verbs) {
		t.Errorf("%d outcomes, want %d", len(plain), len(handlers)*len(verbs))
	}
	if d := cmp.Diff(std, plain); d != "" {
		t.Errorf("std (-) and plain (+) differ:\n%s", d)
	}
}

func TestCancelEndsTheExchangeAtEveryStage(t *testing.T) {
	why := errors.New("the client left")
	stages := map[string]func(net.Conn){
		"no answer":       func(net.Conn) {},
		"half a head":     func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/ev") },
		"no body":         func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n") },
		"half a body":     func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab") },
		"half a chunk":    func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab") },
		"until the close": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nab") },
	}
	body := make([]byte, 64<<20)
	for _, size := range []int{10, 30 << 10, len(body)} {
		for stage, answer := range stages {
			t.Run(fmt.Sprint(stage, " ", size), func(t *testing.T) {
				bothHops(t, func(t *testing.T, h hop) {
					closed := make(chan time.Time, 1)
					addr := rawServer(t, func(c net.Conn) {
						head := make([]byte, 64)
						_, _ = io.ReadFull(c, head)
						answer(c)
						time.Sleep(60 * time.Millisecond) // a large body is being written meanwhile, and not read
						_, _ = io.Copy(io.Discard, c)
						closed <- time.Now()
					})
					ctx, cancel := context.WithCancelCause(context.Background())
					var at time.Time
					timer := time.AfterFunc(50*time.Millisecond, func() { at = time.Now(); cancel(why) })
					defer timer.Stop()
					r := post(mustURL(t, "http://"+addr), "")
					r.body = body[:size]
					resp, err := h.do(ctx, r)
					if err == nil {
						_, err = io.ReadAll(resp.body)
						resp.body.Close()
						if _, err := resp.body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
							t.Errorf("read after close: %v", err)
						}
					}
					took := time.Since(at)
					if !errors.Is(err, why) && !errors.Is(err, context.Canceled) || !r.sent {
						t.Errorf("error %v, sent %v", err, r.sent)
					}
					if took > time.Second {
						t.Errorf("returned %v after the cancel", took)
					}
					select {
					case end := <-closed:
						if late := end.Sub(at); late > time.Second {
							t.Errorf("the upstream learnt of it %v after the cancel", late)
						}
					case <-time.After(5 * time.Second):
						t.Error("the upstream's connection stayed open")
					}
				})
			})
		}
	}
}

// A stream of notifications says nothing for hours, and ends at once when nobody
// wants it any more.
func TestAStreamMayBeIdleAndEndsWithItsContext(t *testing.T) {
	for _, verb := range []string{http.MethodGet, http.MethodPost} {
		bothHops(t, func(t *testing.T, h hop) {
			say, gone := make(chan string), make(chan struct{})
			u, _, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
				defer close(gone)
				_, _ = io.Copy(io.Discard, r.Body)
				write := stream(w)
				for {
					select {
					case s := <-say:
						write(s)
					case <-r.Context().Done():
						return
					}
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := &hopRequest{verb: verb, url: u}
			if verb == http.MethodPost {
				r.body = []byte("{}")
			}
			resp, err := h.do(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.body.Close() }()
			b := make([]byte, 64)
			for range 2 {
				time.AfterFunc(1200*time.Millisecond, func() { say <- "x" })
				if n, err := resp.body.Read(b); n != 1 || err != nil {
					t.Fatalf("%d bytes, %v", n, err)
				}
			}
			time.AfterFunc(50*time.Millisecond, cancel)
			began := time.Now()
			if _, err := resp.body.Read(b); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			select {
			case <-gone:
			case <-time.After(2 * time.Second):
				t.Error("the upstream does not see the end")
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("ended after %v", took)
			}
		})
	}
}

func TestCancelEndsADial(t *testing.T) {
	for name, make := range hopKinds {
		t.Run(name, func(t *testing.T) {
			h := make(hopOptions{scheme: "http", dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}})
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			r := post(mustURL(t, "http://127.0.0.1:1"), "x")
			if _, err := h.do(ctx, r); !errors.Is(err, context.DeadlineExceeded) || r.sent {
				t.Errorf("error %v, sent %v", err, r.sent)
			}
		})
	}
}

func TestClosingABodyEarlyClosesItsConnection(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		gone := make(chan struct{})
		u, _, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, "event\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(gone)
		})
		resp, err := h.do(t.Context(), post(u, "x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.body, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		resp.body.Close()
		resp.body.Close()
		<-gone
		if took := time.Since(start); took > time.Second {
			t.Errorf("the upstream learnt of it after %v", took)
		}
	})
}

func TestNewHopChoosesByURL(t *testing.T) {
	proxy := mustURL(t, "http://127.0.0.1:1")
	for _, c := range []struct {
		o    hopOptions
		want hop
	}{
		{hopOptions{scheme: "http"}, &plainHop{}},
		{hopOptions{scheme: "https"}, &stdHop{}},
		{hopOptions{scheme: "http", proxy: proxy}, &stdHop{}},
	} {
		if got := newHop(c.o); fmt.Sprintf("%T", got) != fmt.Sprintf("%T", c.want) {
			t.Errorf("%+v: %T, want %T", c.o, got, c.want)
		}
	}
}

func TestHTTPSIsReachedOverHTTP2AndNeverInCleartext(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Mcp-Session-Id", r.Proto)
		w.Write(b)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	h := newHop(hopOptions{scheme: "https", tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	defer h.closeIdle()
	r := post(mustURL(t, srv.URL), "secret")
	if resp, body := fetch(t, h, r); body != "secret" || resp.session != "HTTP/2.0" || !r.sent {
		t.Errorf("%+v, %q, sent %v", resp, body, r.sent)
	}
	r = post(mustURL(t, srv.URL), "secret")
	if _, err := newPlainHop(hopOptions{}).do(t.Context(), r); err == nil || r.sent {
		t.Errorf("the plain hop took an https URL: %v, sent %v", err, r.sent)
	}
}
