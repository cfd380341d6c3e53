package hostile_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// whole is a complete HTTP response around a message.
func whole(extra, message string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", extra, len(message), message)
}

// keep writes pieces on the bare connection, some time apart, and leaves it open
// until the gateway closes it or the upstream ends.
func (x *exchange) keep(apart time.Duration, pieces ...string) {
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.u.t.Errorf("hijack: %v", err)
		return
	}
	for i, p := range pieces {
		if i > 0 {
			time.Sleep(apart)
		}
		_, _ = io.WriteString(c, p)
	}
	go func() {
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}()
	go func() {
		<-x.u.closed
		_ = c.Close()
	}()
}

func TestAResponseNobodyAskedForIsNobodysAnswer_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		forged := func(x *exchange) string {
			return whole("", `{"jsonrpc":"2.0","id":`+x.ID+`,"result":{"content":[{"type":"text","text":"forged"}]}}`)
		}
		bad := map[string]func(x *exchange, good string){
			"at once":       func(x *exchange, good string) { x.keep(0, whole("", good)+forged(x)+forged(x)) },
			"a while later": func(x *exchange, good string) { x.keep(40*time.Millisecond, whole("", good), forged(x)) },
			"rubbish":       func(x *exchange, good string) { x.keep(0, whole("", good)+"\r\n\r\nrubbish") },
			"a 408": func(x *exchange, good string) {
				x.keep(20*time.Millisecond, whole("", good), "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			},
			"behind chunks": func(x *exchange, good string) {
				x.keep(0, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(good), good)+forged(x))
			},
		}
		for name := range bad {
			u.tool(name)
		}
		u.tool("fine")
		u.handle("tools/call", func(x *exchange) {
			if f := bad[text(x.Params, "name")]; f != nil {
				f(x, x.message(done))
				return
			}
			x.result(`{"content":[{"type":"text","text":"ok"}]}`)
		})
		g := serve(t, document(members{"a": u}, map[string]string{"a": "timeout: 2s, breaker: {failures: 1000, open: 1s}"}, quick+"\nservers: {default: {naming: passthrough}}"))
		for era, c := range g.clients() {
			for name := range bad {
				for range 3 {
					r := c.request("tools/call", `"name":`+quote(name))
					if got := text(r.message(), "result", "content", 0, "text"); got != "ok" {
						t.Errorf("%s %q: the honest half is %v", era, name, r)
					}
					if name != "at once" && name != "behind chunks" {
						time.Sleep(80 * time.Millisecond) // what follows has arrived
					}
					if r := c.request("tools/call", `"name":"fine"`); text(r.message(), "result", "content", 0, "text") != "ok" {
						t.Fatalf("%s: after %q a call got %v", era, name, r)
					}
				}
			}
		}
	})
}

// closing is time for the end of a connection to arrive. A call that is sent
// before cannot know, and must not be sent twice.
const closing = 20 * time.Millisecond

func TestConnectionsThatCloseWhenIdleCostNoCall_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("silently", "with notice", "chunked")
		u.handle("tools/call", func(x *exchange) {
			good := x.message(done)
			switch text(x.Params, "name") {
			case "silently":
				x.bytes(whole("", good))
			case "with notice":
				x.bytes(whole("Connection: close\r\n", good))
			case "chunked":
				x.bytes(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-Trailer: t\r\n\r\n", len(good), good))
			}
		})
		g := through(t, u)
		for era, c := range g.clients() {
			for _, name := range []string{"silently", "with notice", "chunked"} {
				for i := range 20 {
					r := c.request("tools/call", `"name":`+quote(name))
					if text(r.message(), "result", "content", 0, "text") != "ok" {
						t.Fatalf("%s: call %d of %q got %v", era, i, name, r)
					}
					time.Sleep(closing)
				}
			}
		}
	})
}

func TestOddButValidResponsesAreRead_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		raw := map[string]func(good string) string{
			"until the end": func(m string) string {
				return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + m
			},
			"HTTP/1.0": func(m string) string { return "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + m },
			"early hints": func(m string) string {
				return "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + whole("Connection: close\r\n", m)
			},
			"lower-case headers": func(m string) string {
				return fmt.Sprintf("HTTP/1.1 200 ok\r\ncontent-type:application/json\r\ncontent-length:%d\r\nconnection:close\r\n\r\n%s", len(m), m)
			},
			"no reason": func(m string) string {
				return fmt.Sprintf("HTTP/1.1 200 \r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(m), m)
			},
			"charset": func(m string) string {
				return strings.Replace(whole("", m), "application/json", "Application/JSON; charset=\"utf-8\"", 1)
			},
			"chunk extensions": func(m string) string {
				return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x;x=1\r\n%s\r\n0\r\n\r\n", len(m), m)
			},
			"chunks of one": func(m string) string {
				return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunksOfOne(m)
			},
			"stream, CR and CRLF": func(m string) string {
				return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n\ufeff: hi\r\rdata:" + m + "\r\r"
			},
			"stream by chunks": func(m string) string {
				return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunksOfOne("data: "+m+"\r\n\r\n")
			},
			"same length twice": func(m string) string { return whole(fmt.Sprintf("Content-Length: %d\r\n", len(m)), m) },
			"white space":       func(m string) string { return whole("", "\r\n\t "+m+" \r\n") },
		}
		for name := range raw {
			u.tool(name)
		}
		u.handle("tools/call", func(x *exchange) { x.bytes(raw[text(x.Params, "name")](x.message(done))) })
		g := serve(t, document(members{"up": u}, nil, quick+"\nservers: {default: {naming: passthrough}}"))
		for name := range raw {
			t.Run(name, func(t *testing.T) {
				healthy(t, g, name)
				time.Sleep(closing)
			})
		}
	})
}

func TestTwoFramingsOfOneResponseAreNotMixed_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("both", "negative", "plus", "list", "fine")
	u.handle("tools/call", func(x *exchange) {
		good := x.message(done)
		head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
		switch text(x.Params, "name") {
		case "both":
			x.keep(0, head+fmt.Sprintf("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(good), good))
		case "negative":
			x.keep(0, head+"Content-Length: -5\r\n\r\n"+good)
		case "plus":
			x.keep(0, head+fmt.Sprintf("Content-Length: +%d\r\n\r\n%s", len(good), good))
		case "list":
			x.keep(0, head+fmt.Sprintf("Content-Length: %d, 4\r\n\r\n%s", len(good), good))
		default:
			x.result(`{"content":[{"type":"text","text":"ok"}]}`)
		}
	})
	g := serve(t, document(members{"a": u}, patient, quick+"\nservers: {default: {naming: passthrough}}"))
	for _, name := range []string{"both", "negative", "plus", "list"} {
		r := g.modern("tools/call", `"name":"`+name+`"`)
		code := at(r.message(), "error", "code")
		if ok := text(r.message(), "result", "content", 0, "text") == "ok"; code != "-31003" && code != "-31007" && !(ok && name == "both") {
			t.Errorf("%s: %v", name, r)
		}
		for range 3 {
			healthy(t, g, "fine")
		}
	}
}
