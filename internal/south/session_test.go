package south

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func key(north string) SessionKey { return SessionKey{Server: "default", North: north} }

func TestAHandshakeIsMadeOnceForAllWhoWaitForIt(t *testing.T) {
	leakless(t)
	s := (&stub{legacy: true, on: func(_ http.ResponseWriter, _ *http.Request, a arrived) bool {
		if a.method == "initialize" {
			time.Sleep(50 * time.Millisecond)
		}
		return false
	}}).start(t)
	u := reach(t, s.url)
	for round := range 2 { // the first key gets the probe's own session
		var wg sync.WaitGroup
		var links [50]*Link
		for i := range links {
			wg.Go(func() {
				l, err := u.Link(t.Context(), key(fmt.Sprint(round)))
				if err != nil {
					t.Errorf("link: %v", err)
				}
				links[i] = l
			})
		}
		wg.Wait()
		if n := len(s.got("initialize")); n != round+1 {
			t.Errorf("%d handshakes for %d keys", n, round+1)
		}
		for _, l := range links {
			if l != links[0] {
				t.Fatal("callers of one key have different links")
			}
		}
	}
}

func TestTheProbesSessionIsAdoptedOnce(t *testing.T) {
	s := (&stub{legacy: true}).start(t)
	u := reach(t, s.url)
	var ids []string
	for i := range 3 {
		l := link(t, u, key(fmt.Sprint(i)))
		if _, err := send(t, l, toolsCall(l)); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range s.got("tools/call") {
		ids = append(ids, a.header.Get("Mcp-Session-Id"))
	}
	slices.Sort(ids)
	if d := cmp.Diff([]string{"s1", "s2", "s3"}, ids); d != "" {
		t.Errorf("sessions are shared or wasted: %s", d)
	}
	if n := len(s.got("initialize")); n != 3 {
		t.Errorf("%d handshakes for 3 keys", n)
	}
}

// DESIGN section 7, T52: what differs in its key never shares a session.
func TestSessionsAreSharedByExactlyOneKey(t *testing.T) {
	s := (&stub{legacy: true}).start(t)
	u := reach(t, s.url)
	keys := []SessionKey{
		{},
		{Server: "a"},
		{Server: "b"},
		{Principal: [32]byte{1}},
		{Principal: [32]byte{31: 1}},
		{Caps: "{}"},
		{North: "n"},
		{Server: "a", Principal: [32]byte{1}, Caps: "{}", North: "n"},
	}
	links := map[*Link]bool{}
	for range 2 {
		for _, k := range keys {
			links[link(t, u, k)] = true
		}
	}
	if len(links) != len(keys) || u.State().Sessions != len(keys) {
		t.Errorf("%d links, %d sessions for %d keys", len(links), u.State().Sessions, len(keys))
	}
}

func TestASessionSpeaksItsRevision(t *testing.T) { // checklist 130 to 132
	for revision, header := range map[string]string{"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": ""} {
		s := (&stub{legacy: true, revision: revision}).start(t)
		u := reach(t, s.url)
		l := link(t, u, key(""))
		if l.Revision.String() != revision {
			t.Errorf("link of revision %s", l.Revision)
		}
		if _, err := send(t, l, toolsCall(l)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"POST server/discover", "POST initialize", "POST notifications/initialized", "POST tools/call"}, s.log()); d != "" {
			t.Error(d)
		}
		for _, a := range s.got("")[2:] {
			if a.header.Get("Mcp-Session-Id") != "s1" || a.header.Get("Mcp-Protocol-Version") != header || a.header.Get("Mcp-Method") != "" || a.header.Get("Mcp-Name") != "" {
				t.Errorf("%s %s: %v", revision, a.method, a.header)
			}
		}
		if first := s.got("initialize")[0]; first.header.Get("Mcp-Protocol-Version") != "" || !strings.Contains(first.body, `"protocolVersion":"2025-11-25","capabilities":{}`) {
			t.Errorf("%v %s", first.header, first.body)
		}
	}
}

