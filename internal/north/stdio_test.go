package north

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

// stdioClient is the client's end of a stdio connection.
type stdioClient struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string
	done  chan error
}

func connect(t *testing.T, f *front, drain time.Duration) *stdioClient {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &stdioClient{t: t, in: inW, lines: make(chan string, 1000), done: make(chan error, 1)}
	go func() {
		c.done <- f.h.ServeStdio(t.Context(), "default", inR, outW, drain)
		_ = outW.Close()
	}()
	go func() {
		r := bufio.NewReader(outR)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				close(c.lines)
				return
			}
			c.lines <- line
		}
	}()
	t.Cleanup(func() { _ = inW.Close() })
	return c
}

func (c *stdioClient) send(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(c.in, l+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
}

// next is the next line, without its end.
func (c *stdioClient) next() string {
	c.t.Helper()
	select {
	case l, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the stream has ended")
		}
		return strings.TrimSuffix(l, "\n")
	case <-time.After(10 * time.Second):
		c.t.Fatal("no line came")
		return ""
	}
}

func (c *stdioClient) message() msg {
	c.t.Helper()
	var m msg
	line := c.next()
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		c.t.Fatalf("%q: %v", line, err)
	}
	return m
}

// ask sends one request and returns its answer.
func (c *stdioClient) ask(line string) msg {
	c.t.Helper()
	c.send(line)
	return c.message()
}

func (m msg) code() int {
	if m.Error == nil {
		return 0
	}
	return m.Error.Code
}

const (
	hello   = `{"jsonrpc":"2.0","id":"h","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`
	modernM = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
)

func TestBothErasAreServedOverStdio(t *testing.T) {
	g := &rooms{}
	c := connect(t, build(t, g), time.Second)
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); m.code() != 0 {
		t.Errorf("ping before the handshake: %+v", m.Error)
	}
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); m.code() != -32600 {
		t.Errorf("before the handshake: %+v", m)
	}
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernM + `}}`); m.Result["served"] != "tools/list" {
		t.Errorf("modern: %+v", m)
	}
	if m := c.ask(hello); m.Result["protocolVersion"] != "2025-06-18" || m.ID != "h" {
		t.Errorf("initialize: %+v", m)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":9,"result":{}}`, ``, "  \r")
	if m := c.ask("{\"jsonrpc\":\"2.0\",\t\"id\":9007199254740993,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}\r"); m.Result["served"] != "tools/call" {
		t.Errorf("legacy: %+v", m)
	}
	if m := c.ask(hello); m.code() != -32600 {
		t.Errorf("a second handshake: %+v", m)
	}
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{` + modernM + `}}`); m.Result["served"] != "prompts/list" {
		t.Errorf("modern beside legacy: %+v", m)
	}
	_ = c.in.Close()
	if err := <-c.done; err != nil {
		t.Errorf("the end of the input: %v", err)
	}
	if len(g.gone()) != 1 {
		t.Errorf("%d sessions ended", len(g.gone()))
	}
}

func TestBadLinesAreRefusedAndTheNextOneIsServed(t *testing.T) {
	f := build(t, &rooms{}, func(o *Options) { o.RequestBytes = 100_000 })
	c := connect(t, f, time.Second)
	for line, code := range map[string]int{
		`{`: -32700, `{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}`: -32700, `"x"`: -32600, `[]`: -32600, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`: -32600,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:                                        -32600,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`:                             -32602,
		`{"jsonrpc":"2.0","id":1,"method":"nothing","params":{` + modernM + `}}`:          -32601,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{` + modernM + `}}`: -32601,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2030-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`: -32022,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("y", 100_000) + `"}}`:                                                                             -31008,
	} {
		if m := c.ask(line); m.code() != code {
			t.Errorf("%.80s: %+v, want %d", line, m.Error, code)
		}
	}
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); m.code() != 0 {
		t.Errorf("then: %+v", m.Error)
	}
}

func TestABatchIsServedWithinASessionOfItsRevision(t *testing.T) {
	c := connect(t, build(t, &rooms{}), time.Second)
	c.ask(strings.Replace(hello, "2025-06-18", "2025-03-26", 1))
	c.send(`[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"prompts/list"}]`)
	if got := c.next(); got != `[{"jsonrpc":"2.0","id":1,"result":{"served":"tools/list"}},{"jsonrpc":"2.0","id":2,"result":{"served":"prompts/list"}}]` {
		t.Error(got)
	}
}

