package south

import (
	"context"
	"hash/fnv"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// healthEvery is how often a replica is looked at while nobody complains of it.
const healthEvery = 2 * time.Second

// Replicas is one upstream that is served at several addresses. Calls to a
// modern upstream are spread over the healthy ones; a legacy session stays at
// the replica where it was opened, and is opened anew elsewhere when that
// replica is gone (DESIGN section 7). It is safe for concurrent use.
type Replicas struct {
	each []*Upstream
	next atomic.Uint32
	sick []atomic.Bool // by replica: the last look at it failed

	mu     sync.Mutex // guards pinned
	pinned map[SessionKey]int

	started sync.Once
	work    sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
}

// NewReplicas joins upstreams of one key, in the order of the configuration.
func NewReplicas(each []*Upstream) *Replicas {
	r := &Replicas{each: each, sick: make([]atomic.Bool, len(each)), pinned: map[SessionKey]int{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// Key is the upstream's configured key.
func (r *Replicas) Key() string { return r.each[0].Key() }

// At is one replica, in the order of the configuration.
func (r *Replicas) At(i int) *Upstream { return r.each[i] }

// Width is the number of replicas.
func (r *Replicas) Width() int { return len(r.each) }

// Info is what the first known replica said of itself, healthy ones first.
func (r *Replicas) Info() *Info {
	var known *Info
	for i, u := range r.each {
		if info := u.Info(); info != nil {
			if r.usable(i) {
				return info
			}
			known = info
		}
	}
	return known
}

// OnChange sets a function that is called after what is known of a replica
// changed. It must be set before Start and must not block.
func (r *Replicas) OnChange(f func()) {
	for _, u := range r.each {
		u.OnChange(f)
	}
}

// usable reports whether calls may go to a replica.
func (r *Replicas) usable(i int) bool { return !r.sick[i].Load() && !r.each[i].breaker.open() }

// Link returns a way to one replica: to the one that holds the key's session,
// or to the next healthy one. A replica that cannot be reached is passed over,
// for nothing ran there.
func (r *Replicas) Link(ctx context.Context, key SessionKey) (*Link, error) {
	r.mu.Lock()
	at, pinned := r.pinned[key]
	if pinned && !r.usable(at) {
		delete(r.pinned, key)
		pinned = false
		r.each[at].EndSession(key)
		r.each[at].o.Log.Info("session opened at another replica, for its own is gone", "upstream", r.Key(), "replica", at)
	}
	r.mu.Unlock()
	if pinned {
		return r.each[at].Link(ctx, key)
	}
	var last error
	for _, i := range r.orderFor(ctx, key) {
		l, err := r.each[i].Link(ctx, key)
		if err != nil {
			last = err
			if fault.From(err).Code == fault.UpstreamUnavailable && ctx.Err() == nil {
				continue
			}
			return nil, err
		}
		if l.Era == mcp.Legacy {
			r.mu.Lock()
			if other, taken := r.pinned[key]; taken && other != i {
				r.mu.Unlock()
				r.each[i].EndSession(key)
				return r.each[other].Link(ctx, key)
			}
			r.pinned[key] = i
			r.mu.Unlock()
		}
		return l, nil
	}
	return nil, last
}

// orderFor is the order in which replicas are tried for a key without a pin. For
// a legacy session that is the one where the session is kept, from before a
// restart or by another instance, and else one that every instance agrees on.
func (r *Replicas) orderFor(ctx context.Context, key SessionKey) []int {
	info := r.Info()
	if info == nil || info.Era != mcp.Legacy {
		return r.order(int(r.next.Add(1)))
	}
	out := r.order(int(key.spread() % uint32(len(r.each))))
	for n, i := range out {
		if r.usable(i) && r.each[i].kept(ctx, key) != nil {
			out[0], out[n] = out[n], out[0]
			break
		}
	}
	return out
}

// spread is the same number for a key in every process.
func (k SessionKey) spread() uint32 {
	h := fnv.New32a()
	for _, s := range [...]string{k.Server, string(k.Principal[:]), k.Caps, k.North} {
		_, _ = io.WriteString(h, s) // a hash takes everything
	}
	return h.Sum32()
}

// order is the replicas in turn from the first, the healthy ones before the others.
func (r *Replicas) order(first int) []int {
	out := make([]int, 0, len(r.each))
	for _, healthy := range [...]bool{true, false} {
		for n := range r.each {
			if i := (first + n) % len(r.each); r.usable(i) == healthy {
				out = append(out, i)
			}
		}
	}
	return out
}

// Unreached is told that a link's replica could not be reached, so that the
// key's next Link goes to another.
func (r *Replicas) Unreached(l *Link, key SessionKey) {
	for i, u := range r.each {
		if u == l.Upstream {
			r.sick[i].Store(true)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pinned, key)
}

// State is the replicas' state as one: that of the first that is up, or of the
// first.
func (r *Replicas) State() State {
	all := make([]State, len(r.each))
	best := -1
	for i, u := range r.each {
		all[i] = u.State()
		if all[i].State == "up" && !r.usable(i) {
			all[i].State = "down"
		}
		if all[i].State == "up" && best < 0 {
			best = i
		}
	}
	s := all[max(best, 0)]
	s.Sessions, s.InFlight = 0, 0
	for i := range all {
		s.Sessions += all[i].Sessions
		s.InFlight += all[i].InFlight
	}
	s.Replicas = all
	return s
}

// Tried reports whether any replica is known, or all of them have failed.
func (r *Replicas) Tried() bool {
	all := true
	for _, u := range r.each {
		if u.Info() != nil {
			return true
		}
		all = all && u.Tried()
	}
	return all
}

// Wait returns after the first replica is known or all were tried, or when ctx ends.
func (r *Replicas) Wait(ctx context.Context) {
	if r.Tried() {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, u := range r.each {
		wg.Go(func() {
			u.Wait(ctx)
			if u.Info() != nil {
				cancel()
			}
		})
	}
	wg.Wait()
}

// Dropped says that something of the upstream's was dropped.
func (r *Replicas) Dropped(what string) { r.each[0].Dropped(what) }

// Forget drops what is known of the replicas' era.
func (r *Replicas) Forget() {
	for _, u := range r.each {
		u.Forget()
	}
}

// EndSession ends the session of exactly one key.
func (r *Replicas) EndSession(key SessionKey) {
	r.mu.Lock()
	at, pinned := r.pinned[key]
	delete(r.pinned, key)
	r.mu.Unlock()
	if pinned {
		r.each[at].EndSession(key)
		return
	}
	for _, u := range r.each {
		u.EndSession(key) // one of them may keep it from before a restart
	}
}

// Abandon ends every session of this process at every replica.
func (r *Replicas) Abandon(ctx context.Context) {
	var wg sync.WaitGroup
	for _, u := range r.each {
		wg.Go(func() { u.Abandon(ctx) })
	}
	wg.Wait()
}

// Start keeps every replica known and looked at until Close.
func (r *Replicas) Start() {
	r.started.Do(func() {
		for i, u := range r.each {
			u.Start()
			r.work.Go(func() { r.watch(i, u) })
		}
	})
}

// watch looks at one replica. A failed look takes it out of turn at once, a
// good one puts it back.
func (r *Replicas) watch(i int, u *Upstream) {
	t := time.NewTicker(healthEvery)
	defer t.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-t.C:
		}
		if u.Info() == nil {
			continue // Run is at it
		}
		err := u.look(r.ctx)
		if r.ctx.Err() != nil {
			return
		}
		if was := r.sick[i].Swap(err != nil); was != (err != nil) {
			if err != nil {
				u.o.Log.Warn("replica taken out of turn", "upstream", u.Key(), "url", u.endpoint.Load().Redacted(), "error", err)
			} else {
				u.o.Log.Info("replica is back in turn", "upstream", u.Key(), "url", u.endpoint.Load().Redacted())
			}
			u.watchers.news()
		}
	}
}

// healthKey is the session that a replica's health is asked over.
var healthKey = SessionKey{Server: "penstock:health"}

// look asks the upstream for a sign of life: discovery of a modern one, a ping
// of a legacy one. Any answer is one, also an error of the upstream's own.
func (u *Upstream) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, u.o.ProbeTimeout)
	defer cancel()
	l, err := u.Link(ctx, healthKey)
	if err != nil {
		return err
	}
	id := l.NextID(nil)
	method, params := mcp.Ping, ``
	if l.Era == mcp.Modern {
		method = mcp.Discover
		params = `,"params":{"_meta":{"` + mcp.MetaProtocolVersion + `":"` + mcp.LatestModern.String() + `","` + mcp.MetaClientCapabilities + `":{}}}`
	}
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"`+method+`"`+params+`}`...)
	a, err := l.Send(ctx, &Request{Method: method, ID: id, Body: body, Safe: true, Timeout: u.o.ProbeTimeout})
	if err != nil {
		return err
	}
	a.Close()
	return nil
}

// Close ends every replica.
func (r *Replicas) Close(ctx context.Context) {
	r.stop()
	r.work.Wait()
	var wg sync.WaitGroup
	for _, u := range r.each {
		wg.Go(func() { u.Close(ctx) })
	}
	wg.Wait()
}
