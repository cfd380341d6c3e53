package south

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// sizedResult is a response whose message is about n bytes long.
func sizedResult(id string, n int) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"text":"` + strings.Repeat("a", n) + `"}}`
}

func TestAnswersOfAnySizeArriveWhole(t *testing.T) {
	for _, size := range []int{1, 1 << 10, window/2 - 100, window / 2, window - 60, window - 50, window - 40, window, window + 1, 300 << 10, 3 << 20} {
		for form, f := range map[string]func(w http.ResponseWriter, msg string){
			"with a length": func(w http.ResponseWriter, msg string) {
				w.Header().Set("Content-Length", itoa(len(msg)))
				plainJSON(w, 200, msg)
			},
			"chunked":     func(w http.ResponseWriter, msg string) { w.Header().Set("Trailer", "X-A"); plainJSON(w, 200, msg) },
			"as an event": func(w http.ResponseWriter, msg string) { say(w, 200, "text/event-stream", "data: "+msg+"\n\n") },
			"behind events": func(w http.ResponseWriter, msg string) {
				say(w, 200, "text/event-stream", "id: 1\ndata:\n\n: x\ndata: "+msg+"\r\n\r\n")
			},
		} {
			s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) { f(w, sizedResult(a.id, size)) })
			l := link(t, reach(t, s.url), SessionKey{})
			r := toolsCall(l)
			got, err := send(t, l, r)
			if want := sizedResult(string(r.ID), size); err != nil || got != want {
				t.Errorf("%d bytes %s: %d bytes came, want %d; %v", size, form, len(got), len(want), err)
			}
		}
	}
}

func TestLargeAnswersAreNotHeld(t *testing.T) { // DESIGN section 3
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) { plainJSON(w, 200, sizedResult(a.id, 1<<20)) })
	l := link(t, reach(t, s.url), SessionKey{})
	a, err := l.Send(t.Context(), toolsCall(l))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.Whole != nil || a.Rest == nil || len(a.Head) > window {
		t.Errorf("%d bytes are held, %d in the head", len(a.Whole), len(a.Head))
	}
}

// limits.response_bytes: a larger answer fails that call, with its own code.
func TestAnswersBeyondTheBoundAreRefused(t *testing.T) {
	for _, limit := range []int64{1 << 10, 100 << 10} {
		for form, f := range map[string]func(w http.ResponseWriter, msg string){
			"with a length": func(w http.ResponseWriter, msg string) {
				w.Header().Set("Content-Length", itoa(len(msg)))
				plainJSON(w, 200, msg)
			},
			"chunked":     func(w http.ResponseWriter, msg string) { w.Header().Set("Trailer", "X-A"); plainJSON(w, 200, msg) },
			"as an event": func(w http.ResponseWriter, msg string) { say(w, 200, "text/event-stream", "data: "+msg+"\n\n") },
			"as events": func(w http.ResponseWriter, msg string) {
				say(w, 200, "text/event-stream", strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", len(msg)/38)+"data: "+msg+"\n\n")
			},
		} {
			for _, over := range []int{-200, 100, 500 << 10} {
				if form == "as events" && over < 0 {
					continue
				}
				s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) { f(w, sizedResult(a.id, int(limit)+over)) })
				u := reach(t, s.url, func(o *Options) { o.ResponseBytes = limit })
				l := link(t, u, SessionKey{})
				_, err := send(t, l, toolsCall(l))
				want := fault.TooLarge
				if over < 0 {
					want = 0
				}
				if codeOf(err) != int(want) {
					t.Errorf("bound %d, %+d bytes %s: %v; want code %d", limit, over, form, err, want)
				}
				if u.State().Breaker != "closed" {
					t.Errorf("breaker %s", u.State().Breaker)
				}
			}
		}
	}
}

func TestALargeAnswerThatBreaksOffIsALostConnection(t *testing.T) {
	for form, kind := range map[string]string{"JSON": "application/json", "an event": "text/event-stream"} {
		s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) {
			head := sizedResult(a.id, 200<<10)[:150<<10]
			if kind == "text/event-stream" {
				head = "data: " + head
			}
			say(w, 200, kind, head)
			_ = http.NewResponseController(w).Flush()
			drop()
		})
		l := link(t, reach(t, s.url), SessionKey{})
		a, err := l.Send(t.Context(), toolsCall(l))
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		_, err = io.Copy(io.Discard, a.Rest)
		if err == nil {
			t.Fatalf("%s: it looks complete", form)
		}
		wantCode(t, a.Fault(err), fault.ConnectionLost)
		a.Close()
	}
}

func TestALargeNotificationIsRefused(t *testing.T) {
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) {
		say(w, 200, "text/event-stream", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`+strings.Repeat("a", 100<<10)+"\"}}\n\ndata: "+strings.ReplaceAll(okResult, "$ID", a.id)+"\n\n")
	})
	l := link(t, reach(t, s.url), SessionKey{})
	_, err := send(t, l, toolsCall(l))
	wantCode(t, err, fault.InvalidAnswer)
}
