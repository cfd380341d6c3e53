package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestAHangingUpstreamCostsOneTimeoutAndIsRetriedBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		slow := f.up("slow", tools("s"))
		f.up("fast", tools("f"))
		f.set(func() { slow.hang = true })
		s := serve(t, f, nil)

		start := time.Now()
		l := list(t, s, mcp.Tools)
		if took := time.Since(start); took != 3*time.Second || l.Count != 1 {
			t.Errorf("the first list took %s and has %d items, want 3s and 1", took, l.Count)
		}
		want := []Missing{{Upstream: "slow", Reason: "no answer within 3s"}}
		if diff := cmp.Diff(want, l.Missing); diff != "" {
			t.Error(diff)
		}
		for range 20 {
			start = time.Now()
			l = list(t, s, mcp.Tools)
			if took := time.Since(start); took != 0 || len(l.Missing) != 1 || l.TTL > time.Second {
				t.Errorf("a later list took %s, missing %v, ttl %s", took, l.Missing, l.TTL)
			}
			time.Sleep(700 * time.Millisecond)
		}
		// Somebody else does not wait for it either.
		start = time.Now()
		if _, err := s.List(t.Context(), bob, nil, mcp.Tools, mcp.LatestModern, "", false); err != nil || time.Since(start) != 0 {
			t.Errorf("another scope waits %s, %v", time.Since(start), err)
		}
		before := f.count("slow", mcp.Tools)
		if before < 3 || before > 12 {
			t.Errorf("in 14 s it was tried %d times", before)
		}

		f.set(func() { slow.hang = false })
		time.Sleep(9 * time.Second) // the walk under way, then the longest backoff
		if l = list(t, s, mcp.Tools); l.Count != 2 || l.Missing != nil {
			t.Errorf("after it recovered: %d items, missing %v", l.Count, l.Missing)
		}
	})
}

func TestAWalkThatRunsOutOfTimeServesWhatItGot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
			f := newFleet()
			u := f.up("u", nil)
			for p := range 10 {
				u.pages[mcp.Tools] = append(u.pages[mcp.Tools], result(mcp.Tools, fmt.Sprint(p+1), tool(fmt.Sprint("t", p))))
			}
			u.delay, u.era = 1400*time.Millisecond, era
			s := serve(t, f, nil)
			start := time.Now()
			l := list(t, s, mcp.Tools)
			want := []Missing{{Upstream: "u", Reason: "only the first 2 items were listed: no answer within 3s"}}
			if diff := cmp.Diff(want, l.Missing); diff != "" || l.Count != 2 || time.Since(start) != 3*time.Second {
				t.Errorf("%s: %d items after %s, missing: %s", era, l.Count, time.Since(start), diff)
			}
			if start = time.Now(); list(t, s, mcp.Tools).Count != 2 || time.Since(start) != 0 {
				t.Errorf("%s: the second list took %s", era, time.Since(start))
			}
		}
	})
}

func TestTheLastGoodListIsServedMarkedStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		u := f.up("u", tools("a", "b"))
		f.up("v", tools("c"))
		s := serve(t, f, nil)
		if l := list(t, s, mcp.Tools); l.Count != 3 || l.TTL != time.Minute || !l.Public {
			t.Fatalf("first list: %d items, ttl %s, public %v", l.Count, l.TTL, l.Public)
		}
		f.set(func() { u.err = fault.New(fault.UpstreamUnavailable, "it refused the connection") })
		time.Sleep(59 * time.Second)
		if l := list(t, s, mcp.Tools); l.TTL != time.Second || l.Missing != nil {
			t.Errorf("within its ttl: ttl %s, missing %v", l.TTL, l.Missing)
		}
		time.Sleep(2 * time.Second)
		l := list(t, s, mcp.Tools)
		want := []Missing{{Upstream: "u", Reason: "it refused the connection", Stale: true}}
		if diff := cmp.Diff(want, l.Missing); diff != "" || l.Count != 3 {
			t.Errorf("%d items, missing: %s", l.Count, diff)
		}
		goesTo(t, s, mcp.Tools, "u__a", "u", "a")

		f.set(func() { u.err = nil; u.pages[mcp.Tools] = []string{result(mcp.Tools, "", tool("new"))} })
		time.Sleep(time.Second)
		if got := all(t, s, alice, mcp.Tools); !slices.Equal(got, []string{"u__new", "v__c"}) {
			t.Errorf("after it recovered: %q", got)
		}
	})
}

