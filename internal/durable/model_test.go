package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// TestModelSQLite walks at random over callers, crashes between any two steps,
// restarts, lost answers, reconnects and clock steps, with one instance at a
// time.
func TestModelSQLite(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + t.TempDir() + "/model.db"
	walk(t, url, 1, 1, false)
}

// TestModelStateless is the same with routes that are bound again.
func TestModelStateless(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + t.TempDir() + "/model.db"
	walk(t, url, 1, 1, true)
}

// TestModelPostgres is the same with two instances at once, and the watchdog.
func TestModelPostgres(t *testing.T) {
	t.Parallel()
	walk(t, pgtest.Database(t), 2, 4, false)
}

// model is what is known to be true, beside what the coordinators say.
type model struct {
	t         *testing.T
	w         *worker
	clock     *clock
	url       string
	shared    bool
	callers   []Caller
	target    Target
	processes []*process

	mu     sync.Mutex // guards all below
	latest time.Time  // the clock's highest
	next   int        // of the keys
	tasks  []*logical
	steps  int
	ends   map[string]int
}

// process is one slot in which an instance lives, dies and is followed by
// another.
type process struct {
	mu     sync.RWMutex // guards c and routes; read while they are used
	c      *Coordinator
	routes *mortal
	store  *engine.Store
}

// logical is one submission as its caller remembers it.
type logical struct {
	mu      sync.Mutex // guards all below
	caller  Caller
	words   Spelling
	key     string
	doc     json.RawMessage
	id      string // "" until the caller was told
	gone    time.Time
	end     string // the status it ended with
	version uint64 // of the route then
}

func walk(t *testing.T, url string, instances, walkers int, stateless bool) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("PENSTOCK_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("PENSTOCK_SEED=%d", seed)
	m := &model{t: t, clock: &clock{at: time.UnixMilli(testNow)}, url: url, shared: instances > 1, ends: map[string]int{}, latest: time.UnixMilli(testNow)}
	m.w = newWorker(m.clock.now)
	m.w.settings.Stateless, m.w.stateful, m.w.finish = stateless, !stateless, "completed"
	m.callers = []Caller{{Principal: "ann", Tenant: "acme", Local: true}, {Principal: "bob", Tenant: "acme", Local: true}}
	m.target = Target{
		Alias: "worker__run", Upstream: "worker", Tool: "run", Server: "default", Effect: NonIdempotentWrite,
		Capability: Capability{Source: "worker", Kind: "tool", NativeIdentity: Sum([]byte("run")), Schema: Sum([]byte("schema")), Revision: "2026-07-28", Configuration: m.w.config},
	}
	shared, err := engine.Open(context.Background(), engine.Options{URL: url, Now: m.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	for i := range instances {
		p := &process{store: shared}
		m.processes = append(m.processes, p)
		m.start(p, rand.New(rand.NewPCG(seed, uint64(100+i))))
	}
	var all sync.WaitGroup
	for i := range walkers {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for m.count() < modelSteps && !t.Failed() {
				m.step(rng)
			}
		})
	}
	all.Wait()
	m.settle()
	t.Logf("%d steps, %d logical tasks, ends %v", m.count(), len(m.tasks), m.ends)
}

func (m *model) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.steps
}

