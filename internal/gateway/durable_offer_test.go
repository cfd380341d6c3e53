package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// lister answers discovery, and lists tools page by page with what page returns.
func lister(t *testing.T, page func(n int, cursor string) string) *south.Upstream {
	t.Helper()
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		method, _ := wire.String(at(body, []string{"method"}))
		cursor, _ := wire.String(at(body, []string{"params", "cursor"}))
		w.Header().Set("Content-Type", "application/json")
		result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{}}}`
		switch method {
		case "tools/list":
			n++
			result = page(n, cursor)
		case "prompts/list":
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, at(body, []string{"id"}))
			return
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, at(body, []string{"id"}), result)
	}))
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	up := south.New(south.Options{
		Key: "u", URL: u, Timeout: 20 * time.Second, ProbeTimeout: 10 * time.Second, Failures: 5, OpenFor: time.Second, ResponseBytes: 64 << 20,
		IdleSession: time.Minute, ClientInfo: []byte(`{"name":"p","version":"1"}`), Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		up.Close(context.Background())
		srv.Close()
	})
	return up
}

// A discovery reads every page, within bounds that no upstream moves.
func TestADiscoveryIsWholeOrNone(t *testing.T) {
	tool := func(n int) string { return fmt.Sprintf(`{"name":"t%d"}`, n) }
	many := func(n int) string { return strings.Repeat(tool(0)+",", n-1) + tool(0) }
	for what, c := range map[string]struct {
		page func(n int, cursor string) string
		want int    // tools
		err  string // "": none
	}{
		"three pages": {func(n int, cursor string) string {
			if n > 1 && cursor != fmt.Sprint("c", n-1) {
				return `{"tools":[]}`
			}
			if n == 3 {
				return `{"tools":[` + tool(n) + `]}`
			}
			return fmt.Sprintf(`{"tools":[%s],"nextCursor":"c%d"}`, tool(n), n)
		}, 3, ""},
		"an empty page with a cursor": {func(int, string) string { return `{"tools":[],"nextCursor":"x"}` }, 0, "empty"},
		"the same cursor":             {func(n int, _ string) string { return `{"tools":[` + tool(n) + `],"nextCursor":"x"}` }, 0, "repeats"},
		"pages without end":           {func(n int, _ string) string { return fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, tool(n), n) }, 0, "pages"},
		"a long cursor":               {func(int, string) string { return `{"tools":[{}],"nextCursor":"` + strings.Repeat("x", 5000) + `"}` }, 0, "cursor"},
		"too many items":              {func(int, string) string { return `{"tools":[` + many(4097) + `]}` }, 0, "items"},
		"a large item":                {func(int, string) string { return `{"tools":[{"name":"` + strings.Repeat("x", 257<<10) + `"}]}` }, 0, "larger"},
		"too many bytes": {func(n int, _ string) string {
			return fmt.Sprintf(`{"tools":[%s{"name":"x"}],"nextCursor":"%d"}`, strings.Repeat(`{"name":"`+strings.Repeat("x", 200<<10)+`"},`, 10), n)
		}, 0, "bytes"},
		"no list": {func(int, string) string { return `{"tools":{}}` }, 0, "no list"},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			_, _, _, link, err := reachModern(ctx, lister(t, c.page))
			if err != nil {
				t.Fatal(err)
			}
			o, err := discover(ctx, link, []byte(`{"name":"p","version":"1"}`))
			switch {
			case c.err == "" && (err != nil || len(o.Tools) != c.want):
				t.Errorf("%+v, %v", o, err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %v", err)
			}
		})
	}
}
