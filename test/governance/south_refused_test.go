package governance_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

// refusing takes no credential that refused names.
type refusing struct {
	mu      sync.Mutex // guards what follows
	values  map[string]bool
	callers map[string]bool
	calls   int // that were refused
}

// over has an upstream refuse what r says, and everything without a token for it.
func (r *refusing) over(u *keeper) *keeper {
	r.values, r.callers = map[string]bool{}, map[string]bool{}
	u.admits = func(authorization []string) bool {
		who, audiences := holder(authorization)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(authorization) == 1 && (r.values[authorization[0]] || r.callers[who]) {
			r.calls++
			return false
		}
		return strings.Contains(audiences, upstreamAudience)
	}
	return u
}

func (r *refusing) value(v string) { r.mu.Lock(); defer r.mu.Unlock(); r.values[v] = true }

func (r *refusing) caller(who string) { r.mu.Lock(); defer r.mu.Unlock(); r.callers[who] = true }

func (r *refusing) count() int { r.mu.Lock(); defer r.mu.Unlock(); return r.calls }

// eras runs a test against an upstream of each era.
func eras(t *testing.T, f func(t *testing.T, legacy bool)) {
	t.Helper()
	t.Parallel()
	for _, era := range []string{"modern", "legacy"} {
		t.Run("upstream="+era, func(t *testing.T) {
			t.Parallel()
			f(t, era == "legacy")
		})
	}
}

func lastOf(u *keeper) string {
	all := u.arrivals()
	return strings.Join(all[len(all)-1].Authorization, ", ")
}

func TestARefusedTokenIsReplacedOnceAndASecondRefusalIsTold(t *testing.T) {
	eras(t, func(t *testing.T, legacy bool) {
		p, r := idp.Start(t), &refusing{}
		u := r.over(newKeeper(t, legacy))
		g := serve(t, southern(p, up("u", u.URL+"/mcp", exchangeFor(p, upstreamAudience)), ""))
		c, other := guest(t, g, "alice", tokenOf(t, p, "alice")), guest(t, g, "bob", tokenOf(t, p, "bob"))
		c.want(t, oneCall(0, "u__echo", "first"), "first")
		other.want(t, oneCall(0, "u__echo", "first"), "first")
		c.want(t, oneCall(0, "u__echo", "second"), "second")
		grants := func() int { return p.Counts().ByGrant[idp.TokenExchange] }
		before, old := grants(), lastOf(u)

		r.value(old)
		c.want(t, oneCall(0, "u__echo", "renewed"), "renewed")
		if n := grants() - before; n != 1 || r.count() != 1 || lastOf(u) == old {
			t.Errorf("one refusal made %d exchanges, %d calls were refused", n, r.count())
		}

		time.Sleep(1500 * time.Millisecond) // a token is not replaced at once again, or an upstream that refuses all would set the pace
		before = grants()
		r.caller("alice")
		told := c.code(t, oneCall(0, "u__echo", "refused"), credentialFailed)
		if n := grants() - before; n != 1 || r.count() != 3 {
			t.Errorf("two refusals made %d exchanges, %d calls were refused", n, r.count()-1)
		}
		for _, a := range u.arrivals() {
			for _, secret := range secretsOf(a.Authorization...) {
				if strings.Contains(told.Body, secret) {
					t.Error("the error holds the token")
				}
			}
		}
		other.want(t, oneCall(0, "u__echo", "others"), "others")
		if n := grants() - before; n != 1 {
			t.Errorf("another caller's token was replaced, too: %d exchanges", n)
		}
	})
}

func TestAPassedTokenThatIsRefusedIsTriedOnce(t *testing.T) {
	eras(t, func(t *testing.T, legacy bool) {
		p, r := idp.Start(t), &refusing{}
		u := r.over(newKeeper(t, legacy))
		g := serve(t, southern(p, up("u", u.URL+"/mcp", passing), ""))
		c, other := guest(t, g, "alice", tokenOf(t, p, "alice")), guest(t, g, "bob", tokenOf(t, p, "bob"))
		c.want(t, oneCall(0, "u__echo", "first"), "first")
		c.want(t, oneCall(0, "u__echo", "second"), "second")
		r.caller("alice")
		c.code(t, oneCall(0, "u__echo", "refused"), credentialFailed)
		if r.count() != 1 {
			t.Errorf("it was tried %d times", r.count())
		}
		other.want(t, oneCall(0, "u__echo", "others"), "others")
	})
}

