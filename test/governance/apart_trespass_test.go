package governance_test

import (
	"net/http"
	"slices"
	"strings"
)

// trespass tries what is o's as p, and holds that it is as good as nothing.
func (w *walk) trespass(p, o *party, own *northern) {
	st := w.step
	switch st.What {
	case "other's cursor":
		if c, ok := pick(o.cursors, st.Pick); ok {
			ask := func(cursor string) *request { return modern(st.At, st.Key, c.method, "", `"cursor":"`+cursor+`"`) }
			w.refused(p, ask(c.cursor), ask(other(c.cursor)), http.StatusOK, "-32602")
			if own != nil {
				a, _ := own.call(st.At, st.Key, c.method, `"cursor":"`+c.cursor+`"`)
				w.refused(p, a, own.in(st.At, st.Key, strings.Replace(a.body, c.cursor, other(c.cursor), 1)), http.StatusOK, "-32602")
			}
		}
	case "other's state":
		if s, ok := pick(o.states, st.Pick); ok {
			w.refused(p, s.answering(st.At, st.Key, s.state, "stolen"), s.answering(st.At, st.Key, other(s.state), "stolen"), http.StatusOK, "-32602")
		}
	case "other's question":
		if q, ok := pick(o.questions, st.Pick); ok {
			if own != nil {
				w.refused(p, own.in(st.At, st.Key, answerOf(q.id, "stolen")), own.in(st.At, st.Key, answerOf(other(q.id), "stolen")), http.StatusAccepted, "")
			}
			w.stranger(p, q.session, answerOf(q.id, "stolen"))
		}
	case "other's call":
		if h, ok := pick(o.holds, st.Pick); ok {
			cancel := func(id string) string {
				return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
			}
			if own != nil {
				w.refused(p, own.in(st.At, st.Key, cancel(h.id)), own.in(st.At, st.Key, cancel("999999")), http.StatusAccepted, "")
			}
			if h.session != nil {
				w.stranger(p, h.session, cancel(h.id))
			}
			meta := `,"_meta":{` + asking + `}}}`
			notify := func(id string) *request {
				return &request{
					at: st.At, key: st.Key, verb: http.MethodPost, body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + meta,
					header: []string{"MCP-Protocol-Version", modernVersion, "Mcp-Method", "notifications/cancelled"},
				}
			}
			w.alike(w.send(p, notify(h.id)), w.send(p, notify("999999")))
		}
	case "other's session":
		if s, ok := pick(o.sessions, st.Pick); ok {
			nonce := w.nonce(p)
			for _, body := range []string{
				`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
				`{"jsonrpc":"2.0","id":1,"method":"` + lists[st.Pick%len(lists)] + `","params":{}}`,
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + named(w.tool("echo"), nonce) + `}}`,
				`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x:/shared"}}`,
				`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"emergency"}}`,
			} {
				w.stranger(p, s, body)
			}
		}
	case "other's batch":
		if s, ok := pick(o.sessions, st.Pick); ok {
			w.stranger(p, s, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`)
		}
	case "other's stream":
		if s, ok := pick(o.sessions, st.Pick); ok {
			theirs := s.in(st.At, st.Key, "").with(http.MethodGet)
			w.refused(p, theirs, elsewhere(theirs, s.id), http.StatusNotFound, "-32001")
			if id, ok := pick(o.eventIDs, st.Pick); ok {
				theirs = theirs.with(http.MethodGet, "Last-Event-ID", id)
				w.refused(p, theirs, elsewhere(theirs, s.id), http.StatusNotFound, "-32001")
			}
		}
	case "other's events":
		if id, ok := pick(o.eventIDs, st.Pick); ok && own != nil && own.version == legacyVersion {
			w.refused(p, own.in(own.at, st.Key, "").with(http.MethodGet, "Last-Event-ID", id),
				own.in(own.at, st.Key, "").with(http.MethodGet, "Last-Event-ID", other(id)), http.StatusBadRequest, "-32600")
		}
	case "end other's session":
		if s, ok := pick(o.sessions, st.Pick); ok {
			theirs := s.in(st.At, st.Key, "").with(http.MethodDelete)
			w.refused(p, theirs, elsewhere(theirs, s.id), http.StatusNotFound, "-32001")
		}
	case "other's names":
		if m, ok := pick(o.private, st.Pick); ok {
			w.names(p, own, m)
		}
	}
}

// stranger sends a message in a session of somebody else's, which is as one that there is not.
func (w *walk) stranger(p *party, s *northern, body string) {
	w.Helper()
	theirs := s.in(w.step.At, w.step.Key, body)
	w.refused(p, theirs, elsewhere(theirs, s.id), http.StatusNotFound, "-32001")
}

// elsewhere is the same request in a session that nobody has.
func elsewhere(q *request, session string) *request {
	c := *q
	c.header = append(slices.Clone(q.header), "Mcp-Session-Id", other(session)) // the last one counts
	return &c
}

// names tries what only another's lists have: its tool, its prompt and its resource.
func (w *walk) names(p *party, own *northern, marker string) {
	nobodys := "mark-L999999-" // of no session
	for _, of := range []struct{ method, param, before string }{
		{"tools/call", "name", "l__only_"}, {"prompts/get", "name", "l__only_"}, {"resources/read", "uri", "x:/of/"},
	} {
		ask := func(m string) *request {
			name := of.before + m
			q := modern(w.step.At, w.step.Key, of.method, name, `"`+of.param+`":"`+name+`"`)
			if own != nil && w.step.Pick > 3 {
				q, _ = own.call(w.step.At, w.step.Key, of.method, `"`+of.param+`":"`+name+`"`)
				own.ids--
			}
			q.known = m
			return q
		}
		a, b := w.send(p, ask(marker)), w.send(p, ask(nobodys))
		w.alike(a, b)
		if of.method == "tools/call" && member(a.message(), "error", "code") == "" {
			w.Errorf("%+v: %v", w.step, a)
		}
	}
}