// start puts a new instance into a slot.
func (m *model) start(p *process, rng *rand.Rand) {
	r := &mortal{Routes: &rumour{Routes: p.store.Routes(), m: m}}
	// A process dies at a step that is drawn when it is born, before what the step
	// does or behind it.
	end, behind := 1+rng.IntN(300), rng.IntN(2) == 0
	r.kill = func(step int, _ string) (bool, bool) {
		if step <= end {
			m.mu.Lock()
			m.steps++
			m.mu.Unlock()
		}
		return step >= end && !behind, step >= end && behind
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes = r
	p.c = New(Options{
		Routes: r, Leases: p.store.Leases(), Sources: m.w, Instance: NewInstanceID(), Now: m.clock.now, Shared: m.shared,
		LeaseOptional: true, MaxRoutes: 1 << 20, MaxRoutesPerCaller: 1 << 20,
	})
}

// rumour is a store that is wrong about who lives: sometimes a living instance
// is taken for dead, as one is that was stopped for long.
type rumour struct {
	store.Routes
	m *model
}

func (r *rumour) Alive(ctx context.Context, instance string) (bool, error) {
	if rand.IntN(3) == 0 {
		return rand.IntN(2) == 0, nil
	}
	return r.Routes.Alive(ctx, instance)
}

// step is one thing that happens.
func (m *model) step(rng *rand.Rand) {
	p := m.processes[rng.IntN(len(m.processes))]
	switch n := rng.IntN(100); {
	case n < 30:
		m.submit(rng, p, m.fresh(rng))
	case n < 45:
		m.submit(rng, p, m.some(rng))
	case n < 75:
		m.poll(p, m.some(rng))
	case n < 85:
		m.cancel(p, m.some(rng))
	case n < 88:
		m.w.reconnect()
	case n < 90:
		m.tick(time.Duration(rng.IntN(40_000)) * time.Millisecond)
	case n < 91:
		m.tick(-time.Duration(rng.IntN(5_000)) * time.Millisecond)
	case n < 93:
		m.w.set(func() { m.w.finish = []string{"", "completed", "failed"}[rng.IntN(3)] })
	case n < 95:
		m.w.set(func() { m.w.down = rng.IntN(3) == 0 })
	default:
		m.run(p, func(c *Coordinator) { c.watch(context.Background()); c.sweep(context.Background()) })
	}
	p.mu.RLock()
	dead := p.routes.gone()
	p.mu.RUnlock()
	if dead {
		if m.shared || rng.IntN(2) == 0 {
			m.start(p, rng)
			if !m.shared {
				m.w.reconnect() // a new process has new connections
			}
		}
	}
	m.faults(rng)
}

// faults draws what the worker does with the next requests.
func (m *model) faults(rng *rand.Rand) {
	odds := rng.IntN(3)
	one := rng.Uint64()
	m.w.set(func() {
		r := rand.New(rand.NewPCG(one, one)) // used under the worker's lock
		m.w.next = func(string) fate {
			m.mu.Lock()
			m.steps++
			m.mu.Unlock()
			if odds > 0 || r.IntN(2) == 0 {
				return answered
			}
			f := fate(r.IntN(int(garbage) + 1))
			if f == slow { // it takes its time in real seconds
				return lostAfter
			}
			return f
		}
	})
}

func (m *model) run(p *process, do func(c *Coordinator)) {
	p.mu.RLock()
	c := p.c
	p.mu.RUnlock()
	do(c)
}

func (m *model) tick(d time.Duration) {
	m.clock.move(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.clock.now(); now.After(m.latest) {
		m.latest = now
	}
}

// fresh is a new logical task.
func (m *model) fresh(rng *rand.Rand) *logical {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	l := &logical{caller: m.callers[rng.IntN(2)], words: Spelling(rng.IntN(2)), key: fmt.Sprint("key-", m.next)}
	doc := goodTask(l.words)
	now := m.clock.now()
	doc["idempotencyKey"], doc["deadlineUnixMs"], doc["providerInterfaceVersion"] = l.key, now.UnixMilli()+60_000, m.target.Capability.Schema.String()
	l.doc = mustEncode(doc)
	m.tasks = append(m.tasks, l)
	return l
}

// some is a logical task of not long ago.
func (m *model) some(rng *rand.Rand) *logical {
	m.mu.Lock()
	if n := len(m.tasks); n > 0 {
		defer m.mu.Unlock()
		return m.tasks[max(0, n-1-rng.IntN(60))]
	}
	m.mu.Unlock()
	return m.fresh(rng)
}

func (m *model) submit(rng *rand.Rand, p *process, l *logical) {
	if rng.IntN(4) == 0 {
		// Something happens while the call is under way.
		var did atomic.Bool
		other := rng.IntN(3)
		m.w.set(func() {
			m.w.in = func(method string) {
				if method != "tools/call" {
					return
				}
				if did.Swap(true) {
					return
				}
				switch other {
				case 0:
					m.poll(p, l)
				case 1:
					m.cancel(p, l)
				default:
					m.send(p, l)
				}
			}
		})
	}
	m.send(p, l)
}

func (m *model) send(p *process, l *logical) {
	m.run(p, func(c *Coordinator) {
		out, err := c.Submit(context.Background(), &Submit{Caller: l.caller, Spelling: l.words, Target: m.target, Arguments: json.RawMessage(`{}`), Task: l.doc})
		m.heard(l, out, err, true)
	})
}

func (m *model) poll(p *process, l *logical) {
	if id := l.known(m, p); id != "" {
		m.run(p, func(c *Coordinator) {
			out, err := c.Get(context.Background(), l.caller, id)
			m.heard(l, out, err, false)
			other := m.callers[0]
			if other.Principal == l.caller.Principal {
				other = m.callers[1]
			}
			if out, err := c.Get(context.Background(), other, id); err == nil {
				m.t.Errorf("another caller is told of %s: %s", id, out)
			}
		})
	}
}

func (m *model) cancel(p *process, l *logical) {
	if id := l.known(m, p); id != "" {
		m.run(p, func(c *Coordinator) {
			_, err := c.Cancel(context.Background(), l.caller, id)
			m.missing(l, id, err)
		})
	}
}

// known is the id that a caller was told, or that it will be told.
func (l *logical) known(m *model, p *process) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == "" {
		if row, err := p.store.Routes().Find(context.Background(), l.caller.Principal, l.caller.Tenant, l.key); err == nil {
			l.id, l.gone = row.ID, row.Expires
		}
	}
	return l.id
}

// missing holds that an id resolves until its retention ends.
func (m *model) missing(l *logical, id string, err error) {
	m.mu.Lock()
	latest := m.latest
	m.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, ErrNoTask) && latest.Before(l.gone) {
		m.t.Errorf("%s of %s is not there before its retention ends", id, l.key)
	}
}