// Whatever wait its failures have earned it, a list is asked for at once when
// the upstream is said to have changed; whoever asked meanwhile did not wait,
// and an upstream that fails again is back at its wait.
func TestAFailingListIsTriedAtOnceAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		u := f.up("u", tools("a"))
		f.up("v", tools("c"))
		f.set(func() { u.err = fault.New(fault.UpstreamUnavailable, "down") })
		s := serve(t, f, nil)
		list(t, s, mcp.Tools)
		for range 40 { // to the longest wait
			time.Sleep(time.Second)
			list(t, s, mcp.Tools)
		}
		for before := f.count("u", mcp.Tools); f.count("u", mcp.Tools) == before; {
			time.Sleep(50 * time.Millisecond)
		} // just tried

		tries := f.count("u", mcp.Tools)
		s.Invalidate("u", mcp.Tools, true)
		for range 10 {
			list(t, s, mcp.Tools)
			synctest.Wait()
		}
		if got := f.count("u", mcp.Tools) - tries; got != 1 {
			t.Errorf("%d tries after one change", got)
		}

		f.set(func() { u.err = nil })
		s.Invalidate("u", mcp.Tools, true)
		list(t, s, mcp.Tools)
		synctest.Wait()
		if l := list(t, s, mcp.Tools); l.Count != 2 || len(l.Missing) != 0 {
			t.Errorf("%d items, missing %+v", l.Count, l.Missing)
		}
	})
}

func TestRetriesEndAMinuteAfterTheLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.up("u", nil).err = fault.New(fault.UpstreamUnavailable, "down")
		f.up("v", tools("c"))
		s := serve(t, f, nil)
		list(t, s, mcp.Tools)
		list(t, s, mcp.Tools)
		time.Sleep(2 * time.Minute)
		after := f.count("u", mcp.Tools)
		time.Sleep(time.Hour)
		if now := f.count("u", mcp.Tools); now != after {
			t.Errorf("%d more tries in an hour in which nobody asked", now-after)
		}
		list(t, s, mcp.Tools) // wakes the retry
		time.Sleep(time.Second)
		if now := f.count("u", mcp.Tools); now <= after {
			t.Error("nobody tries again although somebody asked")
		}
	})
}

func TestTTLIsTheMinimumAndLegacyPromisesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.up("a", tools("x"))
		b := f.up("b", nil)
		b.answer = func(Scope, mcp.Kind, []byte) (string, error) {
			return `{"tools":[],"ttlMs":5000,"cacheScope":"public"}`, nil
		}
		s := serve(t, f, nil)
		if l := list(t, s, mcp.Tools); l.TTL != 5*time.Second || !l.Public {
			t.Errorf("ttl %s public %v", l.TTL, l.Public)
		}
		time.Sleep(6 * time.Second)
		list(t, s, mcp.Tools)
		if a, b := f.count("a", mcp.Tools), f.count("b", mcp.Tools); a != 1 || b != 2 {
			t.Errorf("asked %d and %d times, want 1 and 2", a, b)
		}

		f.up("old", tools("y")).era = mcp.Legacy
		s = serve(t, f, nil)
		for range 3 {
			if l := list(t, s, mcp.Tools); l.TTL != 0 || l.Public {
				t.Errorf("with a legacy upstream: ttl %s public %v", l.TTL, l.Public)
			}
		}
		if n := f.count("old", mcp.Tools); n != 1 {
			t.Errorf("a legacy list was asked for %d times within a second", n)
		}
		time.Sleep(1100 * time.Millisecond)
		list(t, s, mcp.Tools)
		if n := f.count("old", mcp.Tools); n != 2 {
			t.Errorf("a legacy list was asked for %d times, want 2", n)
		}
	})
}

