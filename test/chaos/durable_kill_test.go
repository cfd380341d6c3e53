//go:build linux

package chaos_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
)

const inFlight = 200

// submitter submits durable tasks of the baker, with one lease at a time.
type submitter struct {
	*client
	deadline int64 // the same for a submission that is made again

	mu            sync.Mutex // guards what follows
	lease, schema string
}

// told is what a submitter reads of an answer.
type told struct {
	Structured struct {
		LeaseID      string `json:"leaseId"`
		SchemaDigest string `json:"schemaDigest"`
		SideEffect   string `json:"sideEffect"`
		Code         string `json:"code"`
	} `json:"structuredContent"`
	TaskID string `json:"taskId"`
	Status string `json:"status"`
	Result struct {
		Content []struct{ Text string }
	} `json:"result"`
	Meta struct {
		Route struct {
			Phase          string `json:"routePhase"`
			Reconciliation bool   `json:"reconciliationRequired"`
		} `json:"penstock/taskRoute"`
	} `json:"_meta"`
}

func (s *submitter) tell(method, name, params string) (*told, error) {
	a, err := s.ask(method, name, params)
	if err != nil {
		return nil, err
	}
	if a.Error != nil {
		return nil, fmt.Errorf("error %d %s", a.Error.Code, a.Error.Message)
	}
	var whole struct {
		Result told `json:"result"`
	}
	if err := json.Unmarshal([]byte(a.raw), &whole); err != nil {
		return nil, err
	}
	return &whole.Result, nil
}

func (s *submitter) tool(name, arguments string) (*told, error) {
	return s.tell("tools/call", name, fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments))
}

// ready waits until something can be submitted, and takes a lease.
func (s *submitter) ready(t testing.TB) {
	t.Helper()
	eventually(t, "a lease", 20*time.Second, func() bool {
		d, err := s.tool("penstock_describe", `{"alias":"bakery__bake"}`)
		if err != nil || d.Structured.SchemaDigest == "" {
			return false
		}
		l, err := s.tool("penstock_lease", fmt.Sprintf(`{"aliases":["bakery__bake"],"ttlMs":600000,"sideEffects":[%q,"non_idempotent_write"]}`, d.Structured.SideEffect))
		if d.Structured.SideEffect == "non_idempotent_write" {
			l, err = s.tool("penstock_lease", `{"aliases":["bakery__bake"],"ttlMs":600000,"sideEffects":["non_idempotent_write"]}`)
		}
		if err != nil || l.Structured.LeaseID == "" {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lease, s.schema = l.Structured.LeaseID, d.Structured.SchemaDigest
		return true
	})
}

func (s *submitter) submit(key string) (*told, error) {
	s.mu.Lock()
	lease, schema := s.lease, s.schema
	s.mu.Unlock()
	some := durable.Sum([]byte("some"))
	task := fmt.Sprintf(`{"schemaVersion":"penstock.task-submission/1","logicalTaskId":%[1]q,"attemptId":"a","correlationId":"c","idempotencyKey":%[1]q,`+
		`"providerInterfaceVersion":%[2]q,"inputSha256":%[3]q,"acceptancePolicySha256":%[4]q,"artifactScopeSha256":%[4]q,"deadlineUnixMs":%[5]d,"retentionMs":900000,`+
		`"limits":{"maxRuntimeMs":600000,"maxOutputBytes":65536,"maxArtifactBytes":1024,"maxAttempts":1},"permittedEffect":"non_idempotent_write","cleanupRequired":true}`,
		key, schema, durable.Sum([]byte(`{}`)), some, s.deadline)
	return s.tool("penstock_submit", fmt.Sprintf(`{"leaseId":%q,"alias":"bakery__bake","arguments":{},"task":%s}`, lease, task))
}

// A gateway is killed with 200 durable tasks in flight. Bound to a stateless
// upstream they finish, each with its result and one effect; bound to their
// connection they are in reconciliation, and stay it; and neither a kill in the
// middle of submissions nor their repetition does any work twice.
func TestDurableTasksOutliveAKill(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"stateless", "strict"} {
		t.Run(session, func(t *testing.T) {
			t.Parallel()
			b := newBaker(t)
			doc := b.document(t, "sqlite:"+filepath.Join(t.TempDir(), "penstock.db"), session) +
				"durable: {max_runtime: 10m, max_routes_per_caller: 4096}\n"
			g := newGateway(t, doc).run()
			s := &submitter{client: newClient(t, g.address), deadline: time.Now().Add(10 * time.Minute).UnixMilli()}
			s.tasks = true
			s.ready(t)
			ids := s.submitAll(t, 0, inFlight)
			if len(ids) != inFlight {
				t.Fatalf("%d tasks", len(ids))
			}
			g.kill()
			g.run()
			s.ready(t)

			// Once more in the middle of it: what became of a submission is learnt by
			// making it again.
			half := make(chan struct{})
			go func() {
				defer close(half)
				time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
				g.kill()
			}()
			s.submitAll(t, inFlight, 2*inFlight)
			<-half
			g.run()
			s.ready(t)
			later := s.submitAll(t, inFlight, 2*inFlight)
			if len(later) != inFlight {
				t.Fatalf("%d tasks the second time", len(later))
			}
			b.finish()
			s.follow(t, ids, later, session == "stateless")
			effects := b.counted()
			for key, n := range effects {
				if n != 1 {
					t.Errorf("%s has %d effects", key, n)
				}
			}
			for key := range ids {
				if effects[key] != 1 {
					t.Errorf("%s has %d effects", key, effects[key])
				}
			}
			t.Logf("%d logical tasks, %d effects", len(ids)+len(later), len(effects))
		})
	}
}

// submitAll submits keys side by side and returns the ids that were told.
func (s *submitter) submitAll(t testing.TB, from, to int) map[string]string {
	t.Helper()
	var mu sync.Mutex
	ids := map[string]string{}
	next := make(chan int)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range next {
				key := fmt.Sprint("key-", i)
				r, err := s.submit(key)
				if err != nil {
					continue
				}
				if r.TaskID == "" {
					t.Errorf("%s: %+v", key, r)
					continue
				}
				mu.Lock()
				ids[key] = r.TaskID
				mu.Unlock()
			}
		})
	}
	for i := from; i < to; i++ {
		next <- i
	}
	close(next)
	all.Wait()
	return ids
}

// follow polls tasks to their end, or to where there is none.
func (s *submitter) follow(t testing.TB, sure, unsure map[string]string, ends bool) {
	t.Helper()
	completed, doubtful := 0, 0
	for _, part := range []map[string]string{sure, unsure} {
		for key, id := range part {
			r, err := s.tell("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			_, certain := sure[key]
			switch {
			case r.Status == "completed":
				if completed++; len(r.Result.Content) != 1 || !strings.HasSuffix(r.Result.Content[0].Text, " for "+key) {
					t.Errorf("%s ended with %+v", key, r.Result)
				}
				if certain && !ends {
					t.Errorf("%s was asked about over another connection", key)
				}
			case r.Status == "working" && r.Meta.Route.Reconciliation:
				if doubtful++; certain && ends {
					t.Errorf("%s is in doubt: %s", key, r.Meta.Route.Phase)
				}
			default:
				t.Errorf("%s: %+v", key, r)
			}
		}
	}
	t.Logf("%d completed, %d in reconciliation", completed, doubtful)
}
