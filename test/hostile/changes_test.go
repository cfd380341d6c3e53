package hostile_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	toolsChanged   = "notifications/tools/list_changed"
	promptsChanged = "notifications/prompts/list_changed"
	updated        = "notifications/resources/updated"
)

// bothTelling runs a test against an upstream of each era that tells of changes.
func bothTelling(t *testing.T, f func(t *testing.T, w *telling)) {
	t.Helper()
	bothEras(t, func(t *testing.T, u *upstream) { f(t, u.telling()) })
}

func TestListChangedReachesEveryListenerOnce_contextforge5346(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("one")
		g := open(t, members{"a": w.upstream})
		modern := g.modern("tools/list", "")
		if !strings.Contains(modern.Body, "a__one") {
			t.Fatal(modern)
		}
		ears := g.ears()
		w.listens(t, "toolsListChanged")
		w.change("one", "two")
		for _, h := range ears {
			m := h.want("a new tool", toolsChanged)
			tag := at(m[0], "params", "_meta", "io.modelcontextprotocol/subscriptionId")
			if (h.name == "modern") != (tag == `"l-1"`) {
				t.Errorf("%s: tagged %s", h.name, m[0])
			}
		}
		for _, c := range g.clients() {
			healthy(t, c, "a__two")
			if got := names(t, c, "tools/list"); len(got) != 2 {
				t.Errorf("the list is %v", got)
			}
		}
		for _, h := range ears {
			h.quiet("one change", time.Second)
		}
	})
}

func TestARenamedToolIsForwardedBeforeTheNextCall_toolhive5744(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("old")
		g := serve(t, document(members{"a": w.upstream}, nil, calm+"\nservers: {default: {expose: {tools: {deny: ['*secret*']}}}}"))
		for _, c := range g.clients() {
			healthy(t, c, "a__old")
		}
		ears := g.ears()
		w.listens(t, "toolsListChanged")
		w.change("new")
		for _, h := range ears {
			h.want("a renamed tool", toolsChanged)
		}
		for _, c := range g.clients() {
			healthy(t, c, "a__new")
			wantError(t, c.request("tools/call", `"name":"a__old"`), http.StatusOK, -32602)
		}
		// What this server hides is nobody's business.
		w.change("new", "secret")
		for _, h := range ears {
			h.quiet("a hidden tool", 1500*time.Millisecond)
		}
		for _, c := range g.clients() {
			wantError(t, c.request("tools/call", `"name":"a__secret"`), http.StatusOK, -32602)
		}
	})
}

