package hostile_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// withToken is a call that wants progress.
func withToken(c caller, tool, token string) *reply {
	if s, ok := c.(*session); ok {
		return s.call("tools/call", `"name":`+quote(tool)+`,"_meta":{"progressToken":`+token+`}`)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":` + quote(tool) + `,"_meta":{"progressToken":` + token + `,` + meta + `}}}`
	return c.(*client).post(body, modernHeaders("tools/call", tool)...)
}

// progress is a notification of this call, with the token it was given.
func (x *exchange) progress(n int) string {
	return event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":1.0}}`, at(x.Params, "_meta", "progressToken"), n))
}

const done = `"result":{"content":[{"type":"text","text":"ok"}],"resultType":"complete"}`

func TestEventsNorthCarryTheirNameAndSouthNeedNone_toolhive5655(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.handle("tools/call", func(x *exchange) { x.stream("data: " + x.message(done) + "\n\n") })
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			healthy(t, c, "a__t")
			var r *reply
			if s, ok := c.(*session); ok {
				r = s.send(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"a__t"}}`, "Accept", "text/event-stream")
			} else {
				r = g.post(modernBody("77", "tools/call", `"name":"a__t"`), append(modernHeaders("tools/call", "a__t"), "Accept", "text/event-stream")...)
			}
			if len(r.Events) != 1 || !strings.Contains(r.Body, "event: message\n") || at(r.message(), "id") != "77" {
				t.Errorf("%s: %v", era, r)
			}
		}
	})
}

func TestPingsAndCommentsOnTheStreamDoNoHarm_gosdk1175(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.handle("tools/call", func(x *exchange) {
			x.stream(": hello\n\n", "event: ping\n\n", "event: ping\ndata: {}\n\n", "id: 1\ndata:\n\n", "retry: 10\n\n", ":\r\n\r\n", "event: message\r\ndata: "+x.message(done)+"\r\n\r\n")
		})
		for _, verb := range []string{"GET"} {
			u.handle(verb, func(x *exchange) { x.w.WriteHeader(http.StatusServiceUnavailable) })
		}
		g := open(t, members{"a": u})
		for _, c := range g.clients() {
			healthy(t, c, "a__t")
		}
	})
}

func TestAGetThatSendsNothingBlocksNothing_gosdk633(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t").handle("GET", (*exchange).hang)
		g := open(t, members{"a": u})
		start := time.Now()
		for _, c := range g.clients() {
			healthy(t, c, "a__t")
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("connecting took %s", took)
		}
	})
}

func TestPingOfALegacyUpstreamDuringACallIsAnswered_playwright1293(t *testing.T) {
	t.Parallel()
	u := newLegacy(t).tool("t")
	pong := make(chan string, 4)
	u.handle("", func(x *exchange) { // a response has no method
		pong <- string(x.Raw)
		x.w.WriteHeader(http.StatusAccepted)
	})
	u.handle("tools/call", func(x *exchange) {
		x.stream(event(`{"jsonrpc":"2.0","id":"p-1","method":"ping"}`))
		select {
		case got := <-pong:
			if at(got, "id") != `"p-1"` || at(got, "result") != "{}" {
				t.Errorf("the ping was answered with %s", got)
			}
			x.stream(event(x.message(done)))
		case <-time.After(5 * time.Second):
			t.Error("the ping was not answered")
		}
	})
	g := open(t, members{"a": u})
	for _, c := range g.clients() {
		healthy(t, c, "a__t")
	}
	s := g.legacy("2025-11-25")
	if r := s.send(`{"jsonrpc":"2.0","id":"p-1","result":{}}`); r.Status != http.StatusAccepted || r.Body != "" {
		t.Errorf("a client's posted response got %v", r)
	}
}

func TestProgressKeepsItsOrderAndComesBeforeTheResult_aftereffects82(t *testing.T) {
	const count = 100
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.handle("tools/call", func(x *exchange) {
			var all strings.Builder
			for i := range count {
				all.WriteString(x.progress(i + 1))
			}
			// Everything at once, and more behind the result.
			x.stream(all.String() + event(x.message(done)) + x.progress(count+1))
		})
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			for _, token := range []string{`"tok"`, `7`, `"7"`} {
				r := withToken(c, "a__t", token)
				wantResult(t, r)
				if len(r.Events) != count+1 {
					t.Fatalf("%s: %d events: %v", era, len(r.Events), r)
				}
				for i, e := range r.Events[:count] {
					if at(e, "params", "progress") != fmt.Sprint(i+1) || at(e, "params", "progressToken") != token || at(e, "params", "total") != "1.0" {
						t.Fatalf("%s: event %d is %s", era, i, e)
					}
				}
			}
		}
	})
}

func TestProgressArrivesLive_contextforge6647(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		seen := make(chan struct{})
		u.handle("tools/call", func(x *exchange) {
			x.stream(x.progress(1))
			select {
			case <-seen:
				for i := 2; i <= 100; i++ {
					x.stream(x.progress(i))
					time.Sleep(time.Millisecond)
				}
				x.stream(event(x.message(done)))
			case <-time.After(5 * time.Second):
				t.Error("the first event did not reach the client before the call ended")
			}
		})
		g := open(t, members{"a": u})
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__t","_meta":{"progressToken":"p",` + meta + `}}}`
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, g.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		h := append(modernHeaders("tools/call", "a__t"), "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		for i := 0; i < len(h); i += 2 {
			req.Header.Set(h[i], h[i+1])
		}
		resp, err := g.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		var got strings.Builder
		buf := make([]byte, 4096)
		for once := true; ; {
			n, err := resp.Body.Read(buf)
			got.Write(buf[:n])
			if once && strings.Contains(got.String(), `"progress":1,`) {
				once = false
				close(seen)
			}
			if err != nil {
				break
			}
		}
		all := events(got.String())
		if len(all) != 101 || at(all[100], "result") == "" {
			t.Fatalf("%d events, the last is %s", len(all), all[len(all)-1])
		}
		for i, e := range all[:100] {
			if at(e, "params", "progress") != fmt.Sprint(i+1) {
				t.Fatalf("event %d is %s", i, e)
			}
		}
	})
}

func TestANotificationIsNotTakenForTheResponse_typescriptsdk2378(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.handle("tools/call", func(x *exchange) {
			x.stream(
				event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"result":{"content":[]}}}}`),
				event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`),
				event(`{"jsonrpc":"2.0","id":"someone-else","result":{"content":[{"type":"text","text":"wrong"}]}}`),
				event(x.message(done)))
		})
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			r := c.request("tools/call", `"name":"a__t"`)
			if result := wantResult(t, r); text(result, "content", 0, "text") != "ok" {
				t.Errorf("%s: %v", era, r)
			}
			if len(r.Events) > 1 {
				t.Errorf("%s: the client asked for no event and got %v", era, r)
			}
		}
	})
}

func TestProgressInTheVeryFirstRequestDoesNotDeadlock_rustsdk1261(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t")
	u.handle("tools/call", func(x *exchange) { x.stream(x.progress(1), event(x.message(done))) })
	for range 3 { // the first message of a connection, of a client and of the gateway itself
		g := open(t, members{"a": u})
		r := withToken(g.client, "a__t", `1`)
		wantResult(t, r)
		if len(r.Events) != 2 {
			t.Errorf("%v", r)
		}
	}
}
