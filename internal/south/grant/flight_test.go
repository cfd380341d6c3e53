package grant

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// crowd has n callers ask at once and returns how often each token came.
func crowd(t *testing.T, n int, token func(context.Context) (string, error)) map[string]int {
	t.Helper()
	got := map[string]int{}
	var mu sync.Mutex // guards got
	var all sync.WaitGroup
	start := make(chan struct{})
	for range n {
		all.Go(func() {
			<-start
			tok, err := token(t.Context())
			if err != nil {
				tok = fault.From(err).Public()
			}
			mu.Lock()
			got[tok]++
			mu.Unlock()
		})
	}
	close(start)
	all.Wait()
	return got
}

func TestFiftyCallersAtExpiryCauseOneExchange(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	x, c := exchange(t, options(i, clk)), credentials(t, options(i, clk))
	alice := subject("alice")
	for name, token := range map[string]func(context.Context) (string, error){
		"exchange": func(ctx context.Context) (string, error) { return x.Token(ctx, alice) }, "credentials": c.Token,
	} {
		for range 5 {
			before := i.count()
			got := crowd(t, 50, token)
			if n := i.count() - before; n != 1 || len(got) != 1 {
				t.Errorf("%s: %d requests, tokens %v", name, n, got)
			}
			clk.pass(54 * time.Minute) // to the end of its use
		}
	}
}

func TestFiftyCallersOfAProviderThatIsDownCauseOneRequest(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	i.says(503, "")
	x := exchange(t, options(i, clk))
	for round := range 3 {
		if got := crowd(t, 50, func(ctx context.Context) (string, error) { return x.Token(ctx, subject("alice")) }); len(got) != 1 || i.count() != round+1 {
			t.Errorf("round %d: %d requests, %v", round, i.count(), got)
		}
		clk.pass(rememberDown)
	}
}

func TestATokenForOneUseServesThoseWhoWaitForItAndNoOther(t *testing.T) {
	for _, life := range []any{0, -5, `"NaN"`, "null", 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{takes: time.Second, life: life}
			var out output
			x := f.exchange(t, Options{Upstream: "github", ClientID: "c", Log: out.log()})
			for round := 1; round <= 3; round++ {
				got := crowd(t, 3, func(ctx context.Context) (string, error) { return x.Token(ctx, subject("alice")) })
				if len(got) != 1 || f.count() != round {
					t.Errorf("expires_in %v, round %d: %v, %d requests", life, round, got, f.count())
				}
			}
			if odd := strings.Count(out.String(), "expires_in"); (odd == 1) != (life != 3 && life != 10) {
				t.Errorf("expires_in %v: log %s", life, out.String())
			}
			x.Close()
		})
	}
}

func TestATokenIsRenewedAheadWhileItStillServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: 3 * time.Second, life: 100} // used for 90 s, renewed from 81 s on
		x := f.exchange(t, Options{Upstream: "github", ClientID: "c"})
		alice := subject("alice")
		begin := time.Now()
		number := func() int {
			n, _ := of(get(t, x, alice))
			return n
		}
		at := func(d time.Duration) { time.Sleep(time.Until(begin.Add(d))) }
		if number() != 1 {
			t.Fatal("no token")
		}
		if at(80 * time.Second); number() != 1 || f.count() != 1 {
			t.Errorf("after 80 s: %d requests", f.count())
		}
		at(82 * time.Second)
		for range 20 { // all at once
			if number() != 1 {
				t.Error("a caller had to wait")
			}
			synctest.Wait()
		}
		at(84 * time.Second)
		if number(); f.count() != 2 {
			t.Errorf("while it is renewed: %d requests", f.count())
		}
		if at(86 * time.Second); number() != 2 || f.count() != 2 {
			t.Errorf("once renewed: %d requests", f.count())
		}
		x.Close()
	})
}

func TestARenewalThatFailsHarmsNobodyUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{life: 100}
		var out output
		c := f.credentials(t, Options{Upstream: "github", ClientID: "c", Log: out.log()})
		ask := func() error {
			_, err := c.Token(t.Context())
			synctest.Wait()
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		f.set(503)
		time.Sleep(82 * time.Second)
		for range 10 { // within 1 s
			if err := ask(); err != nil {
				t.Error(err)
			}
			time.Sleep(99 * time.Millisecond)
		}
		if f.count() != 2 || strings.Count(out.String(), "not renewed") != 1 {
			t.Errorf("%d requests; %s", f.count(), out.String())
		}
		if time.Sleep(20 * time.Millisecond); ask() != nil || f.count() != 3 {
			t.Errorf("after a second: %d requests", f.count())
		}
		if time.Sleep(10 * time.Second); ask() == nil {
			t.Error("a token that has ended is still used")
		}
		f.set(0)
		if time.Sleep(rememberDown); ask() != nil {
			t.Error("the provider is back, and yet")
		}
		c.Close()
	})
}

