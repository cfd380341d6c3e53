package governance_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

func TestADeadProviderCostsOnlyThoseWhoseKeysAreNotKnown(t *testing.T) {
	t.Parallel()
	known, unknown, m := idp.Start(t), idp.Start(t), newMill(t, false)
	stranger := unknown.Token(t, good)
	unknown.Kill() // before its keys were ever read
	tokens := make([]string, 100)
	for i := range tokens {
		spec := good
		spec.Subject = fmt.Sprintf("caller-%d", i)
		tokens[i] = known.Token(t, spec)
	}
	h := build(t, over(m, fmt.Sprintf("auth:\n  jwt:\n    - {issuer: %q, audience: penstock, algorithms: [RS256, ES256]}\n    - {issuer: %q, audience: penstock, algorithms: [RS256, ES256]}\n",
		known.Issuer(), unknown.Issuer())))
	h.known(tokens[0])
	before := h.counts()

	var c tally
	stop := make(chan struct{})
	turns := load(t, stop, func(worker, turn int) {
		text := fmt.Sprintf("w%d-%d.", worker, turn)
		c.note(text, h.do(&query{Params: echo(text), Key: tokens[(worker+turn*workers)%len(tokens)]}))
		time.Sleep(5 * time.Millisecond)
	})
	time.Sleep(200 * time.Millisecond)
	known.Kill()
	refused := 0
	for range 2 {
		r := h.do(&query{Params: echo("stranger"), Key: stranger})
		if r.Status != http.StatusServiceUnavailable || r.Code != identityAway {
			t.Errorf("a token of an issuer whose keys are not known: %v", r)
		}
		refused++
	}
	time.Sleep(500 * time.Millisecond)
	close(stop)
	total := int(turns())
	served, _ := c.settle(t)
	if served != total || served == 0 {
		t.Errorf("of %d calls under known keys %d were served: %v", total, served, c.refused)
	}
	if m.arrived("stranger") != 0 {
		t.Error("the upstream saw a call of a caller that nobody could verify")
	}
	after := h.counts()
	delta := func(name string, labels ...string) int {
		return after.sum(name, labels...) - before.sum(name, labels...)
	}
	if n := delta("penstock_requests_total", `code="identity_unavailable"`); n != refused {
		t.Errorf("%d were refused, and the counter tells %d", refused, n)
	}
	if n := delta("penstock_requests_total", `outcome="ok"`); n != served {
		t.Errorf("%d were served, and the counter tells %d", served, n)
	}
	if good, all := delta("penstock_identities_total", `outcome="ok"`)+delta("penstock_identities_total", `outcome="cached"`), delta("penstock_identities_total"); good != served || all != served+refused {
		t.Errorf("%d served and %d refused; the counter of identities tells %d good of %d", served, refused, good, all)
	}
}
