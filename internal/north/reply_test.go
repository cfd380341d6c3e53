package north

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func itoa(n int) string { return strconv.Itoa(n) }

// exchangeRaw posts one tools/list and returns the raw bytes of the answer,
// head and body, as they came.
func exchangeRaw(t *testing.T, f *front, accept string) (head, body string) {
	t.Helper()
	msg := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`
	_, r := dial(t, strings.TrimPrefix(f.url, "http://"), "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: "+accept+
		"\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nContent-Length: "+itoa(len(msg))+"\r\n\r\n"+msg)
	all, err := io.ReadAll(r)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Logf("connection ended with %v", err) // a reset is one way to cut
	}
	head, body, _ = strings.Cut(string(all), "\r\n\r\n")
	return head, body
}

// An upstream must not be able to write lines of its own into a client's stream.
func TestEventsAreLineSafeAcrossTheirParts(t *testing.T) {
	for _, c := range []struct {
		parts []string
		want  string // "": refused
	}{
		{[]string{`{"a":1}`}, `{"a":1}`},
		{[]string{"{\n\"a\":\r\n1\r}"}, `{ "a":  1 }`},
		{[]string{"{\"a\"", ":\n", "1}"}, `{"a": 1}`},
		{[]string{`{"a":"x`, "\n", `event: evil"}`}, ""},
		{[]string{`{"a":"x`, `y","b":` + "\n" + `"z"}`}, `{"a":"xy","b": "z"}`},
		{[]string{`{"a":"x\`, `"`, "\n", `"}`}, ""},
		{[]string{`{"a":"` + "\r\rdata: {}" + `"}`}, ""},
		{[]string{`{"a":"\\"`, "\n}"}, `{"a":"\\" }`},
	} {
		f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
			parts := make([][]byte, 0, len(c.parts))
			for _, p := range c.parts {
				parts = append(parts, []byte(p))
			}
			return x.Result(parts...)
		}})
		h := modernHeaders("tools/list", "")
		h["Accept"] = "text/event-stream"
		g := f.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+meta+`}}`, h)
		want := "event: message\ndata: " + `{"jsonrpc":"2.0","id":7,"result":` + c.want + "}\n\n"
		if c.want == "" {
			if m := g.message(t); m.Error == nil || m.Error.Code != -31007 || strings.Count(g.body, "\n") > 3 {
				t.Errorf("%q: HTTP %d %q", c.parts, g.status, g.body)
			}
		} else if g.body != want {
			t.Errorf("%q: %q, want %q", c.parts, g.body, want)
		}
	}
}

func TestJSONAnswersAreNotTouched(t *testing.T) {
	const result = "{\n \"a\" :\t9007199254740993, \"b\":\"<\\u003c\",\r\n\"c\":1e400}"
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error { return x.Result([]byte(result)) }})
	g := f.modern("tools/list", "", "")
	if want := `{"jsonrpc":"2.0","id":7,"result":` + result + `}`; g.body != want {
		t.Errorf("%q, want %q", g.body, want)
	}
	if g.header.Get("Content-Length") != itoa(len(g.body)) {
		t.Errorf("%v", g.header)
	}
}

func TestEventsPrecedeTheAnswerInOrder(t *testing.T) {
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		if x.Framed() {
			return errors.New("framed before anything was written")
		}
		for _, m := range []string{`{"n":1}`, `{"n":2}`} {
			if sent, err := x.Event([]byte(m)); !sent || err != nil {
				return errors.Join(errors.New("not sent"), err)
			}
		}
		if !x.Framed() {
			return errors.New("not framed after an event")
		}
		return x.Result([]byte("{\n}"))
	}})
	g := f.modern("tools/list", "", "")
	want := "event: message\ndata: {\"n\":1}\n\nevent: message\ndata: {\"n\":2}\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{ }}\n\n"
	if d := cmp.Diff(want, g.body); d != "" || g.status != 200 || g.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HTTP %d %v %s", g.status, g.header, d)
	}
}

func TestAnErrorAfterEventsIsAnEvent(t *testing.T) {
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		_, err := x.Event([]byte(`{"n":1}`))
		if err != nil {
			return err
		}
		return x.Reply(http.StatusBadRequest, []byte(`{"jsonrpc":"2.0","id":7,"error":{"code":-32021,"message":""}}`))
	}})
	g := f.modern("tools/list", "", "")
	if g.status != 200 || !strings.HasSuffix(g.body, "\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32021,\"message\":\"\"}}\n\n") {
		t.Errorf("HTTP %d %q", g.status, g.body)
	}
}