func TestTheAcknowledgementIsFirstAndHonest_appwrite100(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("one").resource("x:/there")
		mute := newModern(t)
		mute.caps = `{"resources":{}}`
		mute.resource("x:/mute")
		g := open(t, members{"a": w.upstream, "b": mute})
		h, honoured := g.listen("7", `{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["x:/there","x:/mute","x:/nowhere"],"later":{}}`)
		if honoured != `{"toolsListChanged":true,"resourceSubscriptions":["x:/there"]}` {
			t.Errorf("acknowledged: %s", honoured)
		}
		w.tell(promptsChanged, "")
		w.tell(updated, `"uri":"x:/nowhere"`)
		w.tell(updated, `"uri":"x:/there","title":"kept"`)
		m := h.want("what was asked for", updated)
		if m[0] != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/there","title":"kept","_meta":{"io.modelcontextprotocol/subscriptionId":7}}}` &&
			m[0] != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"uri":"x:/there","title":"kept"}}` {
			t.Errorf("the update is %s", m[0])
		}
		h.quiet("what was not", 500*time.Millisecond)
		for _, bad := range []string{`[]`, `{"toolsListChanged":1}`, `{"resourceSubscriptions":"x:/there"}`} {
			wantError(t, g.post(modernBody("1", "subscriptions/listen", `"notifications":`+bad), modernHeaders("subscriptions/listen", "")...), http.StatusOK, -32602)
		}
		r := g.post(modernBody("1", "subscriptions/listen", `"notifications":{"taskIds":["t"]}`), modernHeaders("subscriptions/listen", "")...)
		wantError(t, r, http.StatusBadRequest, -32021)
		r = g.post(modernBody("1", "subscriptions/listen", `"notifications":{}`), append(modernHeaders("subscriptions/listen", ""), "Accept", "application/json")...)
		if r.Status != http.StatusNotAcceptable {
			t.Errorf("a client without streams: %v", r)
		}
	})
}

// The upstream's stream and the client's both end soon after the client has gone,
// and no caller can hold more of them than the bound.
func TestAVanishedListenerIsReleasedAndTheyAreCapped_pythonsdk3493(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("one").resource("x:/r")
		g := serve(t, document(members{"a": w.upstream}, nil, `limits: {streams_per_principal: 3}`))
		s := g.legacy("2025-11-25")
		ears := []*hearing{s.stand()}
		for i := range 2 {
			h, _ := g.listen(fmt.Sprint(i), `{"toolsListChanged":true,"resourceSubscriptions":["x:/r"]}`)
			ears = append(ears, h)
		}
		w.listens(t, "x:/r") // on one stream
		r := g.post(modernBody("9", "subscriptions/listen", `"notifications":{}`), modernHeaders("subscriptions/listen", "")...)
		wantError(t, r, http.StatusServiceUnavailable, -31009)
		other := g.legacy("2025-11-25")
		if r, err := other.do(context.Background(), "GET", "", append(other.headers(), "Accept", "text/event-stream")...); err != nil || r.Status != http.StatusServiceUnavailable {
			t.Errorf("a fourth stream: %v, %v", r, err)
		}
		for _, h := range ears[1:] {
			h.close()
		}
		if r, err := s.do(context.Background(), "DELETE", "", s.headers()...); err != nil || r.Status != http.StatusNoContent {
			t.Errorf("DELETE: %v, %v", r, err)
		}
		ears[0].ended(2 * time.Second)
		eventually(t, "the upstream's stream is closed", 10*time.Second, func() bool { return w.live() == 0 })
		if w.legacy != "" {
			eventually(t, "the resource is unsubscribed from", 5*time.Second, func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.subscribed["x:/r"] == 0
			})
		}
		h, _ := g.listen("10", `{"toolsListChanged":true}`)
		w.listens(t, "toolsListChanged")
		w.change("two")
		h.want("after the others have gone", toolsChanged)
	})
}

func TestAnUpstreamThatComesLateIsAnnounced_kuadrant209(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("late")
		w.start()
		w.server.Config.SetKeepAlivesEnabled(false)
		var up atomic.Bool
		for _, m := range []string{"server/discover", "initialize"} {
			w.handle(m, func(x *exchange) {
				if up.Load() {
					w.honest(x)
					return
				}
				x.reset()
			})
		}
		g := open(t, members{"early": newModern(t).tool("early"), "late": w.upstream})
		if got := names(t, g.client, "tools/list"); len(got) != 1 {
			t.Fatalf("listed: %v", got)
		}
		ears := g.ears()
		time.Sleep(300 * time.Millisecond) // the list as it is now is known to the board
		up.Store(true)
		for _, h := range ears {
			h.want("an upstream that came late", toolsChanged)
		}
		for _, c := range g.clients() {
			healthy(t, c, "late__late")
		}
	})
}

func TestAReloadIsAnnouncedToThoseWhoListen_kuadrant150(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("one")
		second := newModern(t).tool("two")
		doc := func(ns string, both bool) string {
			ups := members{"a": w.upstream}
			if both {
				ups["b"] = second
			}
			return document(ups, map[string]string{"a": "namespace: " + ns}, calm)
		}
		g := serve(t, doc("old", false))
		if got := names(t, g.client, "tools/list"); len(got) != 1 || got[0] != "old__one" {
			t.Fatalf("listed: %v", got)
		}
		ears := g.ears()
		w.listens(t, "toolsListChanged")
		time.Sleep(300 * time.Millisecond) // the list as it is now is known to the board
		g.reload(doc("new", false))
		for _, h := range ears {
			h.want("another prefix", toolsChanged)
		}
		wantError(t, g.request("tools/call", `"name":"old__one"`), http.StatusOK, -32602)
		for _, c := range g.clients() {
			healthy(t, c, "new__one")
		}
		g.reload(doc("new", true))
		for _, h := range ears {
			h.want("one upstream more", toolsChanged)
		}
		// The streams go on, over whichever document.
		w.listens(t, "toolsListChanged")
		w.change("three")
		for _, h := range ears {
			h.want("a change after two reloads", toolsChanged)
			h.quiet("nothing else", 700*time.Millisecond)
		}
		g.reload(doc("new", true))
		for _, h := range ears {
			h.quiet("a reload that changes nothing", 1500*time.Millisecond)
		}
	})
}

func TestUpdatesReachTheSubscriberAlone_contextforge5681(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.resource("x:/a").resource("x:/b")
		g := open(t, members{"u": w.upstream, "other": newModern(t)})
		modern, _ := g.listen("1", `{"resourceSubscriptions":["x:/a"]}`)
		s, idle := g.legacy("2025-11-25"), g.legacy("2025-06-18")
		legacy, bystander := s.stand(), idle.stand()
		if r := s.call("resources/subscribe", `"uri":"x:/b"`); at(r.message(), "result") != "{}" {
			t.Fatalf("subscribe: %v", r)
		}
		w.listens(t, "x:/b")
		w.tell(updated, `"uri":"x:/a"`)
		w.tell(updated, `"uri":"x:/b"`)
		if m := modern.want("its resource", updated); text(m[0], "params", "uri") != "x:/a" {
			t.Error(m)
		}
		if m := legacy.want("its resource", updated); m[0] != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/b"}}` {
			t.Error(m)
		}
		if r := s.call("resources/unsubscribe", `"uri":"x:/b"`); at(r.message(), "result") != "{}" {
			t.Fatalf("unsubscribe: %v", r)
		}
		w.raw(event(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/b"}}`)) // a rude upstream goes on
		for _, h := range []*hearing{modern, legacy, bystander} {
			h.quiet("a resource that nobody is subscribed to", 500*time.Millisecond)
		}
		wantError(t, s.call("resources/subscribe", `"uri":"x:/nowhere"`), http.StatusOK, -32602)
		wantError(t, s.call("resources/subscribe", `"uri":7`), http.StatusOK, -32602)
	})
}

