package north

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// DESIGN section 4: a client that accepts only JSON, only event streams, or says
// nothing is served in that form; 406 only when nothing fits.
func TestTheAnswerHasTheFormThatTheClientAccepts(t *testing.T) {
	f := open(t, &rooms{})
	for _, c := range []struct{ accept, form string }{
		{"application/json, text/event-stream", "application/json"},
		{"text/event-stream, application/json", "text/event-stream"},
		{"application/json, text/event-stream", "application/json"},
		{"application/json", "application/json"},
		{"text/event-stream", "text/event-stream"},
		{"-", "application/json"},
		{"", "application/json"},
		{"*/*", "application/json"},
		{"text/*", "text/event-stream"},
		{"application/*;q=0.1", "application/json"},
		{"application/json;q=0, text/event-stream", "text/event-stream"},
		{"application/json;q=0, */*", "text/event-stream"},
		{"text/html", ""},
		{"application/json;q=0", ""},
		{"text/html, image/*", ""},
	} {
		h := modernHeaders("tools/list", "")
		h["Accept"] = c.accept
		g := f.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+meta+`}}`, h)
		if c.form == "" {
			if g.status != http.StatusNotAcceptable || g.code(t) != -31011 {
				t.Errorf("%q: HTTP %d %s", c.accept, g.status, g.body)
			}
			continue
		}
		if g.status != 200 || g.header.Get("Content-Type") != c.form || g.message(t).Result["served"] != "tools/list" {
			t.Errorf("%q: HTTP %d %s %q; want %s", c.accept, g.status, g.header.Get("Content-Type"), g.body, c.form)
		}
		stream := c.form == "text/event-stream"
		if stream != (g.header.Get("X-Accel-Buffering") == "no") || stream != (g.header.Get("Content-Length") == "") {
			t.Errorf("%q: %v", c.accept, g.header)
		}
	}
}

func TestTheBodyMustBeJSONByItsMediaType(t *testing.T) {
	f := open(t, &rooms{})
	for ct, ok := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON": true, `application/json;charset="utf-8"`: true,
		"-": false, "": false, "text/plain": false, "application/json-rpc": false, "application/jsonx": false, "application/json|text/plain": false,
		"multipart/form-data; boundary=a": false, "application/x-www-form-urlencoded": false, "application/json; =": false,
	} {
		h := modernHeaders("tools/list", "")
		h["Content-Type"] = ct
		g := f.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+meta+`}}`, h)
		if ok && g.status != 200 || !ok && (g.status != http.StatusUnsupportedMediaType || g.code(t) != -31012) {
			t.Errorf("%q: HTTP %d %s", ct, g.status, g.body)
		}
	}
}

// T61: statuses of errors reach a client of streams alone, too.
func TestErrorsKeepTheirStatusForAClientOfStreamsAlone(t *testing.T) {
	f := open(t, &rooms{serve: func(context.Context, *Exchange) error { return fault.New(fault.MissingCapability, "x") }})
	h := modernHeaders("tools/list", "")
	h["Accept"] = "text/event-stream"
	g := f.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+meta+`}}`, h)
	if g.status != 400 || g.code(t) != -32021 || g.header.Get("Content-Type") != "application/json" {
		t.Errorf("HTTP %d %v %s", g.status, g.header, g.body)
	}
}

func TestBothSpellingsOfAPathAnswer(t *testing.T) {
	f := open(t, &rooms{})
	h := modernHeaders("tools/list", "")
	h["Content-Type"] = "application/json"
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`
	for path, status := range map[string]int{
		"/mcp": 200, "/mcp/": 200, "/servers/other/mcp": 200, "/servers/other/mcp/": 200,
		"/": 404, "/mcp//": 404, "/mcpx": 404, "/MCP": 404, "/servers/none/mcp": 404,
	} {
		if g := f.send("POST", path, body, h); g.status != status {
			t.Errorf("%s: HTTP %d, want %d", path, g.status, status)
		}
	}
	if g := f.send("GET", "/elsewhere", "", nil); !strings.Contains(g.body, "/mcp") {
		t.Errorf("an unknown path does not name the known ones: %q", g.body)
	}
}
