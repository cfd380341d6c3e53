package south

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestRedirectsAreFollowedWithinTheOrigin(t *testing.T) {
	var elsewhere atomic.Int32
	other := (&stub{on: func(http.ResponseWriter, *http.Request, arrived) bool { elsewhere.Add(1); return false }}).start(t)
	s := (&stub{}).start(t)
	moves := map[string]string{
		"/mcp": "/real/mcp", "/abs": s.srv.URL + "/real/mcp", "/away": other.url, "/scheme": strings.Replace(s.url, "http:", "https:", 1),
		"/loop": "/loop", "/one": "/two", "/two": "/three", "/three": "/four", "/none": "",
	}
	for _, status := range []int{307, 308} {
		s.on = func(w http.ResponseWriter, r *http.Request, _ arrived) bool {
			to, moved := moves[r.URL.Path]
			if moved {
				if to != "" {
					w.Header().Set("Location", to)
				}
				w.WriteHeader(status)
			}
			return moved
		}
		for path, ok := range map[string]bool{"/mcp": true, "/abs": true, "/away": false, "/scheme": false, "/loop": false, "/one": false, "/two": true, "/none": false} {
			if path == "/two" {
				ok = true // two hops are allowed: /two, /three, /four
			}
			u := reach(t, s.srv.URL+path, func(o *Options) { o.Header = http.Header{"Authorization": {"Bearer t"}} })
			l, err := u.Link(t.Context(), SessionKey{})
			if (err == nil) != ok {
				t.Errorf("%d %s: %v", status, path, err)
				continue
			}
			if !ok {
				continue
			}
			before := len(s.got("tools/call"))
			if _, err := send(t, l, toolsCall(l)); err != nil {
				t.Errorf("%d %s: %v", status, path, err)
			}
			if n := len(s.got("tools/call")) - before; n != 1 {
				t.Errorf("%d %s: the new address is not remembered: %d requests", status, path, n)
			}
		}
	}
	if elsewhere.Load() != 0 {
		t.Error("a request with credentials reached another origin")
	}
}