func TestRequestsOverStdioRunConcurrentlyAndEventsPrecedeTheirAnswer(t *testing.T) {
	started := make(chan struct{}, 10)
	release := make(chan struct{})
	g := &rooms{serve: func(_ context.Context, x *Exchange) error {
		if !x.Headerless || !x.Framed() {
			return errors.New("not taken for a line")
		}
		started <- struct{}{}
		<-release
		for n := range 3 {
			if sent, err := x.Event(fmt.Appendf(nil, `{"n":%d,"of":%s}`, n, x.ID())); err != nil || !sent {
				return fmt.Errorf("event: %v %w", sent, err)
			}
		}
		w, err := x.Begin()
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := w.Write(x.ID()); err != nil {
				return err
			}
		}
		return x.End()
	}}
	c := connect(t, build(t, g), time.Second)
	for n := range 10 {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%s}}`, n, modernM))
	}
	for range 10 {
		<-started // all of them at once
	}
	close(release)
	seen := map[string]int{}
	for range 40 {
		line := c.next()
		for n := range 10 {
			key := fmt.Sprint(n)
			if strings.HasSuffix(line, `"of":`+key+"}") {
				if want := fmt.Sprintf(`{"n":%d,"of":%d}`, seen[key], n); line != want {
					t.Errorf("%s, want %s", line, want)
				}
				seen[key]++
			} else if line == key+key+key {
				if seen[key] != 3 {
					t.Errorf("the answer of %d came after %d events", n, seen[key])
				}
			}
		}
	}
}

func TestAnAnswerThatFailsHalfwayIsAnErrorAndNoHalfLine(t *testing.T) {
	g := &rooms{serve: func(_ context.Context, x *Exchange) error {
		w, err := x.Begin()
		if err != nil {
			return err
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"half`)
		return errors.New("the upstream is gone")
	}}
	c := connect(t, build(t, g), time.Second)
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernM + `}}`); m.code() != -32603 {
		t.Errorf("%+v", m)
	}
}

func TestLineEndsNeverLeaveWithinAMessage(t *testing.T) {
	g := &rooms{serve: func(_ context.Context, x *Exchange) error {
		return x.Result([]byte("{\"a\":\r\n 1,\n\"b\":\"c\"}"))
	}}
	c := connect(t, build(t, g), time.Second)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernM + `}}`)
	if got := c.next(); got != `{"jsonrpc":"2.0","id":1,"result":{"a":   1, "b":"c"}}` {
		t.Errorf("%q", got)
	}
}

// Checklist 35, 36: one cancelled call ends, unanswered, and no other does.
func TestACancelledRequestEndsUnanswered(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		ended := make(chan string, 10)
		g := &rooms{serve: func(ctx context.Context, x *Exchange) error {
			if x.Msg.Method != "tools/call" {
				return x.Result([]byte(`{}`))
			}
			<-ctx.Done()
			ended <- string(x.ID())
			return fmt.Errorf("given up: %w", ctx.Err())
		}}
		c := connect(t, build(t, g), 100*time.Millisecond)
		meta := modernM
		if legacy {
			c.ask(hello)
			meta = `"x":1`
		}
		for _, id := range []string{`1`, `"1"`, `"a\u0062"`} {
			c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"x",` + meta + `}}`)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
		if got := <-ended; got != `"1"` {
			t.Errorf("%s ended", got)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"ab"}}`)
		if got := <-ended; got != `"a\u0062"` {
			t.Errorf("%s ended", got)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
		if m := c.ask(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`); m.ID != 7.0 {
			t.Errorf("legacy %v: an answer to %v", legacy, m.ID)
		}
		_ = c.in.Close() // the drain cuts what still runs
		if m := c.message(); m.ID != 1.0 || m.code() != -31003 {
			t.Errorf("legacy %v: %+v", legacy, m)
		}
		if err := <-c.done; err != nil {
			t.Error(err)
		}
	}
}

func TestTheEndOfTheInputLetsCallsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &rooms{serve: func(_ context.Context, x *Exchange) error {
			time.Sleep(2 * time.Second)
			return x.Result([]byte(`{}`))
		}}
		c := connect(t, build(t, g), 3*time.Second)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernM + `}}`)
		begun := time.Now()
		_ = c.in.Close()
		if m := c.message(); m.code() != 0 {
			t.Errorf("%+v", m)
		}
		if err := <-c.done; err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("ended after %v, %v", time.Since(begun), err)
		}
	})
}

func TestRequestsBeyondTheBoundOfTheirCallerAreRefused(t *testing.T) {
	release := make(chan struct{})
	g := &rooms{serve: func(_ context.Context, x *Exchange) error { <-release; return x.Result([]byte(`{}`)) }}
	c := connect(t, build(t, g, func(o *Options) { o.InFlight = 2 }), time.Second)
	for n := range 3 {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%s}}`, n, modernM))
	}
	if m := c.message(); m.ID != 2.0 || m.code() != -31009 {
		t.Errorf("%+v", m)
	}
	close(release)
	var ids []any
	for range 2 {
		ids = append(ids, c.message().ID)
	}
	if len(ids) != 2 {
		t.Error(ids)
	}
}

