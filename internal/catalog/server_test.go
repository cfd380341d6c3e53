package catalog

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestNewStartsAndAsksNothing(t *testing.T) {
	f := twoGateways()
	s := serve(t, f, nil)
	s.Close()
	if len(f.calls) != 0 {
		t.Errorf("got %v", f.calls)
	}
}

func TestAServerWithoutUpstreamsOffersNothing(t *testing.T) {
	s := serve(t, newFleet(), nil)
	for kind := range mcp.NumKinds {
		if got := all(t, s, alice, kind); got != nil {
			t.Errorf("%s: got %q", kind, got)
		}
		isRefused(t, s, kind, "x__y")
	}
}

func TestRefreshBringsTheNewestSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		annotated := func(header string) string {
			return fmt.Sprintf(`{"name":"t","inputSchema":{"properties":{"p":{"type":"string","x-mcp-header":%q}}}}`, header)
		}
		f := newFleet()
		u := f.up("u", map[mcp.Kind][]string{mcp.Tools: {annotated("Old")}})
		f.up("v", tools("x"))
		s := serve(t, f, nil)
		header := func() string { return goesTo(t, s, mcp.Tools, "u__t", "u", "t").Params[0].Header }
		if got := header(); got != "Old" {
			t.Fatalf("got %q", got)
		}
		f.set(func() { u.pages[mcp.Tools] = []string{result(mcp.Tools, "", annotated("New"))} })
		if err := s.Refresh(t.Context(), alice, mcp.Tools, "u"); err != nil || header() != "Old" {
			t.Errorf("within a second: %q, %v", header(), err)
		}
		time.Sleep(1100 * time.Millisecond)
		if err := s.Refresh(t.Context(), alice, mcp.Tools, "u"); err != nil || header() != "New" {
			t.Errorf("a second later: %q, %v", header(), err)
		}
		f.set(func() { u.pages[mcp.Tools] = []string{result(mcp.Tools, "", annotated("Newest"))} })
		s.Invalidate("u", mcp.Tools, false)
		if err := s.Refresh(t.Context(), alice, mcp.Tools, "u"); err != nil || header() != "Newest" {
			t.Errorf("after it was invalidated: %q, %v", header(), err)
		}
		if n := f.count("v", mcp.Tools); n != 0 {
			t.Errorf("another upstream was asked %d times", n)
		}
		if err := s.Refresh(t.Context(), alice, mcp.Tools, "ghost"); codeOf(err) != fault.Internal {
			t.Errorf("an unknown upstream: %v", err)
		}
	})
}

func TestNamesForResultsFollowTheTable(t *testing.T) {
	f := newFleet()
	f.up("a", tools("b-c", "x:y"))
	f.up("a-b", tools("c"))
	s := serve(t, f, prefixed)
	if got := s.ExposeName("a", mcp.Tools, "b-c"); got != "a-b-c" {
		t.Errorf("before anything was listed: got %q", got)
	}
	all(t, s, alice, mcp.Tools)
	for _, tc := range []struct{ upstream, name string }{{"a", "b-c"}, {"a", "x:y"}, {"a-b", "c"}} {
		goesTo(t, s, mcp.Tools, s.ExposeName(tc.upstream, mcp.Tools, tc.name), tc.upstream, tc.name)
	}
	if got := s.ExposeName("a", mcp.Resources, "m://x"); got != "a-m://x" {
		t.Errorf("a URI: got %q", got)
	}
}

func TestPropertyAWalkGivesEveryItemOnceInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFleet()
		want := map[string]bool{}
		for _, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,3}`), 1, 4, rapid.ID[string]).Draw(rt, "keys") {
			names := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9.-]{1,8}`), 0, 20, rapid.ID[string]).Draw(rt, key)
			f.up(key, tools(names...))
			for _, n := range names {
				want[key+"__"+n] = true
			}
		}
		s := serve(t, f, func(o *Options) { o.PageSize = rapid.IntRange(1, 30).Draw(rt, "page") })
		got := all(t, s, alice, mcp.Tools)
		sorted := make([]string, 0, len(want))
		for n := range want {
			sorted = append(sorted, n)
		}
		slices.Sort(sorted)
		if len(sorted) == 0 {
			sorted = nil
		}
		if diff := cmp.Diff(sorted, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestPropertyWhatStaysIsListedOnceWhileTheRestComesAndGoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFleet()
		name := rapid.StringMatching(`[a-z]{1,3}`)
		stay := rapid.SliceOfNDistinct(name, 1, 10, rapid.ID[string]).Draw(rt, "stay")
		come := func(label string) []string {
			out := slices.Clone(stay)
			for _, n := range rapid.SliceOfN(name, 0, 10).Draw(rt, label) {
				if !slices.Contains(out, n) {
					out = append(out, n)
				}
			}
			return out
		}
		u := f.up("u", tools(come("first")...))
		s := serve(t, f, func(o *Options) { o.PageSize = rapid.IntRange(1, 4).Draw(rt, "page") })
		seen := map[string]int{}
		l, err := s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, "", false)
		for {
			if err != nil {
				rt.Fatal(err)
			}
			for _, id := range ids(t, mcp.Tools, l) {
				seen[id]++
			}
			if l.Next == "" {
				break
			}
			var next []string
			for _, n := range come("next") {
				next = append(next, tool(n))
			}
			f.set(func() { u.pages[mcp.Tools] = []string{result(mcp.Tools, "", next...)} })
			s.Invalidate("u", mcp.Tools, false)
			l, err = s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, l.Next, true)
		}
		for _, n := range stay {
			if seen["u__"+n] != 1 {
				rt.Fatalf("%q, which was there all the time, is listed %d times", n, seen["u__"+n])
			}
		}
		for id, n := range seen {
			if n != 1 {
				rt.Fatalf("%q is listed %d times", id, n)
			}
		}
	})
}
