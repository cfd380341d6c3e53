package north

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// Whatever is posted, the answer is one well-formed message with a status that
// the catalogue knows, in the form that was asked for.
func FuzzEveryPostIsAnsweredWell(f *testing.F) {
	valid := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",` + meta + `}}`
	for _, body := range []string{
		valid, `[` + valid + `]`, `[]`, ``, `{`, "\xff", ping, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"},7]`, `{"jsonrpc":"2.0","id":"` + "\n" + `","method":"ping"}`,
	} {
		for _, version := range []string{"", "2026-07-28", "2025-03-26", "x"} {
			f.Add([]byte(body), version, "tools/call", "a", "application/json, text/event-stream", true)
			f.Add([]byte(body), version, "", "=?base64?YQ==?=", "text/event-stream", false)
		}
	}
	h := build(f, &rooms{})
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}`))
	r.Header.Set("Content-Type", "application/json")
	h.h.ServeHTTP(w, r)
	session := w.Header().Get("Mcp-Session-Id")
	if session == "" {
		f.Fatal(w.Body.String())
	}
	f.Fuzz(func(t *testing.T, body []byte, version, method, name, accept string, in bool) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", bytes.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {accept}}
		for key, v := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name} {
			if v != "" {
				r.Header[key] = []string{v}
			}
		}
		if in {
			r.Header["Mcp-Session-Id"] = []string{session}
		}
		w := httptest.NewRecorder()
		h.h.ServeHTTP(w, r)
		out := w.Body.Bytes()
		switch w.Code {
		case http.StatusAccepted:
			if len(out) != 0 {
				t.Fatalf("202 with %q", out)
			}
			return
		case 200, 400, 404, 406, 413, 503:
		default:
			t.Fatalf("HTTP %d %q", w.Code, out)
		}
		switch kind := w.Header().Get("Content-Type"); kind {
		case "text/event-stream":
			data, ok := bytes.CutPrefix(out, []byte("event: message\ndata: "))
			data, end := bytes.CutSuffix(data, []byte("\n\n"))
			if !ok || !end || bytes.ContainsAny(data, "\r\n") {
				t.Fatalf("not one event: %q", out)
			}
			out = data
		case "application/json":
		default:
			t.Fatalf("HTTP %d of type %q", w.Code, kind)
		}
		if v := jsontext.Value(out); !v.IsValid() {
			t.Fatalf("HTTP %d with a body that is no JSON: %q", w.Code, out)
		}
		if !bytes.Contains(out, []byte(`"jsonrpc":"2.0"`)) || bytes.Contains(out, []byte(`"code":-32603`)) {
			t.Fatalf("HTTP %d %q", w.Code, out)
		}
	})
}
