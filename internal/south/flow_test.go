package south

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/wire"
)

func TestEventsArriveInOrderBeforeTheAnswer(t *testing.T) {
	note := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d}}`, n)
	}
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) {
		write := stream(w)
		for i := range 20 {
			write("data: " + note(i) + "\n\n")
		}
		write("data: " + strings.ReplaceAll(okResult, "$ID", a.id) + "\n\ndata: " + note(99) + "\n\n")
	})
	l := link(t, reach(t, s.url), SessionKey{})
	var got, want []string
	for i := range 20 {
		want = append(want, note(i))
	}
	r := toolsCall(l)
	r.OnEvent = func(a *wire.Answer) error { got = append(got, string(a.Raw)); return nil }
	if _, err := send(t, l, r); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	stop := errors.New("the client is gone")
	r = toolsCall(l)
	n := 0
	r.OnEvent = func(*wire.Answer) error { n++; return stop }
	if _, err := send(t, l, r); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%v after %d events", err, n)
	}
}

func TestProgressKeepsACallAlive(t *testing.T) {
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) {
		write := stream(w)
		for range 6 {
			write("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":" + a.id + "}}\n\n")
			time.Sleep(250 * time.Millisecond)
		}
		write("data: " + strings.ReplaceAll(okResult, "$ID", a.id) + "\n\n")
	})
	for total, code := range map[time.Duration]fault.Code{10 * time.Second: 0, time.Second: fault.UpstreamTimeout} {
		l := link(t, reach(t, s.url, func(o *Options) { o.Timeout, o.TimeoutMax = 800*time.Millisecond, total }), SessionKey{})
		r := toolsCall(l)
		r.OnEvent = ignoreEvents
		_, err := send(t, l, r)
		wantCode(t, err, code)
	}
}

func TestRequestsOfALegacyUpstreamAreAnswered(t *testing.T) { // checklist 136 to 138
	answers := make(chan arrived, 10)
	s := (&stub{legacy: true}).start(t)
	s.on = func(w http.ResponseWriter, _ *http.Request, a arrived) bool {
		switch {
		case a.method == "tools/call":
			write := stream(w)
			for i, m := range []string{"ping", "elicitation/create", "roots/list", "sampling/createMessage"} {
				write(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":%q}\n\n", 9007199254740993+i, m))
				<-time.After(10 * time.Millisecond)
			}
			write("data: " + strings.ReplaceAll(okResult, "$ID", a.id) + "\n\n")
			return true
		case a.method == "" && a.verb == "POST":
			answers <- a
		}
		return false
	}
	l := link(t, reach(t, s.url), SessionKey{})
	if got, err := send(t, l, toolsCall(l)); err != nil || !strings.Contains(got, `"result"`) {
		t.Fatalf("%s %v", got, err)
	}
	for i, want := range []string{`"result":{}`, `"code":-32602`, `"code":-32601`, `"code":-32601`} {
		a := <-answers
		if a.id != itoa(9007199254740993+i) || !strings.Contains(a.body, want) || a.header.Get("Mcp-Session-Id") != "s1" {
			t.Errorf("answer %d: %s %v", i, a.body, a.header)
		}
	}
}

func TestARequestOfAModernUpstreamIsNotAnswered(t *testing.T) { // checklist 119
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) {
		stream(w)("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\ndata: " + strings.ReplaceAll(okResult, "$ID", a.id) + "\n\n")
	})
	l := link(t, reach(t, s.url), SessionKey{})
	if _, err := send(t, l, toolsCall(l)); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"POST server/discover", "POST tools/call"}, s.log()); d != "" {
		t.Error(d)
	}
}
