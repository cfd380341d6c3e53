package south

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// subscribed is what the stub was asked about resources, in order.
func subscribed(s *stub) (out []string) {
	for _, a := range s.got("") {
		if verb, ok := strings.CutPrefix(a.method, "resources/"); ok {
			_, uri, _ := strings.Cut(a.body, `"uri":"`)
			uri, _, _ = strings.Cut(uri, `"`)
			out = append(out, a.header.Get("Mcp-Session-Id")+" "+verb+" "+uri)
		}
	}
	return out
}

func TestResourcesAreSubscribedToAndGivenUpOneByOne(t *testing.T) { // checklist 6.4
	leakless(t)
	s, h := streaming(t)
	inner := s.on
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if strings.Contains(a.body, "a://secret") {
			plainJSON(w, 200, `{"jsonrpc":"2.0","id":`+a.id+`,"error":{"code":-32002,"message":"no"}}`)
			return true
		}
		return inner(w, r, a)
	}
	u := reach(t, s.url)
	w, n := watching(t, u)
	other, m := watching(t, u) // the same session
	w.Want(mcp.Filter{URIs: []string{"a://1", "a://2", "a://secret"}})
	n.await(t, `honoured {"resourceSubscriptions":["a://1","a://2"]}`)
	other.Want(mcp.Filter{URIs: []string{"a://2"}})
	m.await(t, `honoured {"resourceSubscriptions":["a://2"]}`)
	w.Want(mcp.Filter{URIs: []string{"a://3", "a://secret"}})
	n.await(t, `honoured {"resourceSubscriptions":["a://1","a://2"]}`, `honoured {"resourceSubscriptions":["a://3"]}`)
	want := []string{"s1 subscribe a://1", "s1 subscribe a://2", "s1 subscribe a://secret", "s1 unsubscribe a://1", "s1 subscribe a://3"}
	if d := cmp.Diff(want, subscribed(s)); d != "" {
		t.Error(d)
	}
	h.stream(t, 1).event(updated("a://3"))
	n.await(t, `honoured {"resourceSubscriptions":["a://1","a://2"]}`, `honoured {"resourceSubscriptions":["a://3"]}`, `updated a://3 {"uri":"a://3"}`)
	w.Close()
	other.Close()
	want = append(want, "s1 unsubscribe a://3", "s1 unsubscribe a://2")
	if d := cmp.Diff(want, subscribed(s)); d != "" {
		t.Error(d)
	}
	settle(t, "the end of both streams", func() bool { return isGone(h.stream(t, 1)) && isGone(h.stream(t, 2)) })
}