func TestNoEventsForAClientOfJSONAlone(t *testing.T) {
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		if sent, err := x.Event([]byte(`{"n":1}`)); sent || err != nil {
			return errors.New("sent")
		}
		return x.Result([]byte(`{}`))
	}})
	h := modernHeaders("tools/list", "")
	h["Accept"] = "application/json"
	g := f.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+meta+`}}`, h)
	if g.status != 200 || g.body != `{"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Errorf("HTTP %d %q", g.status, g.body)
	}
}

func streamed(end bool, chunks ...string) *rooms {
	return &rooms{serve: func(_ context.Context, x *Exchange) error {
		w, err := x.Begin()
		if err != nil {
			return err
		}
		for _, c := range chunks {
			if _, err := io.WriteString(w, c); err != nil {
				return err
			}
		}
		if !end {
			return errors.New("the upstream broke off")
		}
		return x.End()
	}}
}

func TestAStreamedAnswerEndsCleanly(t *testing.T) {
	big := strings.Repeat("a", 100<<10)
	f := open(t, streamed(true, `{"a":"`, big, `"}`))
	if g := f.modern("tools/list", "", ""); g.err != nil || g.body != `{"a":"`+big+`"}` || g.header.Get("Content-Length") != "" {
		t.Errorf("%d bytes, %v, %v", len(g.body), g.header, g.err)
	}
	head, body := exchangeRaw(t, f, "text/event-stream")
	if !strings.Contains(head, "text/event-stream") || !strings.HasSuffix(body, "\"}\n\n\r\n0\r\n\r\n") && !strings.HasSuffix(body, "0\r\n\r\n") {
		t.Errorf("%s ... %q", head, body[max(0, len(body)-40):])
	}
}

// DESIGN section 3: after the first byte a duty that fails aborts the connection.
func TestAnAnswerThatFailsMidwayNeverLooksComplete(t *testing.T) {
	for _, chunks := range [][]string{{`{"a":`}, {`{"a":"`, strings.Repeat("a", 100<<10)}} {
		for _, accept := range []string{"application/json", "text/event-stream", "*/*"} {
			f := open(t, streamed(false, chunks...))
			_, body := exchangeRaw(t, f, accept)
			if strings.HasSuffix(body, "0\r\n\r\n") {
				t.Errorf("%s: the body has its last chunk: %q", accept, body[max(0, len(body)-60):])
			}
			if strings.Contains(body, "\n\n") || strings.Contains(body, `"error"`) {
				t.Errorf("%s: something looks complete: %q", accept, body[max(0, len(body)-60):])
			}
		}
	}
}

// Whole events before it do no harm: the client learns what happened to its call
// (checklist section 9).
func TestAFailureAfterEventsIsToldAsTheLastOfThem(t *testing.T) {
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		if _, err := x.Event([]byte(`{"n":1}`)); err != nil {
			return err
		}
		return errors.New("lost")
	}})
	_, body := exchangeRaw(t, f, "*/*")
	if !strings.HasSuffix(body, "0\r\n\r\n") || strings.Count(body, "data: ") != 2 || !strings.Contains(body, `"id":7,"error":{"code":-32603`) {
		t.Errorf("%q", body)
	}
}

func TestAPanicIsAnErrorOfItsOwnRequest(t *testing.T) {
	p := &Principal{}
	f := open(t, &rooms{caller: p, serve: func(_ context.Context, x *Exchange) error {
		switch x.Msg.Method {
		case "tools/list":
			panic("a bug that knows of 10.0.0.9")
		case "tools/call":
			if _, err := x.Event([]byte(`{"n":1}`)); err != nil {
				return err
			}
			panic("a bug after the first byte")
		}
		return x.Result([]byte(`{}`))
	}})
	if g := f.modern("tools/list", "", ""); g.status != 200 || g.code(t) != -32603 || strings.Contains(g.body, "10.0.0.9") {
		t.Errorf("HTTP %d %s %v", g.status, g.body, g.err)
	}
	if g := f.modern("tools/call", "a", `"name":"a"`); g.err != nil || strings.Count(g.body, "data: ") != 2 || !strings.Contains(g.body, `"error":{"code":-32603`) {
		t.Errorf("a panic after an event: HTTP %d %q", g.status, g.body)
	}
	if g := f.legacy(f.initialize("2025-03-26"), `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`); !strings.Contains(g.body, `"id":1,"error":{"code":-32603`) || !strings.Contains(g.body, `"id":2,"result":{}`) {
		t.Errorf("in a batch: HTTP %d %s", g.status, g.body)
	}
	eventually(t, "its place given back", func() bool { return p.tally().inFlight.Load() == 0 })
}
