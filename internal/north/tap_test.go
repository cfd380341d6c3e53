package north

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// sse is one event as a client sees it.
type sse struct{ id, retry, data string }

// tap is an open HTTP answer whose events are read as they come.
type tap struct {
	t      testing.TB
	resp   *http.Response
	events chan sse // closed at the end; comments are left out
	err    error    // why it ended, nil for a clean end; after events is closed
	hangUp context.CancelFunc
}

// tap sends a request and reads its answer as events in the background.
func (f *front) tap(verb, body string, header map[string]string) *tap {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	r, err := http.NewRequestWithContext(ctx, verb, f.url+"/mcp", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := f.client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &tap{t: f.t, resp: resp, events: make(chan sse, 5000), hangUp: cancel}
	f.t.Cleanup(cancel)
	go p.read()
	return p
}

func (p *tap) read() {
	defer close(p.events)
	defer p.resp.Body.Close()
	r := bufio.NewReader(p.resp.Body)
	var e sse
	some := false
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.err = err
			}
			return
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && some:
			p.events <- e
			e, some = sse{}, false
		case name == "id":
			e.id, some = value, true
		case name == "retry":
			e.retry, some = value, true
		case name == "data":
			e.data, some = value, true
		}
	}
}

// next is the next event.
func (p *tap) next() sse {
	p.t.Helper()
	select {
	case e, ok := <-p.events:
		if !ok {
			p.t.Fatalf("HTTP %d: the stream has ended: %v", p.resp.StatusCode, p.err)
		}
		return e
	case <-time.After(10 * time.Second):
		p.t.Fatal("no event came")
		return sse{}
	}
}

// ended waits for the end and returns the events that came before it.
func (p *tap) ended() []sse {
	p.t.Helper()
	var rest []sse
	late := time.After(10 * time.Second)
	for {
		select {
		case e, ok := <-p.events:
			if !ok {
				return rest
			}
			rest = append(rest, e)
		case <-late:
			p.t.Fatalf("the stream has not ended; %d events came", len(rest))
		}
	}
}

const listenBody = `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`

// listen opens a modern stream.
func (f *front) listen(more ...string) *tap {
	f.t.Helper()
	h := modernHeaders("subscriptions/listen", "")
	h["Content-Type"], h["Accept"] = "application/json", "application/json, text/event-stream"
	for i := 0; i+1 < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return f.tap(http.MethodPost, listenBody, h)
}
