package grant

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// granter is either way of getting a token, for one subject.
type granter struct {
	token   func(context.Context) (string, error)
	refused func(string)
}

func granters(t *testing.T, i *issuer, clk *clock) map[string]granter {
	t.Helper()
	x, c, alice := exchange(t, options(i, clk)), credentials(t, options(i, clk)), subject("alice")
	return map[string]granter{
		"exchange":    {func(ctx context.Context) (string, error) { return x.Token(ctx, alice) }, func(token string) { x.Refused(alice, token) }},
		"credentials": {c.Token, c.Refused},
	}
}

func TestALateRefusalOfAnOldTokenLeavesTheNewOne(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	for name, g := range granters(t, i, clk) {
		before := i.count()
		first, err := g.token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g.refused(first)
		second, err := g.token(t.Context())
		if err != nil || second == first {
			t.Fatalf("%s: %q after %q, %v", name, second, first, err)
		}
		for range 5 { // the other calls that were under way with it
			g.refused(first)
			g.refused("never seen")
			g.refused("")
		}
		if got, err := g.token(t.Context()); err != nil || got != second || i.count()-before != 2 {
			t.Errorf("%s: %q, %v, %d requests", name, got, err, i.count()-before)
		}
	}
}

func TestAnUpstreamThatRefusesEverythingCausesNoLoop(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	for name, g := range granters(t, i, clk) {
		before := i.count()
		for range 30 {
			if token, err := g.token(t.Context()); err == nil {
				g.refused(token)
			}
		}
		if n := i.count() - before; n != 2 {
			t.Errorf("%s: %d requests", name, n)
		}
		f := fails(t, g.token)
		if !strings.Contains(f.Public(), "refused the token") || f.RetryAfter <= 0 || f.RetryAfter > renewEvery {
			t.Errorf("%s: %s, retry after %v", name, f.Public(), f.RetryAfter)
		}
		clk.pass(renewEvery)
		token, err := g.token(t.Context())
		if err != nil || i.count()-before != 3 {
			t.Errorf("%s: after a second: %v, %d requests", name, err, i.count()-before)
		}
		clk.pass(10 * time.Minute) // it is good now
		g.refused(token)
		if _, err := g.token(t.Context()); err != nil || i.count()-before != 4 {
			t.Errorf("%s: after some time: %v, %d requests", name, err, i.count()-before)
		}
	}
}

func TestFiveCallsThatAreRefusedAtOnceGetOneNewToken(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	for name, g := range granters(t, i, clk) {
		before := i.count()
		old, err := g.token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := crowd(t, 5, func(ctx context.Context) (string, error) {
			g.refused(old)
			return g.token(ctx)
		})
		if n := i.count() - before; n != 2 || len(got) != 1 || got[old] != 0 {
			t.Errorf("%s: %d requests, %v", name, n, got)
		}
	}
}

func TestARefusalForAStrangerDoesNothing(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	x := exchange(t, options(i, clk))
	token := get(t, x, subject("alice"))
	x.Refused(nil, token)
	x.Refused(subject("bob"), token)
	if get(t, x, subject("alice")) != token || i.count() != 1 {
		t.Error("another's word had a token forgotten")
	}
}

func TestAForgottenSubjectIsExchangedAnew(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	x := exchange(t, options(i, clk))
	alice, bob := subject("alice"), subject("bob")
	get(t, x, alice)
	kept := get(t, x, bob)
	x.Forget(alice.Hash)
	x.Forget(subject("stranger").Hash)
	if got := get(t, x, alice); got != "token-3" {
		t.Error(got)
	}
	if got := get(t, x, bob); got != kept {
		t.Error("another was forgotten too")
	}
}

func TestWhatComesForAForgottenSubjectIsNotKept(t *testing.T) {
	i := newIssuer(t)
	hold, goOn := make(chan struct{}), make(chan struct{})
	i.behave(func(w http.ResponseWriter, _ asked, n int) {
		if n == 1 {
			close(hold)
			<-goOn
		}
		answerToken(w, fmt.Sprintf("token-%d", n), 3600)
	})
	x, alice := exchange(t, options(i, newClock())), subject("alice")
	first := make(chan string, 1)
	go func() { token, _ := x.Token(context.Background(), alice); first <- token }()
	<-hold
	x.Forget(alice.Hash)
	close(goOn)
	if got := <-first; got != "token-1" {
		t.Errorf("who waited for it got %q", got)
	}
	if got := get(t, x, alice); got != "token-2" {
		t.Errorf("what was forgotten is back: %q", got)
	}
}

// The row on rotating refresh in the protocol faults: at the end of a token five calls come at once
// to each of two replicas, and their refusals of the old token come late.
func TestTwoReplicasAtExpiryKeepEachItsNewToken(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	alice := subject("alice")
	replicas := []*Exchange{exchange(t, options(i, clk)), exchange(t, options(i, clk))}
	old := []string{get(t, replicas[0], alice), get(t, replicas[1], alice)}
	clk.pass(54 * time.Minute)
	var renewed [2]string
	for n, x := range replicas {
		for token := range crowd(t, 5, func(ctx context.Context) (string, error) { return x.Token(ctx, alice) }) {
			renewed[n] = token
		}
	}
	for n, x := range replicas {
		for _, token := range append(old, renewed[1-n]) {
			x.Refused(alice, token) // of calls that had begun before, and of the other replica's
		}
		if got := get(t, x, alice); got != renewed[n] {
			t.Errorf("replica %d has %q, and had got %q", n, got, renewed[n])
		}
	}
	if i.count() != 4 {
		t.Errorf("%d requests, two by each replica were needed", i.count())
	}
}
