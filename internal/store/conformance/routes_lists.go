package conformance

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

// ids of routes, in their order.
func ids(all []*store.Route) string {
	var names []string
	for _, is := range all {
		names = append(names, is.ID)
	}
	return strings.Join(names, " ")
}

func routeDue(t *testing.T, s *routes) {
	r := s.repository(t)
	for i, due := range []time.Duration{5, 3, 0, 3, 9, 2} {
		is := route(fmt.Sprint("r", i), "p", fmt.Sprint(i))
		if due > 0 {
			is.Due = noon.Add(due * time.Minute)
		}
		if i == 5 {
			is.Expires = noon.Add(3 * time.Minute)
		}
		begin(t, r, is)
	}
	for _, q := range []struct {
		at    time.Duration
		limit int
		want  string
	}{
		{1, 10, ""},
		{2, 10, "r5"},
		{3, 10, "r1 r3"}, // the fifth has expired
		{5, 10, "r1 r3 r0"},
		{5, 2, "r1 r3"},
		{59, 10, "r1 r3 r0 r4"},
		{60, 10, ""},
		{59, 0, ""},
	} {
		got, err := r.Due(t.Context(), noon.Add(q.at*time.Minute), q.limit)
		if err != nil || ids(got) != q.want {
			t.Errorf("at %d min, %d of them: %s, error %v; want %s", q.at, q.limit, ids(got), err, q.want)
		}
	}
	is, err := r.Get(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	is.Due = time.Time{}
	is = update(t, r, is, "terminal")
	if got, err := r.Due(t.Context(), noon.Add(5*time.Minute), 1); err != nil || ids(got) != "r3" {
		t.Errorf("%s, error %v", ids(got), err)
	}
	if got, err := r.Due(t.Context(), noon.Add(5*time.Minute), 10); err != nil || len(got) != 2 || got[0].Document == nil || ids(got) == is.ID {
		t.Errorf("%s, error %v", ids(got), err)
	}
}

func routePages(t *testing.T, s *routes) {
	r := s.repository(t)
	var want []string
	for i := range 120 { // several of each time
		is := route(fmt.Sprintf("r%03d", i), "p", fmt.Sprint(i))
		is.Created = noon.Add(time.Duration(i/7) * time.Millisecond)
		begin(t, r, is)
		want = append([]string{is.ID}, want...)
	}
	if got := ids(everyRoute(t, r)); got != strings.Join(want, " ") {
		t.Errorf("all: %s", got)
	}
	for _, limit := range []int{0, -1} {
		if got, err := r.List(t.Context(), store.RouteFilter{}, limit); err != nil || len(got) != 0 {
			t.Errorf("limit %d: %s, error %v", limit, ids(got), err)
		}
	}
	got, err := r.List(t.Context(), store.RouteFilter{Before: noon.Add(time.Millisecond)}, 100)
	if err != nil || ids(got) != strings.Join(want[113:], " ") {
		t.Errorf("before a time: %s, error %v", ids(got), err)
	}
}

func routeFilters(t *testing.T, s *routes) {
	r := s.repository(t)
	for i := range 16 {
		pick := func(bit int) string { return [2]string{"x", "y"}[i>>bit&1] }
		is := route(fmt.Sprintf("r%02d", i), pick(0), fmt.Sprint(i))
		is.Tenant, is.Upstream = pick(1), pick(2)
		begin(t, r, is)
		if pick(3) == "y" {
			update(t, r, is, "terminal")
		}
	}
	for mask := range 16 {
		var f store.RouteFilter
		var want []string
		for bit, field := range []*string{&f.Principal, &f.Tenant, &f.Upstream, &f.Phase} {
			if mask>>bit&1 == 1 {
				*field = "y"
			}
		}
		if f.Phase == "y" {
			f.Phase = "terminal"
		}
		for i := 15; i >= 0; i-- {
			if i&mask == mask {
				want = append(want, fmt.Sprintf("r%02d", i))
			}
		}
		if got, err := r.List(t.Context(), f, 100); err != nil || ids(got) != strings.Join(want, " ") {
			t.Errorf("%+v: %s, error %v", f, ids(got), err)
		}
		f.Before, f.BeforeID = noon, "r15"
		if got, err := r.List(t.Context(), f, 100); err != nil || ids(got) != strings.Join(want[1:], " ") {
			t.Errorf("%+v: %s, error %v", f, ids(got), err)
		}
	}
	if got, err := r.List(t.Context(), store.RouteFilter{Principal: "z"}, 100); err != nil || len(got) != 0 {
		t.Errorf("of nobody: %s, error %v", ids(got), err)
	}
}

func routeCounts(t *testing.T, s *routes) {
	r := s.repository(t)
	count := func(want map[string]int) {
		t.Helper()
		if got, err := r.Count(t.Context()); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%v, error %v; want %v", got, err, want)
		}
	}
	count(map[string]int{})
	for i := range 3 {
		is := begin(t, r, route(fmt.Sprint(i), "p", fmt.Sprint(i)))
		if i > 0 {
			update(t, r, is, "terminal")
		}
	}
	count(map[string]int{"prepared": 1, "terminal": 2})
}

func routeExpires(t *testing.T, s *routes) {
	r := s.repository(t)
	for i, minute := range []time.Duration{5, 3, 3, 8, 2} {
		is := route(fmt.Sprint("r", i), "p", fmt.Sprint(i))
		is.Expires = noon.Add(minute * time.Minute)
		update(t, r, begin(t, r, is), "dispatching")
		if _, _, err := r.Intend(t.Context(), &store.RouteUpdate{Route: is.ID, Digest: "x", At: noon}, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		minute time.Duration
		limit  int
		gone   int
		left   string
	}{
		{1, 10, 0, "r4 r3 r2 r1 r0"},
		{3, 0, 0, "r4 r3 r2 r1 r0"},
		{3, 2, 2, "r3 r2 r0"}, // r4 is the earliest, and r1 has the lower id
		{3, 2, 1, "r3 r0"},
		{5, 10, 1, "r3"}, // at its very time
		{9, 10, 1, ""},
	} {
		n, err := r.Expire(t.Context(), noon.Add(step.minute*time.Minute), step.limit)
		if left := ids(everyRoute(t, r)); err != nil || n != step.gone || left != step.left {
			t.Errorf("at %d min: %d gone, %q left, error %v; want %d, %q", step.minute, n, left, err, step.gone, step.left)
		}
	}
	for i := range 5 {
		id := fmt.Sprint("r", i)
		noRoute(t, r, id)
		if err := r.Resolve(t.Context(), id, "x", store.UpdatePrepared, store.UpdateSent, noon); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("resolve: %v", err)
		}
	}
	// Many go in several transactions.
	var wg sync.WaitGroup
	for w := range 45 {
		wg.Go(func() {
			for i := 10 * w; i < 10*w+10; i++ {
				if err := beginIn(t, r, route(fmt.Sprint("m", i), fmt.Sprint("p", i%3), fmt.Sprint(i)), noon, 450, 150); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := r.Expire(t.Context(), noon.Add(time.Hour), 430); err != nil || n != 430 {
		t.Errorf("%d gone, error %v", n, err)
	}
	if n := len(everyRoute(t, r)); n != 20 {
		t.Errorf("%d left", n)
	}
	if err := beginIn(t, r, route("fits", "q", "k"), noon, 21, 1); err != nil {
		t.Error(err)
	}
}