func TestWithoutTTLEveryListIsNewAndConcurrentOnesShareIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ttl := range []string{`"ttlMs":0,`, `"ttlMs":-5,`, `"ttlMs":"soon",`, ``} {
			f := newFleet()
			u := f.up("u", nil)
			u.delay = 100 * time.Millisecond
			u.answer = func(Scope, mcp.Kind, []byte) (string, error) {
				return `{` + ttl + `"cacheScope":"public","tools":[` + tool("a") + `]}`, nil
			}
			s := serve(t, f, nil)
			list(t, s, mcp.Tools)
			list(t, s, mcp.Tools)
			if n := f.count("u", mcp.Tools); n != 2 {
				t.Errorf("%q: asked %d times for two lists", ttl, n)
			}
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					if _, err := s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, "", false); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := f.count("u", mcp.Tools); n < 3 {
				t.Errorf("%q: fifty lists at once asked %d times", ttl, n-2)
			}
		}
	})
}

func TestListChangedIsSeenByTheNextListAndCall(t *testing.T) {
	f := newFleet()
	u := f.up("u", tools("old"))
	f.up("v", tools("c"))
	s := serve(t, f, nil)
	goesTo(t, s, mcp.Tools, "u__old", "u", "old")
	f.set(func() { u.pages[mcp.Tools] = []string{result(mcp.Tools, "", tool("new"))} })
	s.Invalidate("u", mcp.Tools, false)
	isRefused(t, s, mcp.Tools, "u__old")
	goesTo(t, s, mcp.Tools, "u__new", "u", "new")
	s.Invalidate("u", mcp.Tools, false)
	if got := all(t, s, alice, mcp.Tools); !slices.Equal(got, []string{"u__new", "v__c"}) {
		t.Errorf("got %q", got)
	}
	if n := f.count("v", mcp.Tools); n != 1 {
		t.Errorf("the other upstream was asked %d times", n)
	}
}

func TestAChangeDuringAWalkIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		u := f.up("u", tools("old"))
		f.set(func() { u.delay = time.Second })
		s := serve(t, f, nil)
		go func() { _, _ = s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, "", false) }()
		time.Sleep(500 * time.Millisecond)
		f.set(func() { u.pages[mcp.Tools] = []string{result(mcp.Tools, "", tool("new"))} })
		s.Invalidate("u", mcp.Tools, false)
		// The walk under way took the upstream's answer apart already.
		if got := all(t, s, alice, mcp.Tools); !slices.Equal(got, []string{"u__new"}) {
			t.Errorf("got %q", got)
		}
		if n := f.count("u", mcp.Tools); n != 2 {
			t.Errorf("asked %d times, want once more after the change", n)
		}
	})
}

func TestAnUnknownNameAsksAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		u := f.up("u", tools("a"))
		f.up("v", tools("a"))
		s := serve(t, f, nil)
		for range 100 {
			isRefused(t, s, mcp.Tools, "u__nothing")
			isRefused(t, s, mcp.Tools, "no_prefix")
		}
		if n := f.count("u", mcp.Tools); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if n := f.count("v", mcp.Tools); n != 0 {
			t.Errorf("an upstream that the name does not point at was asked %d times", n)
		}
		f.set(func() { u.pages[mcp.Tools] = []string{result(mcp.Tools, "", tool("nothing"))} })
		time.Sleep(1100 * time.Millisecond)
		goesTo(t, s, mcp.Tools, "u__nothing", "u", "nothing")
	})
}

