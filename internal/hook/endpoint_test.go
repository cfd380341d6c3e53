package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestAnEndpointIsSentWhatTheDocumentationShows(t *testing.T) {
	type seen struct {
		method, path, query, media, accept, user string
		body                                     string
	}
	got := make(chan seen, 1)
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		user, pass, _ := r.BasicAuth()
		got <- seen{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Accept"), user + ":" + pass, string(b)}
		if r.ContentLength != int64(len(b)) {
			t.Errorf("Content-Length is %d for %d bytes", r.ContentLength, len(b))
		}
		saying(`{"decision":"allow"}`)(w, r)
	})
	b := newBench(t, Hook{ID: "dlp", URL: strings.Replace(url, "://", "://me:secret@", 1) + "/decide?k=v"})
	const head = `{"hook":"dlp","event":"%s","principal":{"issuer":"https://issuer","tenant":"acme","subject":"ada","scopes":["mcp","x"]},` +
		`"server":"default","upstream":"github","name":"gh__create_pr","original":"create_pr","arguments":{"n":9007199254740993,"f":1.0}`
	for _, e := range everyEvent {
		c := call(e)
		args, result := string(c.Arguments), string(c.Result)
		rewrote, err := b.Run(t.Context(), c)
		if err != nil || rewrote {
			t.Fatalf("%s: %v, %v", e, rewrote, err)
		}
		want := fmt.Sprintf(head, e)
		if e.after() {
			want += `,"result":` + result
		}
		if s := <-got; s != (seen{"POST", "/decide", "k=v", "application/json", "application/json", "me:secret", want + "}"}) {
			t.Errorf("%s: %+v", e, s)
		}
		if string(c.Arguments) != args || string(c.Result) != result {
			t.Errorf("%s: the call changed: %s %s", e, c.Arguments, c.Result)
		}
	}
}

func TestWhatIsAbsentIsSentAsConfigured(t *testing.T) {
	c := &Call{Event: ResourceAfter, Principal: Principal{Subject: "\"\x01\\"}, Name: "file:///a", Original: "file:///b"}
	want := `{"hook":"h\"","event":"resource.after","principal":{"issuer":"","subject":"\"\u0001\\","scopes":[]},` +
		`"server":"","upstream":"","name":"file:///a","original":"file:///b","arguments":{}}`
	if got := string(appendBody(nil, opening(`h"`, c.Event), c)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	c.Event, c.Result = ResourceBefore, []byte(`{"not":"yet"}`)
	if got := string(appendBody(nil, opening("h", c.Event), c)); strings.Contains(got, "yet") {
		t.Errorf("a result before the call: %s", got)
	}
}

// faulty are endpoints that give no decision, by the failure that it is.
func faulty(t *testing.T) map[string]struct {
	f    http.HandlerFunc
	kind kind
} {
	media := func(values ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = values
			_, _ = io.WriteString(w, `{"decision":"allow"}`)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			if code != http.StatusNoContent {
				_, _ = io.WriteString(w, `{"decision":"allow"}`)
			}
		}
	}
	elsewhere := server(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	raw := func(said string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, said)
			conn.Close()
		}
	}
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	return map[string]struct {
		f    http.HandlerFunc
		kind kind
	}{
		"500":                 {status(500), badStatus},
		"503":                 {status(503), badStatus},
		"201":                 {status(201), badStatus},
		"204":                 {status(204), badStatus},
		"404":                 {status(404), badStatus},
		"text":                {media("text/plain"), badMedia},
		"no media type":       {media(), badMedia},
		"two media types":     {media("application/json", "text/plain"), badMedia},
		"other charset":       {media("application/json; charset=utf-16"), badMedia},
		"event stream":        {media("text/event-stream"), badMedia},
		"rubbish":             {saying("\x00\xff rubbish"), badAnswer},
		"empty":               {saying(""), badAnswer},
		"null":                {saying("null"), badAnswer},
		"trailing":            {saying(`{"decision":"allow"} {}`), badAnswer},
		"other case":          {saying(`{"Decision":"allow"}`), badAnswer},
		"cut at once":         {raw(""), unreachable},
		"no HTTP":             {raw("SSH-2.0-rubbish\r\n"), unreachable},
		"cut in the head":     {raw(ok), unreachable},
		"cut in the body":     {raw(ok + "Content-Length: 20\r\n\r\n{\"decision\":"), unreachable},
		"cut between chunks":  {raw(ok + "Transfer-Encoding: chunked\r\n\r\n14\r\n{\"decision\":\"allow\"}\r\n"), unreachable},
		"announced as huge":   {raw(ok + "Content-Length: 99999999999\r\n\r\n{"), tooLong},
		"switching protocols": {raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), badStatus},
		"huge head":           {raw(ok + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), unreachable},
		"huge body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"decision":"allow","x":"`)
			block := strings.Repeat("x", 32<<10)
			for range 64 { // far beyond max_bytes and what may come with it
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `"}`)
		}, tooLong},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}, badStatus},
		"redirect to itself": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusFound)
		}, badStatus},
	}
}