// An upstream that restarted has forgotten every session: of many callers one
// makes a new one, all are answered, and no call runs twice.
func TestAForgottenSessionIsHealedOnceForAll(t *testing.T) {
	leakless(t)
	const callers = 50
	var ran atomic.Int32
	var together sync.WaitGroup
	together.Add(callers)
	s := (&stub{legacy: true}).start(t)
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.method != "tools/call" {
			return false
		}
		s.mu.Lock()
		known := s.sessions[r.Header.Get("Mcp-Session-Id")]
		s.mu.Unlock()
		if known {
			ran.Add(1)
		} else {
			together.Done()
			together.Wait() // every caller meets the 404 of the old session
		}
		return false
	}
	u := reach(t, s.url)
	l := link(t, u, key("n"))
	s.amnesia()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if _, err := send(t, l, toolsCall(l)); err != nil {
				t.Errorf("call: %v", err)
			}
		})
	}
	wg.Wait()
	if n := len(s.got("initialize")); n != 2 {
		t.Errorf("%d handshakes; want the first and one more", n)
	}
	if ran.Load() != callers {
		t.Errorf("%d of %d calls ran", ran.Load(), callers)
	}
}

func TestAServerThatSays400ForALostSessionIsHealed(t *testing.T) {
	s := (&stub{legacy: true}).start(t)
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		s.mu.Lock()
		known := s.sessions[r.Header.Get("Mcp-Session-Id")]
		s.mu.Unlock()
		if known || a.method != "tools/call" {
			return false
		}
		plainJSON(w, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)
		return true
	}
	u := reach(t, s.url)
	l := link(t, u, key("n"))
	s.amnesia()
	if got, err := send(t, l, toolsCall(l)); err != nil || !strings.Contains(got, `"result"`) {
		t.Errorf("%s %v", got, err)
	}
}

func TestASessionIsHealedOnceACall(t *testing.T) {
	s := (&stub{legacy: true, on: func(w http.ResponseWriter, _ *http.Request, a arrived) bool {
		if a.method == "tools/call" {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	}}).start(t)
	u := reach(t, s.url)
	l := link(t, u, key("n"))
	_, err := send(t, l, toolsCall(l))
	wantCode(t, err, fault.InvalidAnswer)
	if n := len(s.got("tools/call")); n != 2 {
		t.Errorf("the call was sent %d times", n)
	}
}

func TestAFailedHealingSaysThatNothingRan(t *testing.T) {
	var broken atomic.Bool
	s := (&stub{legacy: true, on: func(http.ResponseWriter, *http.Request, arrived) bool { return false }}).start(t)
	s.on = func(_ http.ResponseWriter, _ *http.Request, a arrived) bool {
		if a.method == "initialize" && broken.Load() {
			drop()
		}
		return false
	}
	u := reach(t, s.url)
	l := link(t, u, key("n"))
	broken.Store(true)
	s.amnesia()
	_, err := send(t, l, toolsCall(l))
	wantCode(t, err, fault.UpstreamUnavailable)
	broken.Store(false)
	l = link(t, u, key("n"))
	if _, err := send(t, l, toolsCall(l)); err != nil {
		t.Errorf("after it recovered: %v", err)
	}
}

// One caller that gives up during a healing must not make the upstream unknown
// to everybody else.
func TestACallerThatLeavesDuringAHealingForgetsNothing(t *testing.T) {
	var slow atomic.Bool
	entered := make(chan struct{}, 10)
	s := (&stub{legacy: true}).start(t)
	s.on = func(_ http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.method == "initialize" && slow.Load() {
			entered <- struct{}{}
			<-r.Context().Done()
			drop()
		}
		return false
	}
	u := reach(t, s.url)
	l := link(t, u, key("n"))
	slow.Store(true)
	s.amnesia()
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := l.Send(ctx, toolsCall(l))
		gone <- err
	}()
	<-entered
	leave()
	if err := <-gone; err == nil {
		t.Error("no error")
	}
	if u.Info() == nil {
		t.Error("the upstream's era is forgotten because a client hung up")
	}
}

func TestEndSessionEndsExactlyOne(t *testing.T) {
	leakless(t)
	s := (&stub{legacy: true}).start(t)
	u := reach(t, s.url)
	for _, n := range []string{"a", "b"} {
		l := link(t, u, key(n))
		if _, err := send(t, l, toolsCall(l)); err != nil {
			t.Fatal(err)
		}
	}
	u.EndSession(key("a"))
	u.EndSession(key("a"))
	u.EndSession(key("never"))
	settle(t, "a DELETE", func() bool { return len(s.got("DELETE")) > 0 })
	if got := s.got("DELETE"); len(got) != 1 || got[0].header.Get("Mcp-Session-Id") != "s1" || got[0].header.Get("Mcp-Protocol-Version") != "2025-11-25" {
		t.Errorf("%+v", got)
	}
	l := link(t, u, key("b"))
	if _, err := send(t, l, toolsCall(l)); err != nil || len(s.got("initialize")) != 2 {
		t.Errorf("the other session: %v, %v", err, s.log())
	}
}

