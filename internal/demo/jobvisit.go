package demo

import (
	"context"
	"sync"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxQuestions bounds the questions to one session that wait for a response; the
// oldest is forgotten first.
const maxQuestions = 256

// getStream is what a visit knows a GET stream by; no request has an id like it.
const getStream = "GET"

// visit is what a job server keeps of a session.
type visit struct {
	caps mcp.ClientCaps

	mu       sync.Mutex // guards what follows
	asked    int64      // requests that were sent to the client
	waiting  map[int64]waitingFor
	inflight map[string]context.CancelFunc // by the request's raw id
}

// waitingFor is the question that a request to the client puts.
type waitingFor struct{ job, key string }

func newVisit(caps mcp.ClientCaps) *visit {
	return &visit{caps: caps, waiting: map[int64]waitingFor{}, inflight: map[string]context.CancelFunc{}}
}

// ask returns the id of the request that puts a question to this session, the
// same one however often it is put.
func (v *visit) ask(q waitingFor) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	oldest := v.asked + 1
	for id, w := range v.waiting {
		if w == q {
			return id
		}
		oldest = min(oldest, id)
	}
	if len(v.waiting) >= maxQuestions {
		delete(v.waiting, oldest)
	}
	v.asked++
	v.waiting[v.asked] = q
	return v.asked
}

// answered returns the question that a request put, once.
func (v *visit) answered(id int64) (q waitingFor, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	q, ok = v.waiting[id]
	delete(v.waiting, id)
	return q, ok
}

// begin makes a request cancellable until end is called. It reports false when
// one of that id is in flight.
func (v *visit) begin(ctx context.Context, id string) (_ context.Context, end func(), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.inflight[id] != nil {
		return ctx, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	v.inflight[id] = cancel
	return ctx, func() {
		cancel()
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.inflight, id)
	}, true
}

// cancel cancels a request that is in flight, if there is one.
func (v *visit) cancel(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if stop := v.inflight[id]; stop != nil {
		stop()
	}
}

// end cancels everything that is in flight.
func (v *visit) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, stop := range v.inflight {
		stop()
	}
}