func TestARenewalThatBringsATokenForOneUseLeavesTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{life: 100}
		x := f.exchange(t, Options{Upstream: "github", ClientID: "c"})
		get(t, x, subject("alice"))
		f.life = 5
		time.Sleep(82 * time.Second)
		for range 70 { // within 7 s
			if n, _ := of(get(t, x, subject("alice"))); n != 1 {
				t.Errorf("the token of request %d", n)
			}
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		if n := f.count(); n != 8 {
			t.Errorf("%d requests: one a second may be made to renew", n)
		}
		x.Close()
	})
}

func TestAFlightThatBeginsTooLateTakesWhatIsThere(t *testing.T) {
	f := &fake{life: 3600}
	c := f.credentials(t, Options{Upstream: "github", ClientID: "c"})
	token, err := c.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// As by a caller that found nothing, and was held up until now.
	if got, err := c.k.fetch(t.Context(), &c.s, want{}, time.Now()); err != nil || got != token || f.count() != 1 {
		t.Errorf("%q, %v, %d requests", got, err, f.count())
	}
}

func TestManyRenewalsAtOnceWaitTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{life: 100}
		x := f.exchange(t, Options{Upstream: "github", ClientID: "c"})
		names := strings.Split(strings.Repeat("abcdefgh ", 20), " ")
		ask := func() {
			for n := range names {
				get(t, x, subject(names[n]+strings.Repeat("x", n)))
				synctest.Wait()
			}
		}
		ask()
		before := f.count()
		f.takes = time.Second
		time.Sleep(82 * time.Second)
		if ask(); f.count() != before+maxAhead {
			t.Errorf("%d renewals are under way", f.count()-before)
		}
		time.Sleep(2 * time.Second)
		if ask(); f.count() <= before+maxAhead {
			t.Error("the others have no turn")
		}
		x.Close()
	})
}

func TestACallerLeavesAloneAndTheOthersGetTheirToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: 5 * time.Second, life: 3600}
		x := f.exchange(t, Options{Upstream: "github", ClientID: "c"})
		alice := subject("alice")
		why := errors.New("the client went away")
		first, leave := context.WithCancelCause(t.Context())
		left, stayed := make(chan error, 1), make(chan error, 1)
		go func() { _, err := x.Token(first, alice); left <- err }()
		synctest.Wait()
		go func() { _, err := x.Token(t.Context(), alice); stayed <- err }()
		synctest.Wait()
		begin := time.Now()
		leave(why)
		if err := <-left; !errors.Is(err, why) || fault.From(err).Code != fault.CredentialFailed || time.Since(begin) > 0 {
			t.Errorf("the one who left: %v after %v", err, time.Since(begin))
		}
		if err := <-stayed; err != nil || f.count() != 1 {
			t.Errorf("the one who stayed: %v, %d requests", err, f.count())
		}
		if _, err := x.Token(first, alice); err != nil {
			t.Error("what is in memory needs no waiting:", err)
		}
		if _, err := x.Token(first, subject("bob")); !errors.Is(err, why) || f.count() != 1 {
			t.Errorf("a call that has ended asks nobody: %v, %d requests", err, f.count())
		}
		x.Close()
	})
}

func TestAFlightEndsByItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: time.Hour, life: 3600}
		c := f.credentials(t, Options{Upstream: "github", ClientID: "c"})
		begin := time.Now()
		if err := fails(t, c.Token); time.Since(begin) != 10*time.Second || !strings.Contains(err.Public(), "not available") {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		c.Close()
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: time.Minute, life: 3600}
		x, c := f.exchange(t, Options{Upstream: "github", ClientID: "c", Timeout: time.Hour}), f.credentials(t, Options{Upstream: "github", ClientID: "c"})
		held := subject("held")
		f.takes = 0
		get(t, x, held)
		f.takes = time.Minute
		ended := make(chan error, 2)
		go func() { _, err := x.Token(context.Background(), subject("alice")); ended <- err }()
		go func() { _, err := c.Token(context.Background()); ended <- err }()
		synctest.Wait()
		begin := time.Now()
		x.Close()
		c.Close()
		for range 2 {
			if f := fault.From(<-ended); f.Code != fault.CredentialFailed || !strings.Contains(f.Public(), "being replaced") {
				t.Error(f)
			}
		}
		if time.Since(begin) > 0 {
			t.Errorf("it took %v", time.Since(begin))
		}
		n := f.count()
		fails(t, c.Token)
		fails(t, func(ctx context.Context) (string, error) { return x.Token(ctx, held) })
		if f.count() != n {
			t.Error("something is asked for after Close")
		}
		x.Close()
		c.Close()
	})
}
