package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
)

// shop is Owners that tests script.
type shop struct {
	mu      sync.Mutex // guards what follows
	states  map[string]string
	errs    map[string]error
	hidden  map[string]bool
	same    any // nil: it does not notify
	deaf    bool
	watch   *shopWatch
	watches int
	looks   []string
	lasts   time.Duration // of a look
}

type shopWatch struct {
	shop   *shop
	f      *Follow
	wants  []mcp.Filter
	closed bool
}

func (w *shopWatch) Want(f mcp.Filter) {
	w.shop.mu.Lock()
	w.wants = append(w.wants, f)
	deaf := w.shop.deaf
	w.shop.mu.Unlock()
	if deaf {
		f = mcp.Filter{}
	}
	w.f.Honoured(f, f)
}

func (w *shopWatch) Close() {
	w.shop.mu.Lock()
	defer w.shop.mu.Unlock()
	w.closed = true
}

func (s *shop) Watch(_ FollowKey, f *Follow) Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches++
	s.watch = &shopWatch{shop: s, f: f}
	return s.watch
}

func (s *shop) Same(FollowKey) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.same
}

func (s *shop) Shows(_ FollowKey, t *store.Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.hidden[t.Tool]
}

func (s *shop) Look(ctx context.Context, _ FollowKey, _ *store.Task, id string) (*State, error) {
	s.mu.Lock()
	s.looks = append(s.looks, id)
	raw, err, lasts := s.states[id], s.errs[id], s.lasts
	s.mu.Unlock()
	if lasts > 0 {
		select {
		case <-time.After(lasts):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	return ReadState(id, []byte(raw))
}

func (s *shop) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *shop) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.looks)
}