func TestANameOfAnUpstreamThatNeverListed(t *testing.T) {
	f := newFleet()
	f.up("down", nil).err = fault.New(fault.UpstreamUnavailable, "it refused the connection")
	f.up("mute", nil).err = fault.New(fault.Internal, "it failed to list")
	f.up("ok", tools("a"))
	s := serve(t, f, nil)
	_, err := s.Resolve(t.Context(), alice, mcp.Tools, "down__x")
	if codeOf(err) != fault.UpstreamUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
	if got := goesTo(t, s, mcp.Tools, "mute__x", "mute", "x"); got.Known {
		t.Error("it is called known")
	}
	isRefused(t, s, mcp.Tools, "mute__"+strings.Repeat("x", 80))
}

// Where callers have credentials of their own, a refusal of one is no outage.
func TestAFailureForOneCallerIsNoFailureForAnother(t *testing.T) {
	f := newFleet()
	u := f.up("u", nil)
	u.answer = func(scope Scope, _ mcp.Kind, _ []byte) (string, error) {
		if scope == bob {
			return "", fault.New(fault.CredentialFailed, "refused")
		}
		return `{"tools":[` + tool("t") + `],"ttlMs":60000,"cacheScope":"public"}`, nil
	}
	s := serve(t, f, func(o *Options) { o.Members[0].PerCaller = true })
	carol := Scope{Principal: [32]byte{9}}
	for range 2 {
		if _, err := s.List(t.Context(), bob, nil, mcp.Tools, mcp.LatestModern, "", false); codeOf(err) != fault.UpstreamUnavailable {
			t.Errorf("who is refused got %v", err)
		}
		for _, scope := range []Scope{alice, carol} {
			l, err := s.List(t.Context(), scope, nil, mcp.Tools, mcp.LatestModern, "", false)
			if err != nil || l.Count != 1 || len(l.Missing) != 0 || !l.Public {
				t.Errorf("another got %d items, missing %v, public %v, %v", l.Count, l.Missing, l.Public, err)
			}
		}
	}
	if n := f.count("u", mcp.Tools); n < 3 {
		t.Errorf("three callers asked %d times", n)
	}
}

func TestPrivateListsAreNeverServedToAnother(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			f := newFleet()
			u := f.up("u", nil)
			u.era = era
			u.answer = func(scope Scope, _ mcp.Kind, _ []byte) (string, error) {
				name := fmt.Sprintf("tool_of_%d_%s", scope.Principal[0], scope.Caps)
				return `{"tools":[` + tool(name) + `],"ttlMs":60000,"cacheScope":"private"}`, nil
			}
			f.up("shared", tools("s"))
			s := serve(t, f, nil)
			scopes := []Scope{alice, bob, {Principal: [32]byte{1}, Caps: "sampling"}}
			var wg sync.WaitGroup
			for range 30 {
				for _, scope := range scopes {
					wg.Go(func() {
						l, err := s.List(t.Context(), scope, nil, mcp.Tools, mcp.LatestModern, "", false)
						want := []string{"shared__s", fmt.Sprintf("u__tool_of_%d_%s", scope.Principal[0], scope.Caps)}
						if err != nil || l.Public || !slices.Equal(ids(t, mcp.Tools, l), want) {
							t.Errorf("got %s public %v, %v; want %q", l.Items, l.Public, err, want)
						}
						if _, err := s.Resolve(t.Context(), scope, mcp.Tools, want[1]); err != nil {
							t.Error(err)
						}
					})
				}
			}
			wg.Wait()
			if _, err := s.Resolve(t.Context(), bob, mcp.Tools, "u__tool_of_1_"); codeOf(err) != fault.InvalidParams {
				t.Errorf("bob resolves a tool of alice: %v", err)
			}
		})
	}
}

