package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
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

func TestAnEndpointThatReadsNothingIsLeftAtItsDeadline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // what it accepts, nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBench(t, Hook{URL: "http://" + l.Addr().String(), Timeout: 100 * time.Millisecond, MaxBytes: 64 << 20})
	c := call(ToolAfter)
	c.Result = []byte(`{"a":"` + strings.Repeat("x", 16<<20) + `"}`)
	_, err = b.Run(t.Context(), c)
	var why *failure
	if code(err) != fault.HookFailed || !errors.As(err, &why) || why.kind != late {
		t.Error(err)
	}
}

func TestAnEndpointThatProvesNotToBeItselfIsNotTold(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was told") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	b := newBench(t, Hook{URL: s.URL})
	_, err := b.Run(t.Context(), call(ToolBefore))
	var why *failure
	if code(err) != fault.HookFailed || !errors.As(err, &why) || why.kind != unreachable {
		t.Error(err)
	}
}

func TestAnEndpointIsAskedOverTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(saying(`{"decision":"deny","message":"no"}`))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	b := newBench(t, Hook{URL: s.URL})
	b.all[0].way.(*endpoint).client.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	if _, err := b.Run(t.Context(), call(ToolBefore)); code(err) != fault.HookRefused {
		t.Error(err)
	}
}

func TestASetThatWasClosedKeepsNoConnection(t *testing.T) {
	var open atomic.Int32
	s := httptest.NewUnstartedServer(saying(`{"decision":"allow"}`))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	defer s.Close()
	b := newBench(t, Hook{URL: s.URL})
	for range 2 { // it may be asked again, by calls that still run
		if _, err := b.Run(t.Context(), call(ToolBefore)); err != nil {
			t.Fatal(err)
		}
		b.Close()
		for deadline := time.Now().Add(ample); open.Load() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it keeps a connection")
			}
		}
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

func TestConnectionsAreBoundedAndAllAreKept(t *testing.T) {
	var now, most, conns atomic.Int32
	release := make(chan chan struct{}, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		all := <-release
		release <- all
		<-all
		saying(`{"decision":"allow"}`)(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	b := newBench(t, Hook{URL: s.URL})
	b.all[0].way.(*endpoint).client.Transport.(*http.Transport).IdleConnTimeout = 0 // a slow machine takes long
	for range 2 {
		all := make(chan struct{})
		release <- all
		done := make(chan error, 3*mostConns)
		for range cap(done) {
			go func() {
				_, err := b.Run(t.Context(), call(ToolBefore))
				done <- err
			}()
		}
		for deadline := time.Now().Add(ample / 2); now.Load() < mostConns && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		close(all)
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		<-release
	}
	// The client may replace one now and then; kept badly, it would be twice as many.
	if m, c := most.Load(), conns.Load(); m != mostConns || c > mostConns+mostConns/4 {
		t.Errorf("%d at once, %d connections", m, c)
	}
	b.Close()
}

func TestAnAnswerWithoutEndIsNotReadOn(t *testing.T) {
	wrote := make(chan int, 1)
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		n := 0
		defer func() { wrote <- n }()
		for block := make([]byte, 32<<10); n < 512<<20; {
			m, err := w.Write(block)
			if n += m; err != nil {
				return
			}
		}
	})
	b := newBench(t, Hook{URL: url, MaxBytes: 1000})
	_, err := b.Run(t.Context(), call(ToolBefore))
	var why *failure
	if !errors.As(err, &why) || why.kind != tooLong {
		t.Error(err)
	}
	if n := <-wrote; n > 128<<20 { // what sockets buffer, with much to spare
		t.Errorf("%d bytes were taken", n)
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
