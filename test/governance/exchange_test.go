package governance_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

// upstreamAudience is what exchanged tokens name.
const upstreamAudience = "https://up.example.com"

// exchanging are the members of an upstream that gets the caller's token exchanged.
func exchanging(p *idp.Provider) string {
	p.Client("gateway", "gateway-secret", idp.TokenExchange)
	return fmt.Sprintf(`credentials: {exchange: {token_url: %q, client_id: gateway, client_secret: gateway-secret, audience: %q}}`,
		p.TokenURL(), upstreamAudience)
}

// subjectOf holds a value of Authorization to be an exchanged token, and returns whose.
func subjectOf(t *testing.T, authorization string) string {
	t.Helper()
	token, is := strings.CutPrefix(authorization, "Bearer ")
	if !is {
		t.Errorf("the upstream was shown %.10q…", authorization)
		return ""
	}
	_, claims, err := idp.Read(token)
	if err != nil {
		t.Error(err)
		return ""
	}
	if fmt.Sprint(claims["aud"]) != "["+upstreamAudience+"]" || claims["client_id"] != "gateway" {
		t.Errorf("the upstream was shown a token for %v of %v", claims["aud"], claims["client_id"])
	}
	return fmt.Sprint(claims["sub"])
}

func TestAnUpstreamSeesAnExchangedTokenOfTheCaller(t *testing.T) {
	t.Parallel()
	p, u := idp.Start(t), newUpstream(t)
	g := serve(t, document(p, u, exchanging(p)))
	callers := []string{"alice", "bob", "carol"}
	tokens := map[string]string{}
	for _, who := range callers {
		spec := good
		spec.Subject = who
		tokens[who] = p.Token(t, spec)
		g.ready(t, tokens[who])
	}
	for range 5 {
		for _, who := range callers {
			if r := g.call("by-"+who, bearer(tokens[who])); !r.served() {
				t.Fatalf("%s: %v", who, r)
			}
		}
	}
	for _, r := range u.requests("") {
		// What nobody asked for, such as finding out the era, goes without, or it would be in somebody's name.
		if len(r.Authorization) == 0 && r.Method != "tools/call" && r.Method != "tools/list" {
			continue
		}
		if len(r.Authorization) != 1 {
			t.Errorf("%s came with %d credentials", r.Method, len(r.Authorization))
			continue
		}
		who := subjectOf(t, r.Authorization[0])
		if !slices.Contains(callers, who) {
			t.Errorf("%s came in the name of %q", r.Method, who)
		}
		if _, by, found := strings.Cut(r.Body, `"by-`); found && !strings.HasPrefix(by, who+`"`) {
			t.Errorf("a call came in the name of %q: %s", who, r.Body)
		}
		for name, token := range tokens {
			if strings.Contains(r.Authorization[0]+r.Body, token) {
				t.Errorf("the upstream was given the own token of %s", name)
			}
		}
	}
	if n := len(u.requests("tools/call")); n < 5*len(callers) {
		t.Errorf("the upstream saw %d calls", n)
	}
	if n := p.Counts().ByGrant[idp.TokenExchange]; n != len(callers) {
		t.Errorf("%d exchanges for %d callers", n, len(callers))
	}
}

func TestFiftyCallsAtExpiryMakeOneExchange(t *testing.T) {
	t.Parallel()
	const calls = 50
	p, u := idp.Start(t), newUpstream(t)
	p.Lifetime(12 * time.Second)
	g := serve(t, document(p, u, exchanging(p)))
	token := p.Token(t, good)
	g.ready(t, token)
	time.Sleep(13 * time.Second) // nothing that is held is good any more, whatever margin is kept
	p.Lifetime(5 * time.Minute)
	before := p.Counts().ByGrant[idp.TokenExchange]
	known := u.credentials("tools/call")

	var all sync.WaitGroup
	begin := make(chan struct{})
	for n := range calls {
		all.Go(func() {
			<-begin
			if r := g.call(fmt.Sprintf("burst-%d", n), bearer(token)); !r.served() {
				t.Errorf("call %d: %v", n, r)
			}
		})
	}
	close(begin)
	all.Wait()
	if n := p.Counts().ByGrant[idp.TokenExchange] - before; n != 1 {
		t.Errorf("%d calls made %d exchanges", calls, n)
	}
	fresh := map[string]int{}
	for _, r := range u.requests("tools/call") {
		if strings.Contains(r.Body, `"burst-`) {
			fresh[strings.Join(r.Authorization, ", ")]++
		}
	}
	if len(fresh) != 1 {
		t.Errorf("the burst came with %d credentials", len(fresh))
	}
	for a, n := range fresh {
		if n != calls || slices.Contains(known, a) || subjectOf(t, a) != "alice" {
			t.Errorf("%d calls came with one credential, which was known before: %v", n, slices.Contains(known, a))
		}
	}
}

func TestAnExchangeThatRedirectsSendsNobodyAnything(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		followed.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"access_token":"stolen","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":300}`)
	}))
	t.Cleanup(trap.Close)
	p, u := idp.Start(t), newUpstream(t)
	g := serve(t, document(p, u, exchanging(p)))
	g.ready(t, p.Token(t, good))
	seen := len(u.credentials(""))

	p.Fail(idp.Faults{RedirectToken: trap.URL + "/oauth/token"})
	spec := good
	spec.Subject = "bob"
	bob := p.Token(t, spec)
	r := g.call("redirected", bearer(bob))
	if r.Code != credentialFailed {
		t.Errorf("want %d, got %v", credentialFailed, r)
	}
	for _, secret := range []string{"stolen", "gateway-secret", bob, trap.URL, p.TokenURL()} {
		if strings.Contains(r.Body, secret) {
			t.Errorf("the answer holds %.40q: %s", secret, r.Body)
		}
		if secret != trap.URL && secret != p.TokenURL() && strings.Contains(g.log.String(), secret) {
			t.Errorf("the log holds %.40q", secret)
		}
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("the redirect was followed %d times", n)
	}
	if u.saw(`"redirected"`) || len(u.credentials("")) != seen {
		t.Error("the upstream saw a call that has no credential")
	}

	p.Fail(idp.Faults{})
	g.ready(t, bob) // and it recovers, within a failure's memory
}

func TestAnExchangeThatIsRefusedReachesNoUpstream(t *testing.T) {
	t.Parallel()
	p, u := idp.Start(t), newUpstream(t)
	g := serve(t, document(p, u, exchanging(p)))
	g.ready(t, p.Token(t, good))
	p.Client("gateway", "another-secret", idp.TokenExchange) // the operator's secret is out of date
	spec := good
	spec.Subject = "bob"
	bob := p.Token(t, spec)
	if r := g.call("refused", bearer(bob)); r.Code != credentialFailed || strings.Contains(r.Body, bob) {
		t.Errorf("want %d, got %v", credentialFailed, r)
	}
	if u.saw(`"refused"`) {
		t.Error("the upstream saw a call that has no credential")
	}
}
