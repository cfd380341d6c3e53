package task

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// lookTime bounds one look at a task.
const lookTime = 30 * time.Second

// run follows until nobody listens for a task of this key.
func (f *Follow) run() {
	defer func() {
		if f.watch != nil {
			f.watch.Close()
		}
	}()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-f.s.ctx.Done():
			return
		case <-f.wake:
		case <-t.C:
		case <-check.C:
			f.check()
		}
		f.hear()
		next, over := f.look()
		if over {
			return
		}
		t.Reset(time.Until(next))
	}
}

// check ends what callers may not hear of any more.
func (f *Follow) check() {
	f.s.mu.Lock()
	owners := f.s.owners
	all := make([]*topic, 0, len(f.topics))
	for _, t := range f.topics {
		all = append(all, t)
	}
	f.s.mu.Unlock()
	for _, t := range all {
		if owners.Shows(f.key, t.rec) {
			continue
		}
		f.s.mu.Lock()
		if !t.over {
			t.drop()
		}
		f.s.mu.Unlock()
	}
}

// hear has the upstream tell of what is wanted now, and hears another one when it
// is another than before.
func (f *Follow) hear() {
	f.s.mu.Lock()
	owners := f.s.owners
	f.s.mu.Unlock()
	if same := owners.Same(f.key); same != f.same {
		if f.watch != nil {
			f.watch.Close()
			f.watch = nil
			f.Honoured(mcp.Filter{}, mcp.Filter{})
		}
		if f.same = same; same != nil {
			f.watch = owners.Watch(f.key, f)
		}
		f.s.mu.Lock()
		f.asked = mcp.Filter{}
		f.wants(gather)
		f.s.mu.Unlock()
	}
	f.s.mu.Lock()
	due := !f.wish.IsZero() && !time.Now().Before(f.wish)
	var want mcp.Filter
	if due {
		f.wish = time.Time{}
		want = f.wanted()
		due = !want.Equal(f.asked)
		f.asked = want
	}
	f.s.mu.Unlock()
	if due && f.watch != nil {
		f.watch.Want(want)
	}
}

// wanted is what the upstream is to tell of. s.mu is held.
func (f *Follow) wanted() (want mcp.Filter) {
	ids := make([]string, 0, len(f.topics))
	for id := range f.topics {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	size := 0
	for _, id := range ids {
		if size += len(id) + 3; size > maxHeard || len(want.TaskIDs) == mcp.MaxFilterTasks {
			break
		}
		want.TaskIDs = append(want.TaskIDs, id)
	}
	return want
}

// look begins the looks that are due and returns when the next is. over says that
// nobody listens any more: this Follow is out of the books then.
func (f *Follow) look() (next time.Time, over bool) {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(f.topics) == 0 {
		delete(s.by, f.key)
		return next, true
	}
	now := time.Now()
	next = now.Add(maxPoll)
	var ready []*topic
	for _, t := range f.topics {
		switch {
		case t.looking:
		case !t.due.After(now):
			ready = append(ready, t)
		case t.due.Before(next):
			next = t.due
		}
	}
	slices.SortFunc(ready, func(a, b *topic) int { return a.due.Compare(b.due) })
	for _, t := range ready {
		if f.looking >= maxLooks || s.closed {
			break // the end of one has this looked at again
		}
		if earliest := now.Add(-lookBurst * lookEvery); f.spent.Before(earliest) {
			f.spent = earliest
		}
		if f.spent.After(now) {
			next = f.spent
			break
		}
		f.spent = f.spent.Add(lookEvery)
		f.looking++
		t.looking = true
		owners, turn := s.owners, t.turn
		s.work.Go(func() { f.ask(owners, t, turn) })
	}
	if !f.wish.IsZero() && f.wish.Before(next) {
		next = f.wish
	}
	return next, false
}

// ask looks at one task.
func (f *Follow) ask(owners Owners, t *topic, turn uint64) {
	ctx, cancel := context.WithTimeout(f.s.ctx, lookTime)
	defer cancel()
	now, err := owners.Look(ctx, f.key, t.rec, t.id)
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.looking--
	t.looking = false
	defer f.poke()
	switch {
	case t.over:
	case errors.Is(err, ErrGone):
		t.drop()
	case err != nil:
		t.fails = min(t.fails+1, 6)
		t.due = time.Now().Add(f.pause(t))
		f.s.log.Debug("a task is not looked at", "upstream", f.key.Upstream, "error", err)
	default:
		t.fails = 0
		if t.turn != turn && !now.Ended() {
			t.due = time.Now().Add(minPoll) // what the upstream told meanwhile may be newer
			return
		}
		t.becomes(now)
		t.due = time.Now().Add(f.pause(t))
	}
}

// pause is how long a task is not looked at again. One that the upstream tells of is
// looked at all the same, once a minute: a stream can fall silent. s.mu is held.
func (f *Follow) pause(t *topic) time.Duration {
	wait := defaultPoll
	if t.state != nil && t.state.Poll > 0 {
		wait = t.state.Poll
	}
	if t.relayed {
		wait = maxPoll
	}
	wait = min(max(wait, minPoll)<<t.fails, maxPoll)
	return wait + rand.N(wait/10)
}
