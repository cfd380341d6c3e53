package durable

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
)

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex // guards at
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

var errKilled = errors.New("the process is gone")

// mortal is the store of a process that can be killed between any two of its
// steps: from the step on that kill names nothing happens any more.
type mortal struct {
	store.Routes
	mu    sync.Mutex // guards all below
	steps int
	dead  bool
	// kill decides at each step whether the process ends: before what the step
	// does, or behind it.
	kill func(step int, name string) (before, behind bool)
}

func (m *mortal) step(name string, do func() error) error {
	m.mu.Lock()
	m.steps++
	before, behind := false, false
	if m.kill != nil {
		before, behind = m.kill(m.steps, name)
	}
	m.dead = m.dead || before
	dead := m.dead
	m.mu.Unlock()
	if dead {
		return errKilled
	}
	err := do()
	if behind {
		m.mu.Lock()
		m.dead = true
		m.mu.Unlock()
		return errKilled
	}
	return err
}

func (m *mortal) Begin(ctx context.Context, r *store.Route, e *store.RouteEvent, now time.Time, b store.RouteBounds) (stored *store.Route, created bool, err error) {
	err = m.step("begin", func() (err error) {
		stored, created, err = m.Routes.Begin(ctx, r, e, now, b)
		return err
	})
	return stored, created, err
}

func (m *mortal) Update(ctx context.Context, r *store.Route, e *store.RouteEvent) error {
	return m.step(r.Phase, func() error { return m.Routes.Update(ctx, r, e) })
}

func (m *mortal) Get(ctx context.Context, id string) (r *store.Route, err error) {
	err = m.step("get", func() (err error) { r, err = m.Routes.Get(ctx, id); return err })
	return r, err
}

func (m *mortal) gone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// rig is a coordinator over a real store and a counting worker.
type rig struct {
	t       testing.TB
	url     string
	clock   *clock
	w       *worker
	words   Spelling
	o       Options
	store   *engine.Store
	routes  *mortal
	c       *Coordinator
	caller  Caller
	target  Target
	events  []store.RouteEvent
	eventMu sync.Mutex // guards events
}

func newRig(t testing.TB, words Spelling, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "durable.db"), clock: &clock{at: time.UnixMilli(testNow)}, words: words}
	r.w = newWorker(r.clock.now)
	r.caller = Caller{Principal: "ann", Tenant: "acme", Scopes: []string{words.Scope(NonIdempotentWrite)}}
	r.target = Target{
		Alias: "worker__run", Upstream: "worker", Tool: "run", Server: "default", Effect: NonIdempotentWrite,
		Capability: Capability{Source: "worker", Kind: "tool", NativeIdentity: Sum([]byte("run")), Schema: Sum([]byte("schema")), Revision: "2026-07-28", Configuration: r.w.config},
	}
	if change != nil {
		change(&r.o)
	}
	r.open()
	t.Cleanup(func() { r.store.Close() })
	return r
}

// open makes a new process: another instance, on the same database and worker.
func (r *rig) open() {
	r.t.Helper()
	s, err := engine.Open(context.Background(), engine.Options{URL: r.url, Now: r.clock.now})
	if err != nil {
		r.t.Fatal(err)
	}
	r.store, r.routes = s, &mortal{Routes: s.Routes()}
	o := r.o
	o.Routes, o.Leases, o.Sources, o.Instance, o.Now = r.routes, s.Leases(), r.w, NewInstanceID(), r.clock.now
	o.On = func(_ *Route, e store.RouteEvent) {
		r.eventMu.Lock()
		defer r.eventMu.Unlock()
		r.events = append(r.events, e)
	}
	r.c = New(o)
}

// restart ends the process and starts another; its connections are new ones.
func (r *rig) restart() {
	r.t.Helper()
	r.reopen()
	r.w.reconnect()
}

// reopen is a restart of the router alone: the connection stays.
func (r *rig) reopen() {
	r.t.Helper()
	if err := r.store.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open()
}

// said is what a caller is told of a task.
type said struct {
	TaskID        string         `json:"taskId"`
	Status        string         `json:"status"`
	StatusMessage string         `json:"statusMessage"`
	CreatedAt     string         `json:"createdAt"`
	LastUpdatedAt string         `json:"lastUpdatedAt"`
	TTL           int64          `json:"ttlMs"`
	Poll          int64          `json:"pollIntervalMs"`
	Type          string         `json:"resultType"`
	Result        map[string]any `json:"result"`
	InputRequests map[string]any `json:"inputRequests"`
	Error         *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
	Meta map[string]struct {
		Schema         string         `json:"schemaVersion"`
		Public         string         `json:"publicTaskId"`
		Phase          Phase          `json:"routePhase"`
		Version        uint64         `json:"transitionVersion"`
		Execution      string         `json:"executionState"`
		Reconciliation bool           `json:"reconciliationRequired"`
		Verification   string         `json:"verificationStatus"`
		Acceptance     string         `json:"policyAcceptance"`
		Outcome        string         `json:"transactionOutcome"`
		Limitations    []string       `json:"limitations"`
		Submission     map[string]any `json:"submission"`
		Request        string         `json:"requestSha256"`
		Capability     string         `json:"capabilityId"`
		Source         string         `json:"source"`
	} `json:"_meta"`
}

