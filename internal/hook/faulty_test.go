package hook

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// faulty are endpoints that give no decision, by the failure that it is.
func faulty(t *testing.T) map[string]struct {
	f    http.HandlerFunc
	kind kind
} {
	media := func(values ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = values
			_, _ = io.WriteString(w, `{"decision":"allow"}`)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			if code != http.StatusNoContent {
				_, _ = io.WriteString(w, `{"decision":"allow"}`)
			}
		}
	}
	elsewhere := server(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	raw := func(said string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, said)
			conn.Close()
		}
	}
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	return map[string]struct {
		f    http.HandlerFunc
		kind kind
	}{
		"500":                 {status(500), badStatus},
		"503":                 {status(503), badStatus},
		"201":                 {status(201), badStatus},
		"204":                 {status(204), badStatus},
		"404":                 {status(404), badStatus},
		"text":                {media("text/plain"), badMedia},
		"no media type":       {media(), badMedia},
		"two media types":     {media("application/json", "text/plain"), badMedia},
		"other charset":       {media("application/json; charset=utf-16"), badMedia},
		"event stream":        {media("text/event-stream"), badMedia},
		"rubbish":             {saying("\x00\xff rubbish"), badAnswer},
		"empty":               {saying(""), badAnswer},
		"null":                {saying("null"), badAnswer},
		"trailing":            {saying(`{"decision":"allow"} {}`), badAnswer},
		"other case":          {saying(`{"Decision":"allow"}`), badAnswer},
		"cut at once":         {raw(""), unreachable},
		"no HTTP":             {raw("SSH-2.0-rubbish\r\n"), unreachable},
		"cut in the head":     {raw(ok), unreachable},
		"cut in the body":     {raw(ok + "Content-Length: 20\r\n\r\n{\"decision\":"), unreachable},
		"cut between chunks":  {raw(ok + "Transfer-Encoding: chunked\r\n\r\n14\r\n{\"decision\":\"allow\"}\r\n"), unreachable},
		"announced as huge":   {raw(ok + "Content-Length: 99999999999\r\n\r\n{"), tooLong},
		"switching protocols": {raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), badStatus},
		"huge head":           {raw(ok + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), unreachable},
		"huge body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"decision":"allow","x":"`)
			block := strings.Repeat("x", 32<<10)
			for range 64 { // far beyond max_bytes and what may come with it
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `"}`)
		}, tooLong},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}, badStatus},
		"redirect to itself": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusFound)
		}, badStatus},
	}
}

func TestAnEndpointThatGivesNoDecisionFails(t *testing.T) {
	for name, f := range faulty(t) {
		for _, allow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, allow), func(t *testing.T) {
				url := server(t, f.f)
				b := newBench(t, Hook{ID: "dlp", URL: url + "/secret-path", AllowOnError: allow, MaxBytes: 1000})
				c := call(ToolBefore)
				before := string(c.Arguments)
				rewrote, err := b.Run(t.Context(), c)
				if rewrote || string(c.Arguments) != before {
					t.Errorf("rewritten to %s", c.Arguments)
				}
				if allow {
					if err != nil || b.told() != "dlp tool.before error_allowed" {
						t.Errorf("%v", err)
					}
				} else {
					if code(err) != fault.HookFailed || b.told() != "dlp tool.before error_denied" {
						t.Errorf("%v", err)
					}
					if p := public(err); !strings.Contains(p, `"dlp"`) || !strings.Contains(p, "nothing ran") || strings.Contains(p, "127.0.0.1") {
						t.Errorf("the caller reads %q", p)
					}
					var why *failure
					if !errors.As(err, &why) || why.kind != f.kind {
						t.Errorf("%v, want %q", err, f.kind)
					}
				}
				if log := b.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, string(f.kind)) || !strings.Contains(log, "hook=dlp") {
					t.Errorf("the log says %s", log)
				}
				if strings.Contains(b.log.String()+fmt.Sprint(err), "secret-path") {
					t.Errorf("the URL shows: %s %v", b.log.String(), err)
				}
			})
		}
	}
}