// A session may be idle for so long that the store forgets it; its client is
// still there, and cannot know.
func TestTheSessionOfAQuietClientIsStoredAgain(t *testing.T) {
	f := build(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		return x.Result(fmt.Appendf(nil, `{"id":%q,"revision":%q}`, x.Session.ID, x.Revision))
	}})
	c := connect(t, f, time.Second)
	c.ask(hello)
	first := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if err := f.h.sessions.Delete(t.Context(), first.Result["id"].(string)); err != nil {
		t.Fatal(err)
	}
	again := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
	_ = c.in.Close()
	<-c.done
	if _, err := f.h.sessions.Get(t.Context(), first.Result["id"].(string)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the session is still there: %v", err)
	}
}

func TestAClientThatTakesNothingMoreEndsTheConnection(t *testing.T) {
	f := build(t, &rooms{})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	_ = outR.Close()
	done := make(chan error, 1)
	go func() { done <- f.h.ServeStdio(t.Context(), "default", inR, outW, time.Second) }()
	if _, err := io.WriteString(inW, hello+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !IsGone(err) {
		t.Errorf("error %v", err)
	}
	_ = inW.Close()
}

func TestTheEndOfTheContextEndsTheConnection(t *testing.T) {
	f := build(t, &rooms{})
	inR, inW := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.h.ServeStdio(ctx, "default", inR, io.Discard, time.Second); err != nil {
			t.Error(err)
		}
	})
	cancel()
	wg.Wait()
	_ = inW.Close()
}

func TestAPanicOverStdioIsAnErrorOfItsRequestAlone(t *testing.T) {
	g := &rooms{serve: func(_ context.Context, x *Exchange) error {
		if x.Msg.Method == "tools/list" {
			panic("boom")
		}
		return x.Result([]byte(`{}`))
	}}
	c := connect(t, build(t, g), time.Second)
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernM + `}}`); m.code() != -32603 {
		t.Errorf("%+v", m)
	}
	if m := c.ask(`{"jsonrpc":"2.0","id":2,"method":"prompts/list","params":{` + modernM + `}}`); m.code() != 0 {
		t.Errorf("%+v", m)
	}
}

// However the bytes arrive, lines are those between line ends, the last one
// included, and what is longer than the limit is only told.
func FuzzClientLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), int64(2))
	f.Add(bytes.Repeat([]byte("x"), 3*usual), int64(10))
	f.Fuzz(func(t *testing.T, in []byte, limit int64) {
		if limit < 1 || limit > 1<<20 {
			t.Skip("limits are at least a byte")
		}
		r := bufio.NewReaderSize(iotest.HalfReader(bytes.NewReader(in)), 16)
		want := bytes.SplitAfter(in, []byte{'\n'})
		for _, w := range want {
			got := readLine(r, limit)
			if len(w) == 0 {
				if !errors.Is(got.err, io.EOF) {
					t.Fatalf("at the end: %+v", got)
				}
				return
			}
			if got.err != nil {
				t.Fatal(got.err)
			}
			if over := int64(len(w)) > limit+1; got.over != over || (!over && !bytes.Equal(got.text, w)) {
				t.Fatalf("limit %d: got %q over %v, want %q", limit, got.text, got.over, w)
			}
		}
		if got := readLine(r, limit); !errors.Is(got.err, io.EOF) {
			t.Fatalf("at the end: %+v", got)
		}
	})
}
