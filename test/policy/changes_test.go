package policy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// baseline is how long the gateway may take after somebody began to listen until it
// knows what their lists are: what changes before is told to be safe.
const baseline = time.Second

const (
	toolsChanged = "notifications/tools/list_changed"
	updated      = "notifications/resources/updated"
)

// What happens to things that a caller does not see is not told to them: neither
// that a list changed, nor that a resource did, also below one they listen for.
func TestChangesOfWhatIsHiddenAreNotTold(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy upstream: %v", legacy), func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, "up", legacy).tool("plain").resource("file:///a").resource("file:///secret")
			id := newIssuer(t)
			g := serve(t, fmt.Sprintf("limits: {list_timeout: 20s}\nupstreams: {up: {url: %q, namespace: u}}\n", u.endpoint())+id.section()+section([]rule{
				{id: "shown", allow: everything},
				{id: "secret", subject: "alice", deny: names{[]string{"*secret*"}, nil, []string{"*secret*"}}},
			}))
			type ear struct {
				who, era string
				*hearing
			}
			var ears []ear
			for _, subject := range []string{"alice", "root"} {
				c := g.as(t, id.known(t, caller{subject: subject, tenant: "t"}), "/mcp")
				c.modern("tools/list", "")
				h, honoured := c.listen(`{"toolsListChanged":true,"resourceSubscriptions":["file:///secret","file:///a"]}`)
				if want := `{"toolsListChanged":true,"resourceSubscriptions":["file:///secret","file:///a"]}`; len(honoured) == len(want) != (subject == "root") || strings.Contains(honoured, "secret") != (subject == "root") {
					t.Errorf("acknowledged to %s: %s", subject, honoured)
				}
				s := c.legacy("2025-11-25")
				s.call("tools/list", "")
				l := s.hear(http.MethodGet, "", s.headers()...)
				for _, uri := range []string{"file:///a", "file:///secret"} {
					s.call("resources/subscribe", `"uri":`+quote(uri))
				}
				ears = append(ears, ear{subject, "modern", h}, ear{subject, "legacy", l})
			}
			u.heard(t)
			change := func(tool string) {
				u.tool(tool)
				u.tell(toolsChanged, "")
			}
			update := func(uri string) { u.tell(updated, `"uri":`+quote(uri)) }
			// Each secret is followed by what everybody hears, and nothing comes before that.
			wants := func(what string, secrets int, method, uri string) {
				for _, e := range ears {
					for n := 0; ; n++ {
						m := e.next()
						is := text(m, "method") == method && (uri == "" || text(m, "params", "uri") == uri)
						if strings.Contains(m, "secret") && e.who == "alice" {
							t.Errorf("%s: alice, %s, is told %s", what, e.era, m)
						}
						if is && (uri != "" || e.who == "alice" || n == secrets) {
							if e.who == "root" && n != secrets || e.who == "alice" && n != 0 {
								t.Errorf("%s: %s, %s, hears %d before", what, e.who, e.era, n)
							}
							break
						}
					}
				}
			}
			update("file:///secret")
			update("file:///a/secret")
			update("file:///a")
			wants("updates", 2, updated, "file:///a")

			time.Sleep(baseline)
			change("secret")
			for _, e := range ears {
				if e.who == "root" {
					if m := e.next(); text(m, "method") != toolsChanged {
						t.Errorf("root, %s, hears %s", e.era, m)
					}
				}
			}
			for _, e := range ears {
				e.quiet(e.who+", "+e.era+", after a hidden tool", 300*time.Millisecond)
			}
			change("fine")
			wants("a tool", 0, toolsChanged, "")
		})
	}
}