func TestCloseEndsEverySession(t *testing.T) {
	leakless(t)
	s := (&stub{legacy: true}).start(t)
	u := reach(t, s.url)
	for i := range 40 {
		link(t, u, key(fmt.Sprint(i)))
	}
	u.Close(t.Context())
	if n := len(s.got("DELETE")); n != 40 {
		t.Errorf("%d of 40 sessions were ended", n)
	}
	if _, err := u.Link(t.Context(), key("new")); err == nil {
		t.Error("a closed upstream opens a session")
	}
}

func TestAnUnusedProbeSessionIsEndedToo(t *testing.T) {
	s := (&stub{legacy: true}).start(t)
	u := reach(t, s.url)
	u.Wait(t.Context())
	u.Close(t.Context())
	if n := len(s.got("DELETE")); n != 1 {
		t.Errorf("%d DELETE", n)
	}
}

func TestCloseDoesNotWaitForAnUpstreamThatHangs(t *testing.T) {
	leakless(t)
	s := (&stub{legacy: true, on: func(_ http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.verb == http.MethodDelete {
			<-r.Context().Done()
			drop()
		}
		return false
	}}).start(t)
	u := reach(t, s.url)
	link(t, u, key("a"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	u.Close(ctx)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Close took %v", took)
	}
}

func TestIdleSessionsAreEnded(t *testing.T) {
	s := (&stub{legacy: true}).start(t)
	u := reach(t, s.url)
	link(t, u, key("a"))
	u.sweep(time.Now().Add(u.o.IdleSession - time.Minute))
	if n := u.State().Sessions; n != 1 {
		t.Fatalf("%d sessions before their time", n)
	}
	u.sweep(time.Now().Add(u.o.IdleSession + time.Second))
	if n := u.State().Sessions; n != 0 {
		t.Errorf("%d sessions", n)
	}
	settle(t, "a DELETE", func() bool { return len(s.got("DELETE")) == 1 })
	l := link(t, u, key("a"))
	if _, err := send(t, l, toolsCall(l)); err != nil {
		t.Errorf("after the sweep: %v", err)
	}
}

func TestAFailedHandshakeIsNotKept(t *testing.T) {
	var full atomic.Bool
	s := (&stub{legacy: true, on: func(w http.ResponseWriter, _ *http.Request, a arrived) bool {
		if a.method == "initialize" && full.Load() {
			plainJSON(w, 200, `{"jsonrpc":"2.0","id":`+a.id+`,"error":{"code":-32000,"message":"full"}}`)
			return true
		}
		return false
	}}).start(t)
	u := reach(t, s.url)
	link(t, u, key("a"))
	full.Store(true)
	if _, err := u.Link(t.Context(), key("b")); err == nil {
		t.Fatal("no error")
	}
	if n := u.State().Sessions; n != 1 {
		t.Errorf("%d sessions", n)
	}
	full.Store(false)
	link(t, u, key("b"))
}

func TestTheLogLevelIsSetOnceWhereItMeansSomething(t *testing.T) { // checklist 6.1
	for caps, want := range map[string]int{`{"logging":{},"tools":{}}`: 2, `{"tools":{}}`: 0} {
		s := (&stub{legacy: true, caps: caps}).start(t)
		u := reach(t, s.url)
		l := link(t, u, key("a"))
		for _, level := range []string{"", "info", "info", "error", ""} {
			r := toolsCall(l)
			r.Level = level
			if _, err := send(t, l, r); err != nil {
				t.Fatal(err)
			}
		}
		var levels []string
		for _, a := range s.got("logging/setLevel") {
			levels = append(levels, a.body)
		}
		if len(levels) != want || want == 2 && (!strings.Contains(levels[0], `{"level":"info"}`) || !strings.Contains(levels[1], `{"level":"error"}`)) {
			t.Errorf("capabilities %s: %v", caps, levels)
		}
	}
}

func TestIDsNeverRepeat(t *testing.T) { // T53
	a, b := reach(t, "http://127.0.0.1:1/"), reach(t, "http://127.0.0.1:1/")
	seen := map[string]bool{}
	for range 1000 {
		for _, u := range []*Upstream{a, b} {
			id := string(u.nextID(nil))
			if seen[id] || id[0] != '"' {
				t.Fatalf("id %s", id)
			}
			seen[id] = true
		}
	}
}
