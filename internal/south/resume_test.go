package south

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// broken is a legacy upstream whose call streams first and breaks off; GET with
// Last-Event-ID is answered by again.
func broken(t *testing.T, first string, again func(w http.ResponseWriter, r *http.Request, callID string)) *stub {
	t.Helper()
	var id atomic.Pointer[string]
	return (&stub{legacy: true, on: func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		switch {
		case a.method == "tools/call":
			id.Store(&a.id)
			stream(w)(strings.ReplaceAll(first, "$ID", a.id))
			return true
		case a.verb == http.MethodGet && again != nil:
			again(w, r, *id.Load())
			return true
		}
		return false
	}}).start(t)
}

func TestALegacyStreamIsTakenUpAfterItsLastEvent(t *testing.T) { // checklist 134
	leakless(t)
	var asked []string
	var at []time.Time
	s := broken(t, "id: e1\nretry: 150\ndata:\n\nid: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n/1\"}\n\n", func(w http.ResponseWriter, r *http.Request, id string) {
		asked, at = append(asked, r.Header.Get("Last-Event-Id")), append(at, time.Now())
		write := stream(w)
		if len(asked) == 1 {
			write("id: e3\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n/2\"}\n\n")
			return // breaks off once more
		}
		write("id: e4\ndata: " + strings.ReplaceAll(okResult, "$ID", id) + "\n\n")
	})
	l := link(t, reach(t, s.url), SessionKey{})
	var events []string
	r := toolsCall(l)
	r.OnEvent = func(a *wire.Answer) error { events = append(events, string(a.Method.Of(a.Raw))); return nil }
	began := time.Now()
	if got, err := send(t, l, r); err != nil || !strings.Contains(got, `"result"`) {
		t.Fatalf("%s %v", got, err)
	}
	if d := cmp.Diff([]string{"e2", "e3"}, asked); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{`"n/1"`, `"n/2"`}, events); d != "" {
		t.Error(d)
	}
	if wait := at[0].Sub(began); wait < 150*time.Millisecond {
		t.Errorf("taken up after %v, the upstream asked for 150 ms", wait)
	}
	get := s.got(http.MethodGet)[0]
	if get.header.Get("Mcp-Session-Id") != "s1" || get.header.Get("Mcp-Protocol-Version") != "2025-11-25" || get.header.Get("Accept") != "text/event-stream" {
		t.Errorf("%v", get.header)
	}
	if n := len(s.got("tools/call")); n != 1 {
		t.Errorf("the call was sent %d times", n)
	}
}

// An event is had when its blank line came; the id of one that broke off must
// not be claimed, or the upstream skips it.
func TestAnEventThatBrokeOffIsAskedForAgain(t *testing.T) {
	var asked atomic.Value
	s := broken(t, "id: e1\nretry: 10\ndata:\n\nid: e2\ndata: {\"jsonrpc\":\"2.0\",", func(w http.ResponseWriter, r *http.Request, id string) {
		asked.Store(r.Header.Get("Last-Event-Id"))
		stream(w)("id: e2\ndata: " + strings.ReplaceAll(okResult, "$ID", id) + "\n\n")
	})
	l := link(t, reach(t, s.url), SessionKey{})
	if _, err := send(t, l, toolsCall(l)); err != nil {
		t.Fatal(err)
	}
	if asked.Load() != "e1" {
		t.Errorf("taken up after %q, but e2 never arrived whole", asked.Load())
	}
}

// Whoever passes the stream on may close its own in the same way.
func TestABreakIsToldBeforeItIsWaitedFor(t *testing.T) { // checklist 134
	s := broken(t, "id: e1\nretry: 120\ndata:\n\n", func(w http.ResponseWriter, _ *http.Request, id string) {
		stream(w)("id: e2\ndata: " + strings.ReplaceAll(okResult, "$ID", id) + "\n\n")
	})
	l := link(t, reach(t, s.url), SessionKey{})
	r := toolsCall(l)
	var told []time.Duration
	r.OnBreak = func(retry time.Duration) {
		told = append(told, retry)
		if n := len(s.got(http.MethodGet)); n != 0 {
			t.Errorf("told after %d GET", n)
		}
	}
	if _, err := send(t, l, r); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]time.Duration{120 * time.Millisecond}, told); d != "" {
		t.Error(d)
	}
}

func TestAStreamThatCannotBeTakenUpIsLost(t *testing.T) {
	const first = "id: e1\nretry: 10\ndata:\n\n"
	for what, again := range map[string]func(http.ResponseWriter, *http.Request, string){
		"405":    func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"404":    func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusNotFound) },
		"JSON":   func(w http.ResponseWriter, _ *http.Request, id string) { result(w, id, `{}`) },
		"a cut":  func(http.ResponseWriter, *http.Request, string) { drop() },
		"always": func(w http.ResponseWriter, _ *http.Request, _ string) { stream(w)("id: e1\nretry: 1\ndata:\n\n") },
	} {
		s := broken(t, first, again)
		l := link(t, reach(t, s.url), SessionKey{})
		_, err := send(t, l, toolsCall(l))
		wantCode(t, err, fault.ConnectionLost)
		if n := len(s.got(http.MethodGet)); n > maxResumes || n == 0 {
			t.Errorf("%s: taken up %d times", what, n)
		}
		if n := len(s.got("tools/call")); n != 1 {
			t.Errorf("%s: the call was sent %d times", what, n)
		}
	}
}

func TestWaitingToTakeUpAStreamEndsWithTheCall(t *testing.T) {
	s := broken(t, "id: e1\nretry: 3600000\ndata:\n\n", nil)
	l := link(t, reach(t, s.url), SessionKey{})
	r := toolsCall(l)
	r.Timeout = 150 * time.Millisecond
	began := time.Now()
	_, err := send(t, l, r)
	wantCode(t, err, fault.UpstreamTimeout)
	if time.Since(began) > 3*time.Second {
		t.Errorf("took %v", time.Since(began))
	}
}

func TestAModernStreamIsNotTakenUp(t *testing.T) { // checklist 34, 126
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, _ arrived) { stream(w)("id: e1\nretry: 1\ndata:\n\n") })
	l := link(t, reach(t, s.url), SessionKey{})
	_, err := send(t, l, toolsCall(l))
	wantCode(t, err, fault.ConnectionLost)
	if n := len(s.got(http.MethodGet)); n != 0 {
		t.Errorf("%d GET", n)
	}
}
