package governance_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

func TestOneTokenOfClientCredentialsServesManyAndIsRenewedWhenRefused(t *testing.T) {
	t.Parallel()
	p, u := idp.Start(t), newUpstream(t)
	p.Client("service", "service-secret", idp.ClientCredentials)
	g := serve(t, document(p, u, fmt.Sprintf(
		`credentials: {client_credentials: {token_url: %q, client_id: service, client_secret: service-secret, scopes: [read, write]}}`, p.TokenURL())))
	callers := make([]string, workers)
	for i := range callers {
		spec := good
		spec.Subject = fmt.Sprintf("caller-%d", i)
		callers[i] = p.Token(t, spec)
	}
	g.ready(t, callers[0])

	var all sync.WaitGroup
	for _, token := range callers {
		all.Go(func() {
			for n := range 10 {
				if r := g.call("many", bearer(token)); !r.served() {
					t.Errorf("call %d: %v", n, r)
				}
			}
		})
	}
	all.Wait()
	first := u.credentials("")
	if len(first) != 1 || p.Counts().ByGrant[idp.ClientCredentials] != 1 {
		t.Fatalf("the upstream was shown %d credentials of %d grants", len(first), p.Counts().ByGrant[idp.ClientCredentials])
	}
	if _, claims, err := idp.Read(strings.TrimPrefix(first[0], "Bearer ")); err != nil || claims["sub"] != "service" || claims["scope"] != "read write" {
		t.Errorf("it was shown %v (%v)", claims, err)
	}

	time.Sleep(1500 * time.Millisecond) // a token is not replaced at once again, or an upstream that refuses all would set the pace
	u.refuse(first[0])
	g.ready(t, callers[0])
	both := u.credentials("")
	if len(both) != 2 || p.Counts().ByGrant[idp.ClientCredentials] != 2 {
		t.Errorf("after a 401 the upstream was shown %d credentials of %d grants", len(both), p.Counts().ByGrant[idp.ClientCredentials])
	}
	refused := 0
	for _, r := range u.requests("tools/call") {
		if r.Refused {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d calls were sent with a token that was refused, the first of them should do", refused)
	}
	if r := g.call("after", bearer(callers[1])); !r.served() {
		t.Errorf("another caller after the renewal: %v", r)
	}
}