func stands(id, status, more string) string {
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"pollIntervalMs":2000%s}`, id, status, more)
}

// following runs a test with Follows over a shop.
func following(t *testing.T, notify bool, f func(t *testing.T, s *shop, all *Follows)) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{states: map[string]string{}, errs: map[string]error{}, hidden: map[string]bool{}}
		if notify {
			s.same = 1
		}
		all := NewFollows(slog.New(slog.DiscardHandler))
		all.Rebind(s)
		defer all.Close()
		f(t, s, all)
	})
}

func ear(all *Follows, ids ...string) *Ear {
	e := all.Listen(func() {})
	for _, id := range ids {
		e.Add(FollowKey{Upstream: "up"}, &store.Task{Tool: id}, id)
	}
	return e
}

// took is what waits for an ear, after so long.
func took(e *Ear, after time.Duration) string {
	time.Sleep(after)
	synctest.Wait()
	var out []string
	for _, told := range e.Take() {
		out = append(out, told.ID+" "+told.State.Status)
	}
	return strings.Join(out, ", ")
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestAMuteUpstreamIsAskedAtTheTasksOwnInterval(t *testing.T) {
	following(t, false, func(t *testing.T, s *shop, all *Follows) {
		s.states["a"] = stands("a", "working", "")
		e, other := ear(all, "a"), ear(all, "a")
		want(t, took(e, time.Second), "")
		if n := s.looked(); n != 1 {
			t.Errorf("%d looks within a second", n)
		}
		want(t, took(e, time.Minute), "")
		if n := s.looked(); n < 27 || n > 32 {
			t.Errorf("%d looks within a minute", n)
		}
		s.set(func() { s.states["a"] = stands("a", "input_required", "") })
		want(t, took(e, 3*time.Second), "a input_required")
		s.set(func() {
			s.states["a"] = `{"status":"input_required","_meta":{"x":1},"resultType":"complete","pollIntervalMs":2000,"taskId":"a"}`
		})
		want(t, took(e, 10*time.Second), "") // the same, in other words
		s.set(func() { s.states["a"] = stands("a", "completed", "") })
		want(t, took(e, 3*time.Second), "a completed")
		want(t, took(other, 0), "a completed") // who does not keep up is told how it stands last
		n := s.looked()
		want(t, took(e, time.Hour)+took(other, 0), "")
		if s.looked() != n || all.Tasks() != 0 {
			t.Errorf("%d looks at what has ended, %d tasks", s.looked()-n, all.Tasks())
		}
	})
}

func TestATaskIsToldOfAtOnceUnlessItOnlyWorks(t *testing.T) {
	following(t, false, func(t *testing.T, s *shop, all *Follows) {
		s.states["a"], s.states["b"], s.states["c"] = stands("a", "working", ""), stands("b", "input_required", ""), stands("c", "failed", "")
		e := ear(all, "a", "b", "c")
		got := strings.Split(took(e, time.Millisecond), ", ")
		slices.Sort(got)
		want(t, strings.Join(got, ", "), "b input_required, c failed")
		want(t, took(ear(all, "a", "b"), 0), "b input_required")
		if n := s.looked(); n != 3 {
			t.Errorf("%d looks", n)
		}
	})
}

func TestAnUpstreamThatTellsIsHardlyAsked(t *testing.T) {
	following(t, true, func(t *testing.T, s *shop, all *Follows) {
		s.states["a"] = stands("a", "working", "")
		e := ear(all, "a")
		want(t, took(e, time.Second), "")
		n := s.looked()
		if n > 2 || s.watches != 1 {
			t.Errorf("%d looks, %d watches", n, s.watches)
		}
		want(t, took(e, 50*time.Second), "")
		if s.looked() != n {
			t.Errorf("%d looks at what is told of", s.looked()-n)
		}
		s.set(func() { s.states["a"] = stands("a", "input_required", "") })
		s.watch.f.Task("a", []byte(stands("a", "input_required", "")))
		s.watch.f.Task("other", []byte(stands("other", "completed", "")))
		s.watch.f.Task("a", []byte(stands("b", "completed", ""))) // not about it
		want(t, took(e, 0), "a input_required")
		s.watch.f.Task("a", []byte(stands("a", "completed", "")))
		s.watch.f.Task("a", []byte(stands("a", "working", "")))
		want(t, took(e, 0), "a completed")
		synctest.Wait()
		if !s.watch.closed || all.Tasks() != 0 {
			t.Error("it is heard of nothing")
		}
	})
}

func TestALostStreamIsMadeUpForByLooks(t *testing.T) {
	following(t, true, func(t *testing.T, s *shop, all *Follows) {
		s.states["a"] = stands("a", "working", "")
		e := ear(all, "a")
		want(t, took(e, time.Second), "")
		s.set(func() { s.states["a"] = stands("a", "input_required", "") })
		s.watch.f.Reopened() // it was away for a moment
		want(t, took(e, time.Millisecond), "a input_required")
		s.watch.f.Honoured(mcp.Filter{}, mcp.Filter{}) // and is away now
		s.set(func() { s.states["a"] = stands("a", "working", `,"statusMessage":"on"`) })
		want(t, took(e, 3*time.Second), "a working")
		n := s.looked()
		took(e, 20*time.Second)
		if k := s.looked() - n; k < 8 {
			t.Errorf("%d looks", k)
		}
	})
}

func TestALookIsNoNewerThanWhatWasToldMeanwhile(t *testing.T) {
	following(t, true, func(t *testing.T, s *shop, all *Follows) {
		s.states["a"] = stands("a", "working", "")
		e := ear(all, "a")
		want(t, took(e, time.Second), "")
		s.set(func() { s.lasts = 500 * time.Millisecond })
		s.watch.f.Reopened()
		time.Sleep(100 * time.Millisecond)
		s.set(func() { s.states["a"] = stands("a", "input_required", "") })
		s.watch.f.Task("a", []byte(stands("a", "input_required", "")))
		want(t, took(e, 100*time.Millisecond), "a input_required")
		want(t, took(e, 10*time.Second), "")
	})
}

func TestListenersOfManyTasksAreOneWatch(t *testing.T) {
	following(t, true, func(t *testing.T, s *shop, all *Follows) {
		var ears []*Ear
		for i := range 100 {
			a, b := fmt.Sprintf("a%02d", i), "shared"
			s.set(func() { s.states[a], s.states[b] = stands(a, "working", ""), stands(b, "working", "") })
			ears = append(ears, ear(all, a, b))
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if s.watches != 1 || len(s.watch.wants) > 3 || len(s.watch.wants[len(s.watch.wants)-1].TaskIDs) != 101 {
			t.Errorf("%d watches, wanted %d times", s.watches, len(s.watch.wants))
		}
		if n := s.looked(); n > 2*101+101 {
			t.Errorf("%d looks", n)
		}
		wants := len(s.watch.wants)
		for _, e := range ears[1:] {
			e.Close()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if k := len(s.watch.wants) - wants; k != 1 || all.Tasks() != 2 {
			t.Errorf("asked %d times for less; %d tasks", k, all.Tasks())
		}
		ears[0].Close()
		ears[0].Close()
		synctest.Wait()
		if !s.watch.closed || all.Tasks() != 0 {
			t.Error("it is heard for nobody")
		}
	})
}

func TestLooksAreBounded(t *testing.T) {
	following(t, false, func(t *testing.T, s *shop, all *Follows) {
		var ids []string
		for i := range 1000 {
			id := fmt.Sprintf("t%d", i)
			ids = append(ids, id)
			s.states[id] = fmt.Sprintf(`{"taskId":%q,"status":"working","pollIntervalMs":1}`, id)
		}
		e := ear(all, ids...)
		defer e.Close()
		time.Sleep(10 * time.Second)
		if n := s.looked(); n < 400 || n > 600 {
			t.Errorf("%d looks within ten seconds", n)
		}
		time.Sleep(30 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if seen := len(slices.Compact(slices.Sorted(slices.Values(s.looks)))); seen != 1000 {
			t.Errorf("%d tasks looked at", seen)
		}
	})
}

func TestOnlySoManyAreHeardOf(t *testing.T) {
	following(t, true, func(t *testing.T, s *shop, all *Follows) {
		var ids []string
		for i := range 100 {
			id := fmt.Sprintf("%d-%s", i, strings.Repeat("x", 1000))
			ids = append(ids, id)
			s.states[id] = stands(id, "working", "")
		}
		e := ear(all, ids...)
		defer e.Close()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(s.watch.wants[len(s.watch.wants)-1].TaskIDs); n < 30 || n > 33 {
			t.Errorf("%d are wanted", n)
		}
		s.set(func() {
			for _, id := range ids {
				s.states[id] = stands(id, "input_required", "")
			}
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(e.Take()); n < 67 { // the others are asked about
			t.Errorf("told of %d", n)
		}
	})
}

func TestWhatIsHiddenOrGoneIsToldOfNoMore(t *testing.T) {
	following(t, true, func(t *testing.T, s *shop, all *Follows) {
		for _, id := range []string{"a", "b", "c"} {
			s.states[id] = stands(id, "working", "")
		}
		e := ear(all, "a", "b", "c")
		want(t, took(e, time.Second), "")
		s.watch.f.Task("a", []byte(stands("a", "input_required", ""))) // waits to be taken
		s.set(func() { s.hidden["a"] = true; s.errs["b"] = ErrGone })
		s.watch.f.Reopened()
		want(t, took(e, 2*time.Second), "")
		s.watch.f.Task("a", []byte(stands("a", "completed", "")))
		s.watch.f.Task("b", []byte(stands("b", "completed", "")))
		want(t, took(e, 0), "")
		e.Drop("c")
		e.Drop("c")
		synctest.Wait()
		if all.Tasks() != 0 {
			t.Errorf("%d tasks", all.Tasks())
		}
	})
}

func TestAFailingUpstreamIsAskedLessAndLess(t *testing.T) {
	following(t, false, func(t *testing.T, s *shop, all *Follows) {
		s.errs["a"] = errors.New("away")
		e := ear(all, "a")
		time.Sleep(10 * time.Minute)
		if n := s.looked(); n > 17 || n < 10 {
			t.Errorf("%d looks", n)
		}
		s.set(func() { s.states["a"] = stands("a", "completed", ""); delete(s.errs, "a") })
		want(t, took(e, 70*time.Second), "a completed")
	})
}

func TestAnotherDocumentMayMeanAnotherUpstream(t *testing.T) {
	following(t, true, func(t *testing.T, s *shop, all *Follows) {
		s.states["a"] = stands("a", "working", "")
		e := ear(all, "a")
		want(t, took(e, time.Second), "")
		next := &shop{states: map[string]string{"a": stands("a", "input_required", "")}, same: 2}
		all.Rebind(next)
		want(t, took(e, time.Second), "a input_required")
		if !s.watch.closed || next.watches != 1 {
			t.Error("the one before is still heard")
		}
		next.set(func() { next.same = nil }) // it is no upstream that tells, now
		took(e, 2*time.Second)
		if !next.watch.closed {
			t.Error("it is still heard")
		}
		n := next.looked()
		took(e, 20*time.Second)
		if next.looked() < n+8 {
			t.Error("it is not asked instead")
		}
	})
}

func TestClosedFollowsTellNothing(t *testing.T) {
	following(t, true, func(t *testing.T, s *shop, all *Follows) {
		s.states["a"] = stands("a", "working", "")
		s.lasts = time.Hour
		e := ear(all, "a")
		time.Sleep(time.Second)
		synctest.Wait()
		all.Close()
		if !s.watch.closed {
			t.Error("it is still heard")
		}
		want(t, took(e, time.Minute)+took(ear(all, "b"), time.Minute), "")
		e.Close()
	})
}

func FuzzReadState(f *testing.F) {
	f.Add(stands("a", "working", ""))
	f.Add(`{"taskId":"\u0061","status":"completed","pollIntervalMs":1e400,"_meta":null}`)
	f.Add(`{"taskId":"a","status":"x","pollIntervalMs":-1}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := ReadState("a", []byte(raw))
		if err != nil {
			if !errors.Is(err, ErrNoState) {
				t.Error(err)
			}
			return
		}
		if s.Poll < 0 || s.Poll > maxPoll || s.Status == "" {
			t.Errorf("%+v", s)
		}
		again, err := ReadState("a", []byte(raw))
		if err != nil || again.sum != s.sum {
			t.Error("not the same twice")
		}
	})
}
