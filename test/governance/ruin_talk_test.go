package governance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// stream is an answer that is read message by message.
type stream struct {
	Status int
	Header http.Header
	Events chan string // closed at its end
	end    func()
}

// stream sends a request and does not wait for the end of its answer. It ends with the test, or by end.
func (h *house) stream(q *query) *stream {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	own := *q
	own.Context = ctx
	r, err := h.request(&own)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := h.http.Do(r)
	if err != nil {
		cancel()
		h.t.Fatal(err)
	}
	s := &stream{Status: resp.StatusCode, Header: resp.Header, Events: make(chan string, 100)}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(s.Events)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			line := lines.Text()
			if data, is := strings.CutPrefix(line, "data:"); is {
				line = strings.TrimSpace(data)
			}
			if strings.HasPrefix(line, "{") {
				s.Events <- line
			}
		}
	})
	s.end = sync.OnceFunc(func() {
		cancel()
		for range s.Events { // what nobody reads
		}
		reading.Wait()
	})
	h.t.Cleanup(s.end)
	return s
}

// next is the next message of the stream.
func (s *stream) next(t testing.TB) string {
	t.Helper()
	select {
	case m, more := <-s.Events:
		if !more {
			t.Fatal("the stream has ended")
		}
		return m
	case <-time.After(30 * time.Second):
		t.Fatal("nothing comes")
	}
	return ""
}

// line is a client that speaks stdio with a house.
type line struct {
	t   testing.TB
	in  *io.PipeWriter
	out chan string
}

// line connects a client over stdio until the test ends, or end is called.
func (h *house) line() (l *line, end func()) {
	in, toGateway := io.Pipe()
	fromGateway, out := io.Pipe()
	l = &line{t: h.t, in: toGateway, out: make(chan string, 100)}
	var all sync.WaitGroup
	all.Go(func() {
		_ = h.gw.ServeStdio(context.Background(), "default", in, out, 5*time.Second)
		_ = out.Close()
	})
	all.Go(func() {
		defer close(l.out)
		lines := bufio.NewScanner(fromGateway)
		for lines.Buffer(nil, 1<<20); lines.Scan(); {
			l.out <- lines.Text()
		}
	})
	end = sync.OnceFunc(func() {
		_ = toGateway.Close()
		all.Wait()
	})
	h.t.Cleanup(end)
	return l, end
}

// say writes a message.
func (l *line) say(message string) {
	l.t.Helper()
	if _, err := io.WriteString(l.in, message+"\n"); err != nil {
		l.t.Fatal(err)
	}
}

// do sends a request and returns the answer to it.
func (l *line) do(q *query) *reaction {
	l.t.Helper()
	l.say(q.message())
	return l.answer(q.ID)
}

// answer waits for the answer to an id; "": 1.
func (l *line) answer(id string) *reaction {
	l.t.Helper()
	if id == "" {
		id = "1"
	}
	for {
		select {
		case m, more := <-l.out:
			if !more {
				l.t.Fatal("the gateway hung up")
			}
			var is struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if json.Unmarshal([]byte(m), &is) == nil && is.Method == "" && string(is.ID) == id {
				r := &reaction{Status: http.StatusOK, Body: m, Header: http.Header{}}
				r.read(m)
				return r
			}
		case <-time.After(30 * time.Second):
			l.t.Fatalf("no answer to %s", id)
		}
	}
}

// carrier is a way of a client to a gateway.
type carrier struct {
	name string
	do   func(q *query) *reaction
}

// carriers are a modern and a legacy client over each of HTTP and stdio.
func (h *house) carriers() []carrier {
	h.t.Helper()
	session := h.session("2025-11-25", "{}", "")
	modern, _ := h.line()
	legacy, _ := h.line()
	if r := legacy.do(&query{Legacy: true, Method: "initialize", Params: `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`}); r.Result == nil {
		h.t.Fatalf("initialize over stdio: %v", r)
	}
	return []carrier{
		{"modern", h.do},
		{"legacy", func(q *query) *reaction {
			own := *q
			own.Session = session
			return h.do(&own)
		}},
		{"modern stdio", modern.do},
		{"legacy stdio", func(q *query) *reaction {
			own := *q
			own.Legacy = true
			return legacy.do(&own)
		}},
	}
}