func TestAListThatTurnsPrivateLeavesTheSharedOne(t *testing.T) {
	f := newFleet()
	u := f.up("u", tools("everybodys"))
	s := serve(t, f, nil)
	all(t, s, alice, mcp.Tools)
	if got := all(t, s, bob, mcp.Tools); !slices.Equal(got, []string{"u__everybodys"}) || f.count("u", mcp.Tools) != 1 {
		t.Fatalf("a public list is not shared: %q, asked %d times", got, f.count("u", mcp.Tools))
	}
	f.set(func() {
		u.answer = func(scope Scope, _ mcp.Kind, _ []byte) (string, error) {
			return fmt.Sprintf(`{"tools":[{"name":"of%d"}],"ttlMs":60000,"cacheScope":"private"}`, scope.Principal[0]), nil
		}
	})
	s.Invalidate("u", mcp.Tools, false)
	for range 2 {
		if a, b := all(t, s, alice, mcp.Tools), all(t, s, bob, mcp.Tools); a[0] != "u__of1" || b[0] != "u__of2" {
			t.Errorf("alice sees %q, bob %q", a, b)
		}
	}
	f.set(func() { u.answer = nil })
	s.Invalidate("u", mcp.Tools, false)
	if a, b := all(t, s, alice, mcp.Tools), all(t, s, bob, mcp.Tools); a[0] != "u__everybodys" || b[0] != a[0] {
		t.Errorf("public again: alice sees %q, bob %q", a, b)
	}
}

func TestPagesOfOneWalkAgreeOnTheirScope(t *testing.T) {
	f := newFleet()
	u := f.up("u", tools("a", "b", "c"))
	private := `{"tools":[` + tool("a") + `,` + tool("b") + `,` + tool("c") + `],"ttlMs":60000,"cacheScope":"private"}`
	f.set(func() { u.pages[mcp.Tools] = []string{private} })
	s := serve(t, f, func(o *Options) { o.PageSize = 1 })
	l := list(t, s, mcp.Tools)
	f.set(func() { u.pages[mcp.Tools] = []string{strings.Replace(private, "private", "public", 1)} })
	s.Invalidate("u", mcp.Tools, false)
	for l.Next != "" {
		if l.Public {
			t.Error("a walk that began private turned public")
		}
		var err error
		if l, err = s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, l.Next, true); err != nil {
			t.Fatal(err)
		}
	}
	if l = list(t, s, mcp.Tools); !l.Public {
		t.Error("a new walk is still private")
	}
}

func TestPrivateListsAndViewsStayWithinTheirBounds(t *testing.T) {
	f := newFleet()
	f.up("u", nil).answer = func(scope Scope, _ mcp.Kind, _ []byte) (string, error) {
		return fmt.Sprintf(`{"tools":[{"name":"t","description":"%d %d %s"}],"ttlMs":60000,"cacheScope":"private"}`,
			scope.Principal[0], scope.Principal[1], strings.Repeat("x", 10000)), nil
	}
	s := serve(t, f, func(o *Options) { o.CacheBytes = 100000 })
	for i := range 200 {
		scope := Scope{Principal: [32]byte{byte(i), 7}}
		if got := all(t, s, scope, mcp.Tools); len(got) != 1 {
			t.Fatalf("got %q", got)
		}
	}
	s.Close()
	if _, held := s.sets.swap(nil, nil); held > 120000 {
		t.Errorf("%d bytes of lists are held", held)
	}
	held := 0
	for _, p := range s.rendered.tables {
		if tab := p.Value(); tab != nil {
			for i := range tab.views {
				if v := tab.views[i].Load(); v != nil {
					held += len(v.items)
				}
			}
		}
	}
	if held > 120000 {
		t.Errorf("%d bytes of views are held", held)
	}
}

func TestEqualPrivateListsShareTheirBytes(t *testing.T) {
	f := newFleet()
	u := f.up("u", tools("a"))
	u.era = mcp.Legacy
	s := serve(t, f, nil)
	one, err := s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, "", false)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.List(t.Context(), bob, nil, mcp.Tools, mcp.V20251125, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if &one.Items[0] != &two.Items[0] {
		t.Error("two principals and revisions with one view hold it twice")
	}
}

