package docs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/penstock-mcp/penstock/config"
)

// ownOffer is an upstream whose list depends on who asks, though it calls the list public.
func ownOffer(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := &upstream{tools: fmt.Sprintf(`{"name":"of-%d","inputSchema":{"type":"object"}}`, len(r.Header.Get("Authorization")))}
		u.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func TestAListGotWithACallersOwnTokenIsShownToNobodyElse(t *testing.T) {
	t.Parallel()
	r := serve(t, `
upstreams:
  own: # offers x
    url: http://127.0.0.1:1/
    credentials: {passthrough: {audience: "https://mcp.example.com/mcp"}}
auth:
  jwt: [{issuer: https://id.example.com, audience: https://mcp.example.com/mcp, algorithms: [RS256]}]
`, func(doc *config.Document) { doc.Upstreams["own"].URL = ownOffer(t) })
	for range 2 {
		for _, subject := range []string{"a", "somebody-with-a-longer-name"} {
			who := r.credential(subject, map[string]any{})
			if got := r.listed("default", who); len(got) != 1 || !got[fmt.Sprintf("own__of-%d", len(who))] {
				t.Errorf("%s sees %v, not its own of %d", subject, got, len(who))
			}
			if scope := r.send("default", who, "tools/list", "", "").body; !contains(scope, `"cacheScope":"private"`) {
				t.Errorf("the merged list is not private: %s", scope)
			}
		}
	}
}
