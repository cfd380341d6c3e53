package north

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// listener is a gateway that serves streams: each says hello, and goodbye.
func listener(ended chan<- error) *rooms {
	return &rooms{serve: func(ctx context.Context, x *Exchange) error {
		if x.Method == nil || !x.Method.Stream {
			return x.Result([]byte(`{}`))
		}
		if _, err := x.Event([]byte(`{"hello":1}`)); err != nil {
			ended <- err
			return err
		}
		err := x.Wait(ctx, nil)
		ended <- err
		if errors.Is(err, ErrStreamsEnd) {
			return x.Result([]byte(`{"bye":1}`))
		}
		return err
	}}
}

func TestAStreamIsNotARequestInFlight(t *testing.T) {
	ended := make(chan error, 10)
	g := listener(ended)
	f := open(t, g, func(o *Options) { o.InFlight, o.Streams = 1, 2 })
	a, b := f.listen(), f.listen()
	a.next()
	b.next()
	if n := f.h.Serving(); n != 0 {
		t.Errorf("%d requests are being served", n)
	}
	if n := f.h.ongoing.Streams(); n != 2 {
		t.Errorf("%d streams are counted", n)
	}
	if got := f.modern("tools/list", "", ""); got.status != 200 {
		t.Errorf("beside the streams: HTTP %d %s", got.status, got.body)
	}
	third := f.listen()
	body, _ := io.ReadAll(third.resp.Body)
	if third.resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("beyond the bound: HTTP %d %s", third.resp.StatusCode, body)
	}
	a.hangUp() // and its place is free
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a vanished client's stream ended with %v", err)
	}
	eventually(t, "one stream", func() bool { return f.h.ongoing.Streams() == 1 })
	f.listen().next()
	eventually(t, "nothing in flight", func() bool { return f.h.Serving() == 0 && g.caller.tally().inFlight.Load() == 0 })
}

// The counts are those of the principal, whichever handler serves its streams.
func TestStreamsAreCountedAcrossHandlers(t *testing.T) {
	ended := make(chan error, 10)
	shared := NewOngoing()
	g := listener(ended)
	change := func(o *Options) { o.Streams, o.Ongoing = 1, shared }
	old := open(t, g, change)
	old.listen().next()
	after := open(t, g, change)
	if p := after.listen(); p.resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("HTTP %d", p.resp.StatusCode)
	}
}

func TestEndSaysGoodbyeToEveryStream(t *testing.T) {
	ended := make(chan error, 10)
	f := open(t, listener(ended))
	two := open2(t, listener(ended), func(o *Options) { o.Ongoing = f.h.ongoing })
	all := []*tap{f.listen(), f.listen(), two.listen()}
	for _, p := range all {
		p.next()
	}
	f.h.ongoing.End()
	for i, p := range all {
		rest := p.ended()
		if p.err != nil || len(rest) != 1 || rest[0].data != `{"jsonrpc":"2.0","id":7,"result":{"bye":1}}` {
			t.Errorf("%d: %+v %v", i, rest, p.err)
		}
	}
	if rest := f.listen().ended(); len(rest) != 2 {
		t.Errorf("a stream that comes late: %+v", rest)
	}
}

func TestAStreamNeedsAClientThatTakesEvents(t *testing.T) {
	f := open(t, listener(make(chan error, 1)))
	p := f.listen("Accept", "application/json")
	body, _ := io.ReadAll(p.resp.Body)
	if p.resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("HTTP %d %s", p.resp.StatusCode, body)
	}
}

func TestAStreamThatWaitsIsKeptAlive(t *testing.T) {
	f := open(t, listener(make(chan error, 1)), func(o *Options) { o.KeepAlive = 20 * time.Millisecond })
	c, r := dial(t, strings.TrimPrefix(f.url, "http://"), "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"+
		"Content-Length: "+itoa(len(listenBody))+"\r\n\r\n"+listenBody)
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	for comments := 0; comments < 3; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, ":") {
			comments++
		}
	}
}

func TestWaitReturnsWhenThereIsSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := build(t, &rooms{})
		x := &Exchange{handler: f.h, out: &lineReply{}}
		wake := make(chan struct{}, 1)
		time.AfterFunc(time.Minute, func() { wake <- struct{}{} })
		begun := time.Now()
		if err := x.Wait(t.Context(), wake); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		close(wake)
		if err := x.Wait(t.Context(), wake); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ErrStreamsEnd)
		if err := x.Wait(ctx, wake); !errors.Is(err, ErrStreamsEnd) {
			t.Errorf("an end that came first: %v", err)
		}
	})
}

// The write deadline bounds each write: a reader that takes nothing is cut off,
// one that has nothing to read is not.
func TestASlowReaderOfAStreamIsCutOffAlone(t *testing.T) {
	for _, secure := range []bool{false, true} {
		ended := make(chan error, 1)
		full := strings.Repeat("a", 64<<10)
		g := &rooms{serve: func(ctx context.Context, x *Exchange) error {
			if x.Header.Get("X-Greedy") == "" {
				for n := 0; ; n++ {
					if _, err := x.Event(fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
						return err
					}
					wake := make(chan struct{})
					defer time.AfterFunc(700*time.Millisecond, func() { close(wake) }).Stop()
					if err := x.Wait(ctx, wake); err != nil {
						return err
					}
				}
			}
			for {
				if _, err := x.Event([]byte(`"` + full + `"`)); err != nil {
					ended <- err
					return err
				}
			}
		}}
		start := open
		if secure {
			start = open2
		}
		f := start(t, g, func(o *Options) { o.WriteTimeout = 300 * time.Millisecond })
		quiet := f.listen()
		quiet.next()
		greedy := f.stuck()
		select {
		case err := <-ended:
			if !IsGone(err) && !errors.Is(err, context.Canceled) {
				t.Errorf("HTTP/2 %v: it ended with %v", secure, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("HTTP/2 %v: the slow reader is still served", secure)
		}
		_ = greedy.Close()
		quiet.next() // longer apart than the deadline
		quiet.next()
	}
}

// stuck opens a stream and reads nothing of it.
func (f *front) stuck() io.Closer {
	f.t.Helper()
	if strings.HasPrefix(f.url, "http://") {
		c, _ := dial(f.t, strings.TrimPrefix(f.url, "http://"), "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nX-Greedy: 1\r\n"+
			"Content-Length: "+itoa(len(listenBody))+"\r\n\r\n"+listenBody)
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		return c
	}
	h := modernHeaders("subscriptions/listen", "")
	h["Content-Type"], h["X-Greedy"] = "application/json", "1"
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+"/mcp", strings.NewReader(listenBody))
	if err != nil {
		f.t.Fatal(err)
	}
	for k, v := range h {
		r.Header.Set(k, v)
	}
	resp, err := f.client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.Body
}

func TestAStreamOverStdio(t *testing.T) {
	ended := make(chan error, 10)
	f := build(t, listener(ended), func(o *Options) { o.InFlight, o.Streams = 1, 2 })
	c := connect(t, f, 5*time.Second)
	open := func(id string) {
		c.send(strings.Replace(listenBody, `"id":7`, `"id":`+id, 1))
	}
	open("1")
	if got := c.next(); got != `{"hello":1}` {
		t.Error(got)
	}
	open("2")
	c.next()
	open("3")
	if m := c.message(); m.ID != 3.0 || m.code() != -31009 {
		t.Errorf("beyond the bound: %+v", m)
	}
	if m := c.ask(`{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{` + modernM + `}}`); m.code() != 0 {
		t.Errorf("beside the streams: %+v", m)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	eventually(t, "one stream", func() bool { return f.h.ongoing.Streams() == 1 })
	begun := time.Now()
	_ = c.in.Close() // which does not wait for streams
	if got := c.next(); got != `{"jsonrpc":"2.0","id":2,"result":{"bye":1}}` {
		t.Error(got)
	}
	if err := <-c.done; err != nil || time.Since(begun) > 3*time.Second {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
}

func TestEndSaysGoodbyeOverStdio(t *testing.T) {
	f := build(t, listener(make(chan error, 1)))
	c := connect(t, f, time.Second)
	c.send(listenBody)
	c.next()
	f.h.ongoing.End()
	if got := c.next(); got != `{"jsonrpc":"2.0","id":7,"result":{"bye":1}}` {
		t.Error(got)
	}
}