func TestProjectionIsPerRevision(t *testing.T) {
	f := newFleet()
	f.up("u", tools("a"))
	s := serve(t, f, func(o *Options) {
		o.Project = func(kind mcp.Kind, rev mcp.Revision, dst, item []byte) []byte {
			return fmt.Appendf(append(dst, item[:len(item)-1]...), `,"rev":"%s %s"}`, kind, rev)
		}
	})
	for _, rev := range []mcp.Revision{mcp.V20250326, mcp.V20260728, mcp.V20250326} {
		l, err := s.List(t.Context(), alice, nil, mcp.Tools, rev, "", false)
		if err != nil || items(t, l)[0]["rev"] != "tools "+rev.String() {
			t.Errorf("%s: got %s, %v", rev, l.Items, err)
		}
	}
}

func TestARequestThatEndsDoesNotEndTheWalkOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		u := f.up("u", tools("a"))
		f.set(func() { u.delay = time.Second })
		s := serve(t, f, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := s.List(ctx, alice, nil, mcp.Tools, mcp.LatestModern, "", false); err == nil || time.Since(start) != 100*time.Millisecond {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
		if l := list(t, s, mcp.Tools); l.Count != 1 || f.count("u", mcp.Tools) != 1 {
			t.Errorf("%d items, asked %d times", l.Count, f.count("u", mcp.Tools))
		}
	})
}

func TestCloseEndsWhatRunsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.up("u", nil).hang = true
		f.up("v", tools("a"))
		s := serve(t, f, nil)
		list(t, s, mcp.Tools)
		list(t, s, mcp.Tools)
		time.Sleep(time.Second) // a retry is under way
		start := time.Now()
		s.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %s", took)
		}
		if l := list(t, s, mcp.Tools); l.Count != 1 {
			t.Errorf("after Close: %d items", l.Count)
		}
	})
}

func TestEverythingAtOnceUnderTheRaceDetector(t *testing.T) {
	f := newFleet()
	u := f.up("u", nil)
	f.up("v", map[mcp.Kind][]string{mcp.Tools: {tool("a")}, mcp.Resources: {resource("m://x", "x")}, mcp.Templates: {uriTemplate("t://{x}", "t")}})
	n := 0
	var mu sync.Mutex
	u.answer = func(scope Scope, kind mcp.Kind, _ []byte) (string, error) {
		mu.Lock()
		n++
		i := n
		mu.Unlock()
		switch i % 4 {
		case 0:
			return "", fault.New(fault.UpstreamTimeout, "no answer")
		case 1:
			return fmt.Sprintf(`{"%s":[],"cacheScope":"private"}`, kind), nil
		}
		return fmt.Sprintf(`{"tools":[{"name":"t%d"}],"cacheScope":"public","ttlMs":%d}`, i, i%3), nil
	}
	s := serve(t, f, func(o *Options) { o.CacheBytes = 500 })
	var wg sync.WaitGroup
	for g := range 8 {
		scope := Scope{Principal: [32]byte{byte(g % 3)}}
		wg.Go(func() {
			for i := range 60 {
				kind := mcp.Kind(i % int(mcp.NumKinds))
				if l, err := s.List(t.Context(), scope, nil, kind, mcp.Revision(i%5), "", false); err == nil {
					items(t, l)
				}
				got, err := s.Resolve(t.Context(), scope, mcp.Tools, "v__a")
				if err != nil || got.Upstream != "v" {
					t.Errorf("v__a: %+v, %v", got, err)
				}
				_, _ = s.Resolve(t.Context(), scope, mcp.Resources, "m://x")
				_, _ = s.Resolve(t.Context(), scope, mcp.Resources, fmt.Sprint("t://", i))
				s.Remember("u", fmt.Sprint("r://", i))
				if i%7 == 0 {
					s.Invalidate("u", kind, i%2 == 0)
				}
				s.Collisions()
				s.Explain(t.Context(), scope, "v__a")
			}
		})
	}
	wg.Wait()
}
