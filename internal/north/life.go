package north

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// lives is how many locks and contexts the requests of legacy clients are
// spread over, by session.
const lives = 32

// life is what a legacy request ends with: not with its connection (checklist
// T24), but when its client cancels it, or when the gateway cuts what did not
// end in time.
type life struct {
	ctx context.Context
	end context.CancelFunc

	mu    sync.Mutex // guards what follows; never held while serving
	calls map[callKey]*legacyCall
	asks  map[askKey]chan []byte // questions to clients that are open
}

// callKey names a request in flight. Ids of two sessions never meet.
type callKey struct{ session, id string }

// legacyCall is a request that its client can cancel.
type legacyCall struct {
	cancel    context.CancelFunc
	cancelled atomic.Bool
}

// errCancelled is a request that its client has cancelled: nothing is said of
// it any more.
var errCancelled = errors.New("cancelled by the client")

var sessionSeed = maphash.MakeSeed()

func (l *life) begin() {
	l.ctx, l.end = context.WithCancel(context.Background())
	l.calls = map[callKey]*legacyCall{}
	l.asks = map[askKey]chan []byte{}
}

func (h *Handler) lifeOf(session string) *life {
	return &h.lives[maphash.String(sessionSeed, session)%lives]
}

// Cut ends the requests of legacy clients that are still being served, for good.
func (h *Handler) Cut() {
	for i := range h.lives {
		h.lives[i].end()
	}
}

// attend serves a request of a session. Where the work may take long, a
// notifications/cancelled of the same session ends it.
func (h *Handler) attend(x *Exchange) error {
	l := h.lifeOf(x.Session.ID)
	if x.Method.Header == mcp.NoName && x.Method.Name != mcp.Complete {
		return h.gw.Serve(l.ctx, x)
	}
	key := callKey{x.Session.ID, idKey(x.ID())}
	ctx, cancel := context.WithCancel(l.ctx)
	call := &legacyCall{cancel: cancel}
	l.mu.Lock()
	l.calls[key] = call
	l.mu.Unlock()
	defer func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.calls[key] == call {
			delete(l.calls, key)
		}
	}()
	err := h.gw.Serve(ctx, x)
	if err != nil && call.cancelled.Load() {
		return errCancelled
	}
	return err
}

// cancel ends a request of a session that is in flight here. One that is not
// there any more, or never was, is none of our business (checklist 98).
func (h *Handler) cancel(session string, id []byte) {
	if len(id) == 0 {
		return
	}
	l := h.lifeOf(session)
	l.mu.Lock()
	call := l.calls[callKey{session, idKey(id)}]
	l.mu.Unlock()
	if call != nil {
		call.cancelled.Store(true)
		call.cancel()
	}
}