// An upstream that refuses one caller is not down, for others least of all.
func TestOneCallersRefusalIsNoOutageForOthers(t *testing.T) {
	perCaller(t, func(t *testing.T, p *idp.Provider, credentials string) {
		for _, legacy := range []bool{false, true} {
			r := &refusing{}
			u := r.over(newKeeper(t, legacy))
			g := serve(t, southern(p, up("u", u.URL+"/mcp", credentials), ""))
			r.caller("mallory")
			warm := guest(t, g, "warm", tokenOf(t, p, "warm"))
			warm.want(t, oneCall(0, "u__echo", "warm"), "warm")
			mallory := guest(t, g, "mallory", tokenOf(t, p, "mallory"))
			for n := range 8 { // more than a breaker takes
				mallory.get(t, modern(0, 0, lists[n%3], "", ""))
				if r := mallory.get(t, oneCall(0, "u__echo", "mallory")); member(r.message(), "error") == "" {
					t.Errorf("mallory: %v", r)
				}
			}
			for _, name := range []string{"alice", "bob"} {
				c := guest(t, g, name, tokenOf(t, p, name))
				if body := c.want(t, modern(0, 0, "tools/list", "", ""), "u__echo").Body; strings.Contains(body, "penstock/partial") {
					t.Errorf("legacy %t: the list of %s lacks something: %s", legacy, name, body)
				}
				c.want(t, modern(0, 0, "resources/list", "", ""), "shared")
				c.want(t, oneCall(0, "u__echo", name), name)
			}
		}
	})
}

func TestAnUpstreamThatRedirectsElsewhereTakesNoCredentialAlong(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var led []string
	trap := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		led = append(led, fmt.Sprint(r.Method, r.URL, r.Header))
	}))
	t.Cleanup(trap.Close)
	p := idp.Start(t)
	for kind, credentials := range map[string]string{
		"exchange": exchangeFor(p, upstreamAudience), "passthrough": passing, "static": "bearer: fixed-secret", "header": "header: {name: X-Key, value: fixed-secret}",
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			var away sync.Map // when there is something in it, everything is redirected
			u := newKeeper(t, status%2 == 0)
			inner := u.Config.Handler
			u.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, yes := away.Load("away"); yes {
					http.Redirect(w, r, trap.URL+"/mcp", status)
					return
				}
				inner.ServeHTTP(w, r)
			})
			g := serve(t, southern(p, up("u", u.URL+"/mcp", credentials), ""))
			token := tokenOf(t, p, "alice")
			c := guest(t, g, "alice", token)
			c.want(t, oneCall(0, "u__echo", "before"), "before")
			away.Store("away", true)
			r := c.get(t, oneCall(0, "u__echo", "after"))
			if member(r.message(), "error") == "" {
				t.Errorf("%s, %d: %v", kind, status, r)
			}
			for _, secret := range append(secretsOf(token), "fixed-secret", trap.URL) {
				if strings.Contains(r.Body, secret) {
					t.Errorf("%s, %d: the answer holds %.20s: %v", kind, status, secret, r)
				}
				if secret != trap.URL && strings.Contains(g.log.String(), secret) {
					t.Errorf("%s, %d: the log holds %.20s", kind, status, secret)
				}
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(led) > 0 {
		t.Errorf("it was followed: %q", led)
	}
}

// What is read again behind the requests of a caller, because something changed, is read in that caller's name.
func TestListsReadBehindACallerAreReadInItsName(t *testing.T) {
	perCaller(t, func(t *testing.T, p *idp.Provider, credentials string) {
		for _, legacy := range []bool{false, true} {
			u := demanding(newKeeper(t, legacy))
			g := serve(t, southern(p, up("u", u.URL+"/mcp", credentials), ""))
			var all []*party
			for _, name := range []string{"alice", "bob"} {
				c := guest(t, g, name, tokenOf(t, p, name))
				all = append(all, c)
				c.want(t, modern(0, 0, "tools/list", "", ""), "u__echo")
				l, err := c.open(modern(0, 0, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`))
				if err != nil {
					t.Fatal(err)
				}
				defer l.end()
				if _, err := l.next("acknowledged"); err != nil {
					t.Fatal(err)
				}
			}
			reads := func() (out []string) {
				for _, a := range u.arrivals() {
					if a.Method == "tools/list" {
						who, _ := holder(a.Authorization)
						out = append(out, who)
					}
				}
				return out
			}
			until(t, "the lists are compared", func() bool { return slices.Contains(reads(), "alice") && slices.Contains(reads(), "bob") })
			before := len(reads())
			all[0].want(t, oneCall(0, "u__change", "x"), "changed")
			until(t, "each list is read again", func() bool {
				after := reads()[before:]
				return slices.Contains(after, "alice") && slices.Contains(after, "bob")
			})
			for _, who := range reads() {
				if who != "alice" && who != "bob" {
					t.Errorf("legacy %t: a list was read in the name of %q", legacy, who)
				}
			}
			for _, c := range all {
				if leaks := c.ears.take(); len(leaks) > 0 {
					t.Errorf("%q", leaks)
				}
			}
		}
	})
}