// heard holds what a caller is told to what is true at the worker.
func (m *model) heard(l *logical, out json.RawMessage, err error, submitted bool) {
	if err != nil {
		var refusal *Refusal
		if errors.As(err, &refusal) && refusal.Code == l.words.Code("TASK_IDEMPOTENCY_CONFLICT") {
			m.t.Errorf("the same submission of %s is called another", l.key)
		}
		if !submitted {
			m.missing(l, l.id, err)
		}
		return
	}
	var s struct {
		ID     string          `json:"taskId"`
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
		TTL    int64           `json:"ttlMs"`
		Began  time.Time       `json:"createdAt"`
		Meta   map[string]struct {
			Execution string `json:"executionState"`
			Version   uint64 `json:"transitionVersion"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(out, &s); err != nil {
		m.t.Errorf("%v: %s", err, out)
		return
	}
	state := s.Meta[l.words.Meta("taskRoute")].Execution
	m.w.mu.Lock()
	begun, mine := m.w.begun[l.key], m.w.last[l.key]
	ended, result := "", ""
	if mine != nil {
		ended, result = mine.status, mine.result
	}
	m.w.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == "" {
		l.id, l.gone = s.ID, s.Began.Add(time.Duration(s.TTL)*time.Millisecond)
	}
	m.mu.Lock()
	swept := !m.latest.Before(l.gone)
	m.mu.Unlock()
	if s.ID != l.id && !swept {
		m.t.Errorf("%s was %s and is %s", l.key, l.id, s.ID)
	}
	if begun > 1 {
		m.t.Errorf("%s was begun %d times", l.key, begun)
	}
	switch {
	case s.Status == "completed" && (ended != "completed" || s.Result != nil && !contains(s.Result, result)):
		m.t.Errorf("%s is called completed, and is %q at the worker: %s", l.key, ended, s.Result)
	case s.Status == "cancelled" && state == "upstream_reported" && ended != "cancelled":
		m.t.Errorf("%s is called cancelled, and is %q at the worker", l.key, ended)
	case s.Status != "working" && (state == "not_dispatched" || state == "upstream_rejected") && begun > 0:
		m.t.Errorf("%s is called %s, and was begun", l.key, state)
	}
	if final := s.Status != "working" && s.Status != "input_required"; final {
		if l.end == "" {
			l.end, l.version = s.Status+" "+state, s.Meta[l.words.Meta("taskRoute")].Version
			m.mu.Lock()
			m.ends[l.end]++
			m.mu.Unlock()
		}
	} else if l.end != "" && !swept && s.Meta[l.words.Meta("taskRoute")].Version > l.version {
		// What was heard earlier and is only told now has a lower version.
		m.t.Errorf("%s ended as %s and is %s again", l.key, l.end, s.Status)
	}
	if l.end != "" && s.Status != "working" && l.end != s.Status+" "+state && !swept {
		m.t.Errorf("%s ended as %s and as %s %s", l.key, l.end, s.Status, state)
	}
}

func contains(result json.RawMessage, text string) bool {
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	return json.Unmarshal(result, &r) == nil && len(r.Content) == 1 && r.Content[0].Text == text
}

// settle looks at everything once more when all is quiet.
func (m *model) settle() {
	m.w.set(func() { m.w.next, m.w.down, m.w.in = func(string) fate { return answered }, false, nil })
	for _, p := range m.processes {
		m.start(p, rand.New(rand.NewPCG(1, 1)))
		p.routes.kill = nil
	}
	p := m.processes[0]
	for _, l := range m.tasks {
		m.poll(p, l)
		if l.id == "" {
			continue
		}
		if _, _, err := p.c.Show(context.Background(), l.id); err != nil && !errors.Is(err, store.ErrNotFound) {
			m.t.Errorf("%s: %v", l.id, err)
		}
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for key, n := range m.w.begun {
		if n > 1 {
			m.t.Errorf("%s was begun %d times", key, n)
		}
	}
}
