package grant

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestAnExpiredSubjectIsRefusedWithoutAsking(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	x := exchange(t, options(i, clk))
	alice := subject("alice")
	alice.Expires = clk.now().Add(time.Minute)
	token := get(t, x, alice)
	clk.pass(time.Minute - 1)
	if got := get(t, x, alice); got != token || i.count() != 1 {
		t.Errorf("in its last moment: %q, %d requests", got, i.count())
	}
	clk.pass(1)
	f := fails(t, func(ctx context.Context) (string, error) { return x.Token(ctx, alice) })
	if !strings.Contains(f.Public(), "expired") || !strings.Contains(f.Public(), "sign in again") || i.count() != 1 {
		t.Errorf("%s; %d requests", f.Public(), i.count())
	}
}

func TestATokenIsNotUsedBeyondItsSubject(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	x := exchange(t, options(i, clk))
	alice := subject("alice")
	alice.Expires = clk.now().Add(time.Minute)
	get(t, x, alice)
	alice.Expires = clk.now().Add(time.Hour) // whatever the caller says later
	clk.pass(time.Minute)
	if got := get(t, x, alice); got != "token-2" {
		t.Error(got)
	}
}

func TestACallerWithoutATokenIsTold(t *testing.T) {
	i := newIssuer(t)
	x := exchange(t, options(i, nil))
	for _, s := range []*Subject{nil, {}, {Hash: [32]byte{1}}} {
		if f := fails(t, func(ctx context.Context) (string, error) { return x.Token(ctx, s) }); !strings.Contains(f.Public(), "API key") {
			t.Error(f.Public())
		}
	}
	// One key for all whose hash somebody forgot to fill in would share their tokens.
	if _, err := x.Token(t.Context(), &Subject{Token: "t"}); fault.From(err).Code != fault.Internal {
		t.Error(err)
	}
	if i.count() != 0 {
		t.Error("the provider was asked")
	}
}

func TestTwoUpstreamsWithOneAddressShareNothing(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	i.behave(func(w http.ResponseWriter, a asked, n int) {
		answerToken(w, fmt.Sprintf("%s-%d", a.form.Get("audience"), n), 3600)
	})
	o, other := options(i, clk), options(i, clk)
	other.Upstream, other.Audience = "gitlab", "other"
	a, b, same := exchange(t, o), exchange(t, other), exchange(t, o)
	alice := subject("alice")
	for n, want := range []string{"aud-1", "other-2", "aud-3"} {
		if got := get(t, []*Exchange{a, b, same}[n], alice); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	a.Refused(alice, "other-2")
	a.Forget(alice.Hash)
	a.Close()
	if get(t, b, alice) != "other-2" || get(t, same, alice) != "aud-3" || i.count() != 3 {
		t.Error("what was told to one reached another")
	}
}

func TestEntriesAreBounded(t *testing.T) {
	f := &fake{life: 3600}
	x := f.exchange(t, Options{Upstream: "github", ClientID: "c", Entries: 10})
	for n := range 500 {
		get(t, x, subject(fmt.Sprint(n)))
	}
	eventually(t, "few entries", func() bool { x.slots.CleanUp(); return x.slots.EstimatedSize() <= 10 })
}

func TestSlotsOfThoseWhoLeftAreDropped(t *testing.T) {
	clk := newClock()
	f := &fake{life: 3600}
	x := f.exchange(t, Options{Upstream: "github", ClientID: "c", Now: clk.now})
	for n := range 100 {
		get(t, x, subject(fmt.Sprint(n)))
	}
	clk.pass(53 * time.Minute)
	if x.slots.CleanUp(); x.slots.EstimatedSize() != 100 {
		t.Errorf("%d slots are left while the tokens are good", x.slots.EstimatedSize())
	}
	clk.pass(2 * time.Minute)
	get(t, x, subject("alice"))
	if x.slots.CleanUp(); x.slots.EstimatedSize() != 1 {
		t.Errorf("%d slots are left after their tokens", x.slots.EstimatedSize())
	}
}