// A lost stream is opened again, and followed by one look at everything.
func TestALostStreamIsReopenedAndWhatItMissedIsTold(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("one").resource("x:/a")
		g := open(t, members{"u": w.upstream})
		modern, _ := g.listen("1", `{"toolsListChanged":true,"resourceSubscriptions":["x:/a"]}`)
		w.listens(t, "toolsListChanged")
		w.listens(t, "x:/a")
		time.Sleep(200 * time.Millisecond)
		w.upstream.mu.Lock()
		w.lists["tools"] = nil
		w.upstream.mu.Unlock()
		w.tool("one", "two") // it does not say so
		w.server.CloseClientConnections()
		got := map[string]bool{}
		for range 2 {
			got[text(modern.next(), "method")] = true
		}
		if !got[toolsChanged] || !got[updated] {
			t.Errorf("after the stream was lost: %v", got)
		}
		modern.quiet("afterwards", time.Second)
	})
}

func TestShutdownSaysGoodbyeToListeners_checklist60(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("one")
		g := open(t, members{"u": w.upstream})
		modern, _ := g.listen(`"bye"`, `{"toolsListChanged":true}`)
		legacy := g.legacy("2025-11-25").stand()
		g.gw.Drain()
		if last := modern.ended(2 * time.Second); at(last, "id") != `"bye"` || text(last, "result", "resultType") != "complete" ||
			at(last, "result", "_meta", "io.modelcontextprotocol/subscriptionId") != `"bye"` {
			t.Errorf("the last message is %q", last)
		}
		if last := legacy.ended(2 * time.Second); last != "" {
			t.Errorf("the legacy stream ends with %q", last)
		}
	})
}
