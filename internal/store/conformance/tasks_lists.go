package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

// inOrder sorts as lists do.
func inOrder(all []*store.Task) []*store.Task {
	slices.SortFunc(all, func(a, b *store.Task) int {
		if by := b.Created.Compare(a.Created); by != 0 {
			return by
		}
		if by := bytes.Compare(b.Hash[:], a.Hash[:]); by != 0 {
			return by
		}
		return bytes.Compare(b.Principal[:], a.Principal[:])
	})
	return all
}

// paged reads a list with pages of each size, and compares it with want.
func paged(t *testing.T, want []*store.Task, list func(after store.TaskPosition, limit int) ([]*store.Task, error)) {
	t.Helper()
	want = inOrder(slices.Clone(want))
	for _, limit := range []int{1, 3, len(want), len(want) + 1, 1000} {
		var got []*store.Task
		for after := (store.TaskPosition{}); ; after = got[len(got)-1].Position() {
			page, err := list(after, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("page of %d: %d records, error %v", limit, len(page), err)
			}
			if got = append(got, page...); len(page) == 0 {
				break
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("pages of %d: %s", limit, d)
		}
	}
	for _, limit := range []int{0, -1} {
		if page, err := list(store.TaskPosition{}, limit); err != nil || len(page) > 0 {
			t.Errorf("page of %d: %d records, error %v", limit, len(page), err)
		}
	}
}

func taskPages(t *testing.T, s *tasks) {
	r := s.with(t, 100, 100)
	var mine []*store.Task
	for i := range 12 {
		is := task(fmt.Sprint(i), 1)
		is.Created = noon.Add(time.Duration(i/4) * time.Second) // four at one time
		mine = append(mine, mint(t, r, is))
		is.Principal[0] = 2
		mint(t, r, is)
		is = task(fmt.Sprint("other", i), 1)
		is.Server = "other"
		mint(t, r, is)
	}
	paged(t, mine, func(after store.TaskPosition, limit int) ([]*store.Task, error) {
		return r.List(t.Context(), mine[0].Principal, "default", after, limit)
	})
	for _, no := range [][2]any{{[32]byte{9}, "default"}, {mine[0].Principal, ""}} {
		if page, err := r.List(t.Context(), no[0].([32]byte), no[1].(string), store.TaskPosition{}, 10); err != nil || len(page) > 0 {
			t.Errorf("%v has %d, error %v", no, len(page), err)
		}
	}
	// A list goes on behind a record that has gone, and is not disturbed by a
	// newer one.
	inOrder(mine)
	after := mine[3]
	if err := r.Delete(t.Context(), after.Hash, after.Principal); err != nil {
		t.Fatal(err)
	}
	newest := task("newest", 1)
	newest.Created = noon.Add(time.Hour)
	mint(t, r, newest)
	page, err := r.List(t.Context(), after.Principal, "default", store.TaskPosition{Created: after.Created, Hash: after.Hash}, 100)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(mine[4:], page); d != "" {
		t.Error(d)
	}
}

func taskPagesOfAll(t *testing.T, s *tasks) {
	r := s.with(t, 100, 100)
	var all, other []*store.Task
	for i := range 4 {
		for p := range byte(5) {
			is := task(fmt.Sprint(i), p)
			if p == 4 {
				is.Upstream, is.Server = "other", "other"
			}
			is = mint(t, r, is)
			all = append(all, is)
			if p == 4 {
				other = append(other, is)
			}
		}
	}
	paged(t, all, func(after store.TaskPosition, limit int) ([]*store.Task, error) {
		return r.All(t.Context(), "", after, limit)
	})
	paged(t, other, func(after store.TaskPosition, limit int) ([]*store.Task, error) {
		return r.All(t.Context(), "other", after, limit)
	})
	if page, err := r.All(t.Context(), "none", store.TaskPosition{}, 10); err != nil || len(page) > 0 {
		t.Errorf("an unknown upstream has %d, error %v", len(page), err)
	}
}

func taskExpires(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	short, long, unlimited, inUse := task("short", 1), task("long", 1), task("unlimited", 1), task("in use", 2)
	short.Expires = noon.Add(time.Minute)
	long.Expires = noon.Add(48 * time.Hour)
	unlimited.Expires, inUse.Expires = time.Time{}, time.Time{}
	for _, is := range []*store.Task{short, long, unlimited, inUse} {
		mint(t, r, is)
		owned(t, r, is)
	}
	const grace, idle = 10 * time.Minute, 24 * time.Hour
	sweep := func(want int) {
		t.Helper()
		now := s.clock.now()
		if n, err := r.Expire(t.Context(), now.Add(-grace), now.Add(-idle), 10); err != nil || n != want {
			t.Errorf("expired %d, error %v; want %d", n, err, want)
		}
	}
	sweep(0)
	s.clock.advance(time.Minute + grace)
	sweep(0)           // at its very end it is there still
	owned(t, r, short) // and is found, though it has expired
	s.clock.advance(time.Nanosecond)
	sweep(1)
	unowned(t, r, short, false)
	s.clock.advance(idle - time.Hour)
	if err := r.Touch(t.Context(), store.TaskTouch{Hash: inUse.Hash, Principal: inUse.Principal, Used: s.clock.now()}); err != nil {
		t.Fatal(err)
	}
	s.clock.advance(time.Hour)
	sweep(1)
	unowned(t, r, unlimited, false)
	owned(t, r, inUse)
	owned(t, r, long)
	sweep(0)
	counted(t, r, 2)
	s.clock.advance(3 * idle)
	sweep(2)
	counted(t, r, 0)
}

func taskExpiresInBatches(t *testing.T, s *tasks) {
	r := s.with(t, 1000, 1000)
	const n = 450 // more than any one transaction removes
	for i := range n {
		is := task(fmt.Sprint(i/2), byte(i%2))
		if i%3 == 0 {
			is.Expires = time.Time{}
		}
		mint(t, r, is)
	}
	s.clock.advance(48 * time.Hour)
	now := s.clock.now()
	left := n
	for _, limit := range []int{0, 7, 300, 1000} {
		gone, err := r.Expire(t.Context(), now, now, limit)
		if err != nil || gone != min(left, limit) {
			t.Fatalf("expired %d of %d with limit %d, error %v", gone, left, limit, err)
		}
		left -= gone
		counted(t, r, left)
	}
}
