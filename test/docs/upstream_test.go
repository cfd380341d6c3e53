package docs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

const modernVersion = "2026-07-28"

// offered is a thing that an upstream offers: a tool, or, with a URI for its name, a resource.
type offered struct{ name, annotation string }

func (o offered) resource() bool { return strings.Contains(o.name, "://") }

var (
	offers = regexp.MustCompile(`(?m)^  ([a-z0-9.-]+): # offers (.*)$`)
	offer  = regexp.MustCompile(`^([^ ]+)(?: \((\w+)\))?$`)
)

// offersOf reads the comments of a document about what its upstreams offer.
func offersOf(t testing.TB, doc string) map[string][]offered {
	t.Helper()
	out := map[string][]offered{}
	for _, m := range offers.FindAllStringSubmatch(doc, -1) {
		for part := range strings.SplitSeq(m[2], ", ") {
			o := offer.FindStringSubmatch(part)
			if o == nil {
				t.Fatalf("what is %q?", part)
			}
			out[m[1]] = append(out[m[1]], offered{o[1], o[2]})
		}
	}
	return out
}

// upstream is a modern MCP server.
type upstream struct {
	*httptest.Server
	tools, resources string
	calls            atomic.Int64
}

func newUpstream(t testing.TB, all []offered) *upstream {
	u := &upstream{}
	var tools, resources []string
	for _, o := range all {
		switch {
		case o.resource():
			resources = append(resources, fmt.Sprintf(`{"uri":%q,"name":"n"}`, o.name))
		case o.annotation != "":
			tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"annotations":{%q:true}}`, o.name, o.annotation))
		default:
			tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, o.name))
		}
	}
	u.tools, u.resources = strings.Join(tools, ","), strings.Join(resources, ",")
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway hung up
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(raw, &m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := func(status int, member string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, member)
	}
	const kept = `"resultType":"complete","ttlMs":600000,"cacheScope":"public"`
	switch m.Method {
	case "server/discover":
		answer(http.StatusOK, `"result":{"supportedVersions":["`+modernVersion+`"],"capabilities":{"tools":{},"resources":{}},`+kept+`}`)
	case "tools/list":
		answer(http.StatusOK, `"result":{"tools":[`+u.tools+`],`+kept+`}`)
	case "resources/list":
		answer(http.StatusOK, `"result":{"resources":[`+u.resources+`],`+kept+`}`)
	case "resources/templates/list":
		answer(http.StatusOK, `"result":{"resourceTemplates":[],`+kept+`}`)
	case "tools/call":
		u.calls.Add(1)
		answer(http.StatusOK, `"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
	case "resources/read":
		u.calls.Add(1)
		answer(http.StatusOK, `"result":{"contents":[{"uri":"file:///x","text":"done"}],`+kept+`}`)
	default:
		answer(http.StatusNotFound, `"error":{"code":-32601,"message":"method not found"}`)
	}
}
