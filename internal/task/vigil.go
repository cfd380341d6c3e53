package task

import (
	"context"
	"time"
)

// Vigil is what this process keeps of a task of a legacy upstream that a modern client
// has: what the upstream asked and nobody answered yet, and its result. The extension
// has both in the answer to tasks/get; 2025-11-25 has them in the stream of
// tasks/result, which is waited for here, apart from the client's requests (checklist
// 8.5).
type Vigil struct {
	s     *Vigils
	key   VigilKey
	short string // in the keys of its questions; no other Vigil has it

	// Guarded by Vigils.mu.
	open     []*posed // oldest first
	minted   int      // keys so far
	waiting  context.CancelFunc
	upstream any // that is waited for
	again    time.Time
	fails    int
	changed  chan struct{}        // closed, and made anew, when something has changed
	ears     map[FollowKey]string // who listens for it, and its id

	standing any    // the session or process that has the task; nil: not known
	seen     []byte // as the upstream told of it last, a raw Task
	outcome  []byte // the answer to tasks/result; nil: it has not come
	ended    []byte // how it ended, for good; nil: it has not, or that is not known
	until    time.Time
	size     int  // what it counts for
	gone     bool // it is out of the books
}

// stir has everybody look again who waits for a change. s.mu is held.
func (v *Vigil) stir() {
	close(v.changed)
	v.changed = make(chan struct{})
	if len(v.ears) == 0 || v.s.closed {
		return
	}
	ears := make(map[FollowKey]string, len(v.ears))
	for k, id := range v.ears {
		ears[k] = id
	}
	v.s.work.Go(func() { // Follows has a lock of its own
		for k, id := range ears {
			if !v.s.o.Stir(k, id) {
				v.unheard(k)
			}
		}
	})
}

// Heard notes that the listeners of a key are told of the task.
func (v *Vigil) Heard(k FollowKey, id string) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.ears == nil {
		v.ears = map[FollowKey]string{}
	}
	if len(v.ears) < maxEars {
		v.ears[k] = id
	}
}

// maxEars bounds the keys that one task stirs.
const maxEars = 16

func (v *Vigil) unheard(k FollowKey) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	delete(v.ears, k)
}

// Saw notes how a task stands, as its upstream tells, and in which session or process
// that was. What another one left open is lost.
func (v *Vigil) Saw(seen []byte, standing any) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.standing != nil && v.standing != standing {
		v.close(func(p *posed) bool { return p.adrift })
	}
	v.seen, v.standing = seen, standing
}

// Seen is what Saw noted last.
func (v *Vigil) Seen() (seen []byte, standing any) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	return v.seen, v.standing
}

// End notes how the task has ended, which does not change any more, and is remembered
// until a time while there is room.
func (v *Vigil) End(ended []byte, until time.Time) {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	v.close(func(*posed) bool { return true })
	if v.waiting != nil {
		v.waiting()
	}
	if v.gone {
		return
	}
	v.outcome, v.ended, v.until = nil, ended, until
	s.weigh(v)
}

// Ended is how the task has ended, as far as that is remembered; or nil.
func (v *Vigil) Ended() []byte {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.ended != nil && time.Now().After(v.until) {
		v.ended = nil
		v.s.weigh(v)
	}
	return v.ended
}

// Await is the wait for the answer to tasks/result, within ctx.
type Await func(ctx context.Context) (answer []byte, err error)

// Watch has the answer to tasks/result waited for, unless it is there, is waited for
// already, or failed just now. It reports false where nothing waits.
func (v *Vigil) Watch(upstream any, await Await) bool {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case v.waiting != nil, v.outcome != nil:
		return true
	case s.closed, v.gone, time.Now().Before(v.again), s.waits >= maxWaits, s.waitsOf[v.key.Principal] >= maxWaitsOf:
		return false
	}
	ctx, cancel := context.WithCancel(s.ctx)
	v.waiting, v.upstream = cancel, upstream
	s.waits++
	s.waitsOf[v.key.Principal]++
	s.work.Go(func() {
		defer cancel()
		answer, err := await(ctx)
		v.waited(answer, err)
	})
	return true
}

// waited ends a wait. What it asked stays open: an answer may still be taken.
func (v *Vigil) waited(answer []byte, err error) {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits--
	if s.waitsOf[v.key.Principal]--; s.waitsOf[v.key.Principal] == 0 {
		delete(s.waitsOf, v.key.Principal)
	}
	v.waiting, v.upstream = nil, nil
	for _, p := range v.open {
		p.adrift = true
	}
	if err != nil {
		v.fails = min(v.fails+1, 6)
		v.again = time.Now().Add(retryWait << (v.fails - 1))
		v.stir()
		return
	}
	v.fails = 0
	v.close(func(*posed) bool { return true }) // it did not wait for them
	if v.ended == nil && !v.gone {
		v.outcome = answer
		s.weigh(v)
	}
	v.stir()
}

// retryWait is how long a wait that failed is not begun again, doubled for each that
// failed before it.
const retryWait = 500 * time.Millisecond

// Outcome waits, as long as ctx allows, for the answer to tasks/result, and returns
// nil where it does not come.
func (v *Vigil) Outcome(ctx context.Context) []byte {
	for {
		v.s.mu.Lock()
		outcome, waiting, changed := v.outcome, v.waiting != nil, v.changed
		v.s.mu.Unlock()
		if outcome != nil || !waiting {
			return outcome
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Came is the answer to tasks/result, as far as it has come; or nil.
func (v *Vigil) Came() []byte {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	return v.outcome
}

// Stir has everybody look again who waits for a change.
func (v *Vigil) Stir() {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.stir()
}

// Quit closes what is open: the task was cancelled.
func (v *Vigil) Quit() {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.close(func(*posed) bool { return true })
	v.stir()
}

// Discard forgets the answer to tasks/result: it is not what became of the task.
func (v *Vigil) Discard() {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.outcome = nil
	v.fails = min(v.fails+1, 6)
	v.again = time.Now().Add(retryWait << (v.fails - 1))
	v.s.weigh(v)
}
