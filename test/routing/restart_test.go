package routing_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// stateAt is the address of an empty store of an engine.
func stateAt(t testing.TB, engine string) string {
	t.Helper()
	switch engine {
	case "sqlite:":
		return engine + filepath.Join(t.TempDir(), "penstock.db")
	case "postgres:":
		return pgtest.Database(t)
	}
	return engine
}

// openStore opens the store of a document until the test ends; closing it before
// is allowed.
func openStore(t testing.TB, document string) *penstock.Store {
	t.Helper()
	s, err := penstock.OpenStore(t.Context(), parsed(t, document), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// S16, under DESIGN section 7: a session is a record in the store. A restart
// revives it and another instance serves it, with its session at the upstream;
// where it is unknown, the answer says so and is never an empty list.
func TestS16SessionsOutliveTheProcessAndAreServedByEveryInstance(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"memory:", "sqlite:", "postgres:"} {
		t.Run(strings.TrimSuffix(engine, ":"), func(t *testing.T) {
			t.Parallel()
			up := peers{"u": {legacy: true, tools: items("tools", "x", "y")}, "v": {tools: items("tools", "x")}}
			doc := document(t, up, "", "state: '"+stateAt(t, engine)+"'")
			store := openStore(t, doc)
			before, end := start(t, doc, store)
			revisions := []string{legacyRevision, "2025-03-26"}
			var clients []*client
			var south []string
			for _, revision := range revisions {
				c := before.legacy(t, "", revision)
				clients, south = append(clients, c), append(south, southOf(t, c, up["u"], "u__x"))
			}
			end()
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			up["u"].forget()

			after, endAfter := start(t, doc, openStore(t, doc))
			defer endAfter()
			if engine == "memory:" {
				for _, c := range clients {
					wantGone(t, "a list", c.at(after).call(t, "tools/list", ""))
					wantGone(t, "a call", c.at(after).named(t, "tools/call", "u__x"))
				}
				return
			}
			for i, c := range clients {
				c := c.at(after)
				if s := southOf(t, c, up["u"], "u__x"); s != south[i] {
					t.Errorf("%s: the session at the upstream became %q, and was %q", revisions[i], s, south[i])
				}
				if got := fmt.Sprint(c.ids(t, "tools/list")); got != "[u__x u__y v__x]" {
					t.Errorf("%s: after the restart the list is %s", revisions[i], got)
				}
			}
			if n := len(ended(up["u"])); n > 0 {
				t.Errorf("the restart ended %d sessions", n)
			}
			if engine == "sqlite:" {
				_, err := penstock.OpenStore(t.Context(), parsed(t, doc), slog.New(slog.DiscardHandler))
				if err == nil || !strings.Contains(err.Error(), "penstock.db") || !strings.Contains(err.Error(), "in use") {
					t.Errorf("a second process's view of the file: %v", err)
				}
				return
			}
			beside, endBeside := start(t, doc, openStore(t, doc))
			defer endBeside()
			instances := []*endpoint{after, beside}
			for n := range 10 {
				for i, c := range clients {
					if s := southOf(t, c.at(instances[n%2]), up["u"], "u__x"); s != south[i] {
						t.Errorf("instance %d, %s: the session at the upstream is %q; want %q", n%2, revisions[i], s, south[i])
					}
				}
			}
			// Ended at one, it is over at the other, and only it.
			if a := clients[0].at(beside).send(t, http.MethodDelete, nil, nil); a.status != http.StatusNoContent {
				t.Fatalf("DELETE: HTTP %d %s", a.status, a.raw)
			}
			waitFor(t, "the session's end at the other instance", func() bool {
				return clients[0].at(after).call(t, "tools/list", "").status == http.StatusNotFound
			})
			wantGone(t, "the ended session", clients[0].at(after).named(t, "tools/call", "u__x"))
			if s := southOf(t, clients[1].at(after), up["u"], "u__x"); s != south[1] {
				t.Errorf("the other client's session at the upstream became %q", s)
			}
		})
	}
}

// DESIGN section 12: a database that is away fails what needs it with the one
// retryable error, and nothing else; when it is back, so is all.
func TestADatabaseThatIsAwayFailsOnlyWhatNeedsIt(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	address, err := server.Create(t.Context(), "penstock")
	if err != nil {
		t.Fatal(err)
	}
	up := peers{"u": {legacy: true, tools: items("tools", "x")}}
	doc := document(t, up, "", "state: '"+address+"'")
	e, end := start(t, doc, openStore(t, doc))
	defer end()
	modern, legacy := e.modern(""), e.legacy(t, "", legacyRevision)
	session := southOf(t, legacy, up["u"], "u__x")
	southOf(t, modern, up["u"], "u__x")
	ready := &client{url: e.base + "/ready", revision: legacyRevision}
	if a := ready.send(t, http.MethodGet, nil, nil); a.status != http.StatusOK {
		t.Errorf("/ready: HTTP %d %s", a.status, a.raw)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	// What was read shortly before may still be answered.
	waitFor(t, "the error of a session that cannot be read", func() bool {
		up["u"].forget()
		return legacy.named(t, "tools/call", "u__x").Result == nil
	})
	a := legacy.named(t, "tools/call", "u__x")
	if a.status != http.StatusServiceUnavailable || a.code() != -31015 || len(up["u"].got("tools/call")) > 0 {
		t.Errorf("a legacy client: HTTP %d %s", a.status, a.raw)
	}
	newcomer := &client{url: e.path(""), revision: legacyRevision}
	if a := newcomer.post(t, []byte(initialize), nil); a.status != http.StatusServiceUnavailable || a.code() != -31015 {
		t.Errorf("initialize: HTTP %d %s", a.status, a.raw)
	}
	southOf(t, modern, up["u"], "u__x")
	if a := ready.send(t, http.MethodGet, nil, nil); a.status != http.StatusServiceUnavailable {
		t.Errorf("/ready: HTTP %d %s", a.status, a.raw)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the session", func() bool { return legacy.named(t, "tools/call", "u__x").Result != nil })
	if s := southOf(t, legacy, up["u"], "u__x"); s != session {
		t.Errorf("after the outage the session at the upstream is %q, and was %q", s, session)
	}
}

func TestASessionStaysAtItsReplicaAfterARestart(t *testing.T) {
	t.Parallel()
	var up []*peer
	var urls []string
	for range 3 {
		p := (&peer{legacy: true, tools: items("tools", "x")}).start(t)
		up, urls = append(up, p), append(urls, "'"+p.url+"'")
	}
	doc := "state: '" + stateAt(t, "sqlite:") + "'\nupstreams:\n  u: {urls: [" + strings.Join(urls, ", ") + "]}\n"
	at := func(c *client) (replica int, session string) {
		for _, p := range up {
			p.forget()
		}
		c.named(t, "tools/call", "u__x")
		for i, p := range up {
			for _, r := range p.got("tools/call") {
				return i, r.header.Get("Mcp-Session-Id")
			}
		}
		t.Fatal("the call reached no replica")
		return
	}
	store := openStore(t, doc)
	e, end := start(t, doc, store)
	type place struct {
		replica int
		session string
	}
	var clients []*client
	var before []place
	for range 6 {
		c := e.legacy(t, "", legacyRevision)
		i, s := at(c)
		clients, before = append(clients, c), append(before, place{i, s})
	}
	end()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	e, end = start(t, doc, openStore(t, doc))
	defer end()
	for n := range clients {
		n = len(clients) - 1 - n
		if i, s := at(clients[n].at(e)); before[n] != (place{i, s}) {
			t.Errorf("client %d: replica %d, session %s; before %+v", n, i, s, before[n])
		}
	}
}