func (r *rig) read(b json.RawMessage, err error) (*said, error) {
	r.t.Helper()
	if err != nil {
		return nil, err
	}
	s := new(said)
	if err := json.Unmarshal(b, s); err != nil {
		r.t.Fatalf("%v: %s", err, b)
	}
	return s, nil
}

func (s *said) phase(w Spelling) Phase { return s.Meta[w.Meta("taskRoute")].Phase }

func (r *rig) lease(changes ...func(*Grant)) string {
	r.t.Helper()
	g := &Grant{Caller: r.caller, Spelling: r.words, Targets: []Target{r.target}, SideEffects: json.RawMessage(`["non_idempotent_write"]`)}
	for _, c := range changes {
		c(g)
	}
	out, err := r.c.Lease(context.Background(), g)
	if err != nil {
		r.t.Fatalf("lease: %v", err)
	}
	var l struct {
		ID string `json:"leaseId"`
	}
	if err := json.Unmarshal(out, &l); err != nil {
		r.t.Fatal(err)
	}
	return l.ID
}

// task is a submission that is good at the rig's time.
func (r *rig) task(key string) map[string]any {
	doc := goodTask(r.words)
	now := r.clock.now().UnixMilli()
	doc["idempotencyKey"], doc["logicalTaskId"], doc["deadlineUnixMs"] = key, "logical-"+key, now+60_000
	doc["providerInterfaceVersion"] = r.target.Capability.Schema.String()
	return doc
}

func (r *rig) send(lease string, doc map[string]any) (*said, error) {
	r.t.Helper()
	return r.read(r.c.Submit(context.Background(), &Submit{
		Caller: r.caller, Spelling: r.words, Target: r.target, LeaseID: lease, Arguments: json.RawMessage(`{}`), Task: encode(r.t, doc),
	}))
}

// submit submits a task that has to be taken.
func (r *rig) submit(key string) *said {
	r.t.Helper()
	s, err := r.send(r.lease(), r.task(key))
	if err != nil {
		r.t.Fatalf("submit %s: %v", key, err)
	}
	return s
}

func (r *rig) ask(id string) (*said, error) {
	r.t.Helper()
	return r.read(r.c.Get(context.Background(), r.caller, id))
}

// get polls a task that has to be there.
func (r *rig) get(id string) *said {
	r.t.Helper()
	s, err := r.ask(id)
	if err != nil {
		r.t.Fatalf("get %s: %v", id, err)
	}
	return s
}

func (r *rig) cancel(id string) error {
	r.t.Helper()
	_, err := r.c.Cancel(context.Background(), r.caller, id)
	return err
}

// code is a refusal's code without its prefix.
func (r *rig) code(err error) string {
	var refusal *Refusal
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrNoTask):
		return "no task"
	case errors.As(err, &refusal):
		code, ok := strings.CutPrefix(refusal.Code, r.words.Code(""))
		if !ok {
			r.t.Errorf("the code %s is of the other spelling", refusal.Code)
		}
		return code
	}
	return err.Error()
}

// expect holds what a caller is told to a phase, a status and a message, which
// is a code without its prefix, or "".
func (r *rig) expect(what string, s *said, phase Phase, status, message string) {
	r.t.Helper()
	if s.phase(r.words) != phase || s.Status != status || message != "" && s.StatusMessage != r.words.Code(message) {
		r.t.Errorf("%s: %s %s %q, want %s %s %q", what, s.phase(r.words), s.Status, s.StatusMessage, phase, status, message)
	}
}

// once holds the worker to one operation of a key.
func (r *rig) began(key string, want int) {
	r.t.Helper()
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if got := r.w.begun[key]; got != want {
		r.t.Errorf("%d operations of %s, want %d", got, key, want)
	}
}

// both runs a test in both spellings.
func both(t *testing.T, test func(t *testing.T, words Spelling)) {
	for _, words := range []Spelling{Penstock, GaugeMesh} {
		t.Run(words.String(), func(t *testing.T) { test(t, words) })
	}
}
