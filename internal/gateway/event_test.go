package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// streams makes an upstream answer tools/call with events, the last of them
// the result; $ID stands for the id.
func streams(events ...string) func(responseWriter, *request, heard) bool {
	return func(w responseWriter, _ *request, h heard) bool {
		if h.method != "tools/call" {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range append(events, `{"jsonrpc":"2.0","id":$ID,"result":{}}`) {
			e = strings.ReplaceAll(strings.ReplaceAll(e, "$ID", h.id), "\n", "\ndata: ")
			_, _ = w.Write([]byte("event: message\ndata: " + e + "\n\n"))
		}
		return true
	}
}

// data are the messages of an event stream.
func (o out) data() (all []string) {
	for e := range strings.SplitSeq(strings.TrimSuffix(o.body, "\n\n"), "\n\n") {
		all = append(all, strings.TrimPrefix(e, "event: message\ndata: "))
	}
	return all
}

// Checklist 62, 63, T30: what a request asked for comes before its answer, in
// order; nothing else does.
func TestNotificationsOfACallAreRelayedToThatCallAlone(t *testing.T) {
	const (
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":1e0,"x":9007199254740993}}`
		foreign  = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"other","progress":1}}`
		info     = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"i"}}`
		failure  = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"e"}}`
		changed  = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		asked    = `{"jsonrpc":"2.0","id":5,"method":"roots/list"}`
	)
	for _, legacy := range []bool{false, true} {
		u := &up{legacy: legacy, on: streams(progress, foreign, info, failure, "{\n\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"alert\"}}", changed, asked, progress)}
		h := serving(t, map[string]*up{"u": u})
		for _, c := range []struct {
			what, meta, accept string
			want               []string // without the result
		}{
			{"nothing asked for", "", "application/json, text/event-stream", nil},
			{"progress", `,"progressToken":7`, "application/json, text/event-stream", []string{
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1e0,"x":9007199254740993}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1e0,"x":9007199254740993}}`,
			}},
			{"errors", `,"io.modelcontextprotocol/logLevel":"error"`, "text/event-stream", []string{failure, `{ "jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert"}}`}},
			{"all", `,"progressToken":"7","io.modelcontextprotocol/logLevel":"debug"`, "*/*", []string{
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"7","progress":1e0,"x":9007199254740993}}`,
				info, failure, `{ "jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert"}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"7","progress":1e0,"x":9007199254740993}}`,
			}},
			{"all, to a client of JSON", `,"progressToken":7,"io.modelcontextprotocol/logLevel":"debug"`, "application/json", nil},
		} {
			g := h.raw("tools/call", "u__add", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u__add",`+metaOpen+c.meta+`}}}`, "Accept", c.accept)
			stream := len(c.want) > 0 || c.accept == "text/event-stream"
			if isStream := g.header.Get("Content-Type") == "text/event-stream"; isStream != stream {
				t.Errorf("%s: %s", c.what, g.header.Get("Content-Type"))
				continue
			}
			got := g.data()
			if d := cmp.Diff(c.want, got[:len(got)-1], cmp.Transformer("nil", func(s []string) string { return strings.Join(s, "\n") })); d != "" {
				t.Errorf("legacy upstream %v, %s: %s", legacy, c.what, d)
			}
			if !strings.HasPrefix(got[len(got)-1], `{"jsonrpc":"2.0","id":1,"result":{`) {
				t.Errorf("%s: the last message is %s", c.what, got[len(got)-1])
			}
		}
	}
}

func TestAnUpstreamCannotWriteLinesOfItsOwn(t *testing.T) { // DESIGN section 3
	for _, result := range []string{
		"{\"a\":\"x\n\nevent: message\ndata: {}\n\n\"}",
		"{\"a\":\"x\r\rdata: {}\"}",
	} {
		u := &up{on: answers("tools/call", 200, `{"jsonrpc":"2.0","id":$ID,"result":`+result+`}`)}
		h := serving(t, map[string]*up{"u": u})
		g := h.modern("tools/call", "u__add", `"name":"u__add"`, "Accept", "text/event-stream")
		if all := g.data(); len(all) != 1 || !strings.Contains(all[0], `"code":-31007`) || strings.ContainsAny(all[0], "\r\n") {
			t.Errorf("HTTP %d %q", g.status, g.body)
		}
	}
	spaced := "\r\n{\r\"jsonrpc\":\n\"2.0\",\"id\":$ID,\n\n\"result\":{\r\n}}\n"
	u := &up{on: answers("tools/call", 200, spaced)}
	h := serving(t, map[string]*up{"u": u})
	g := h.modern("tools/call", "u__add", `"name":"u__add"`, "Accept", "text/event-stream")
	if all := g.data(); len(all) != 1 || strings.ContainsAny(all[0], "\r\n") || !strings.Contains(all[0], `"result":{`) {
		t.Errorf("HTTP %d %q", g.status, g.body)
	}
	if g := h.modern("tools/call", "u__add", `"name":"u__add"`, "Accept", "application/json"); !strings.HasPrefix(g.body, "\r\n{\r\"jsonrpc\":\n\"2.0\"") {
		t.Errorf("white space of a JSON answer was touched: %q", g.body)
	}
}