func TestAnEndpointThatGivesNoDecisionFails(t *testing.T) {
	for name, f := range faulty(t) {
		for _, allow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, allow), func(t *testing.T) {
				url := server(t, f.f)
				b := newBench(t, Hook{ID: "dlp", URL: url + "/secret-path", AllowOnError: allow, MaxBytes: 1000})
				c := call(ToolBefore)
				before := string(c.Arguments)
				rewrote, err := b.Run(t.Context(), c)
				if rewrote || string(c.Arguments) != before {
					t.Errorf("rewritten to %s", c.Arguments)
				}
				if allow {
					if err != nil || b.told() != "dlp tool.before error_allowed" {
						t.Errorf("%v", err)
					}
				} else {
					if code(err) != fault.HookFailed || b.told() != "dlp tool.before error_denied" {
						t.Errorf("%v", err)
					}
					if p := public(err); !strings.Contains(p, `"dlp"`) || !strings.Contains(p, "nothing ran") || strings.Contains(p, "127.0.0.1") {
						t.Errorf("the caller reads %q", p)
					}
					var why *failure
					if !errors.As(err, &why) || why.kind != f.kind {
						t.Errorf("%v, want %q", err, f.kind)
					}
				}
				if log := b.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, string(f.kind)) || !strings.Contains(log, "hook=dlp") {
					t.Errorf("the log says %s", log)
				}
				if strings.Contains(b.log.String()+fmt.Sprint(err), "secret-path") {
					t.Errorf("the URL shows: %s %v", b.log.String(), err)
				}
			})
		}
	}
}

func TestMediaTypesThatAreJSONAreTaken(t *testing.T) {
	for _, media := range []string{"application/json", "application/json; charset=utf-8", `Application/JSON; charset="UTF-8"`} {
		if !isJSON([]string{media}) {
			t.Errorf("%s is refused", media)
		}
	}
}

// blocked is an endpoint that hangs until the test or the caller is over; how
// says what it does before.
func blocked(t *testing.T, how func(w http.ResponseWriter)) string {
	over := make(chan struct{})
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		how(w)
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(over) })
	return url
}

func TestAnEndpointThatHangsIsLeftAtItsDeadline(t *testing.T) {
	for name, how := range map[string]func(http.ResponseWriter){
		"before the head": func(http.ResponseWriter) {},
		"after the head": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
		},
		"within the body": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"decision":"all`)
			_ = http.NewResponseController(w).Flush()
		},
		"dripping": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			for { // it is never silent for long
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				if http.NewResponseController(w).Flush() != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Hook{URL: blocked(t, how), Timeout: 100 * time.Millisecond})
			ctx, cancel := context.WithTimeout(t.Context(), ample)
			defer cancel()
			_, err := b.Run(ctx, call(ToolAfter))
			var why *failure
			if code(err) != fault.HookFailed || !errors.As(err, &why) || why.kind != late {
				t.Errorf("%v", err)
			}
			if !strings.Contains(public(err), "the call itself ran") {
				t.Errorf("the caller reads %q", public(err))
			}
		})
	}
}

func TestACallerThatGoesAwayIsNoFailureOfAnEndpoint(t *testing.T) {
	asked := make(chan struct{}, 100)
	b := newBench(t, Hook{URL: blocked(t, func(http.ResponseWriter) { asked <- struct{}{} })})
	cause := errors.New("gone")
	for range 2 * failuresInARow {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-asked
			cancel(cause)
		}()
		if _, err := b.Run(ctx, call(ToolBefore)); !errors.Is(err, cause) || code(err) != 1 {
			t.Fatal(err)
		}
	}
	if told, log := b.told(), b.log.String(); told != "" || log != "" {
		t.Errorf("told %q, logged %q", told, log)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	var conns atomic.Int32
	peers := make(chan string, 100)
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		peers <- r.RemoteAddr
		saying(`{"decision":"allow"}`)(w, r)
	})
	b := newBench(t, Hook{URL: url})
	known := map[string]bool{}
	for range 20 {
		if _, err := b.Run(t.Context(), call(ToolAfter)); err != nil {
			t.Fatal(err)
		}
		if p := <-peers; !known[p] {
			known[p] = true
			conns.Add(1)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	var now, most atomic.Int32
	release := make(chan struct{})
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		saying(`{"decision":"allow"}`)(w, r)
	})
	b := newBench(t, Hook{URL: url})
	done := make(chan error, 3*mostConns)
	for range cap(done) {
		go func() {
			_, err := b.Run(t.Context(), call(ToolBefore))
			done <- err
		}()
	}
	for deadline := time.Now().Add(ample); now.Load() < mostConns && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	close(release)
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if m := most.Load(); m != mostConns {
		t.Errorf("%d at once", m)
	}
}

// A proxy of the environment would read what principals send. The variables are
// read once in a process, so all that can be shown is that nobody asks for them.
func TestNoProxyIsAsked(t *testing.T) {
	b := newBench(t, Hook{URL: "http://127.0.0.1:1"})
	if b.all[0].way.(*endpoint).client.Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy is asked for")
	}
}

func TestAnEndpointThatComesBackIsAskedAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // nobody listens
	b := newBench(t, Hook{ID: "dlp", URL: "http://" + addr})
	b.all[0].breaker = newBreaker("dlp", 50*time.Millisecond)
	var kinds []kind
	for range failuresInARow + 1 {
		_, err := b.Run(t.Context(), call(ToolBefore))
		var why *failure
		if code(err) != fault.HookFailed || !errors.As(err, &why) {
			t.Fatal(err)
		}
		kinds = append(kinds, why.kind)
	}
	if kinds[0] != unreachable || kinds[failuresInARow-1] != unreachable {
		t.Errorf("%q", kinds)
	}
	l, err = net.Listen("tcp", addr)
	if err != nil {
		t.Skip("somebody else took the port: ", err)
	}
	s := &http.Server{Handler: saying(`{"decision":"allow"}`)}
	go s.Serve(l)
	defer s.Close()
	for deadline := time.Now().Add(ample); ; time.Sleep(10 * time.Millisecond) {
		if _, err = b.Run(t.Context(), call(ToolBefore)); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
	b.Close()
}
