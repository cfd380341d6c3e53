package north

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// lives is how many locks and contexts the requests of legacy clients are
// spread over, by session.
const lives = 32

// life is what a legacy request ends with: not with its connection (checklist
// T24), but when its client cancels it, or when the gateway cuts what did not
// end in time. It belongs to one handler.
type life struct {
	ctx context.Context
	end context.CancelFunc
}

// talk is what some sessions have under way, under whichever handler it began:
// a client's cancel and its answer to a question find it after a reload, too.
type talk struct {
	mu    sync.Mutex // guards what follows; never held while serving
	calls map[callKey]*legacyCall
	asks  map[askKey]chan []byte // questions to clients that are open
	logs  map[string]*eventLog   // what streams have said, by session id
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

func (l *life) begin() { l.ctx, l.end = context.WithCancel(context.Background()) }

func (t *talk) begin() {
	t.calls = map[callKey]*legacyCall{}
	t.asks = map[askKey]chan []byte{}
	t.logs = map[string]*eventLog{}
}

// share is the part of lives that a session belongs to.
func share(session string) uint64 { return maphash.String(sessionSeed, session) % lives }

// Cut ends the requests of legacy clients that this handler is still serving,
// for good.
func (h *Handler) Cut() {
	for i := range h.lives {
		h.lives[i].end()
	}
}

// attend serves a request of a session. Where the work may take long, a
// notifications/cancelled of the same session ends it.
func (h *Handler) attend(x *Exchange) error {
	part := share(x.Session.ID)
	l, t := &h.lives[part], &h.ongoing.talks[part]
	if x.Method.Header == mcp.NoName && x.Method.Name != mcp.Complete {
		return l.cutShort(h.gw.Serve(l.ctx, x))
	}
	key := callKey{x.Session.ID, idKey(x.ID())}
	ctx, cancel := context.WithCancel(l.ctx)
	call := &legacyCall{cancel: cancel}
	t.mu.Lock()
	t.calls[key] = call
	t.mu.Unlock()
	defer func() {
		cancel()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.calls[key] == call {
			delete(t.calls, key)
		}
	}()
	err := h.gw.Serve(ctx, x)
	if err != nil && call.cancelled.Load() {
		return errCancelled
	}
	return l.cutShort(err)
}

// cutShort makes an answer of the error of a request that Cut has ended.
func (l *life) cutShort(err error) error {
	if err != nil && l.ctx.Err() != nil && errors.Is(err, context.Canceled) && fault.From(err).Code == fault.Internal {
		return stopped(err)
	}
	return err
}

// stopped is a request that the gateway ends before its answer, to stop or because
// it serves another document.
func stopped(err error) error {
	return fault.Wrap(err, fault.ConnectionLost, "the gateway stopped before the answer").WithHint("the call may have run; check before sending it again")
}

// cancel ends a request of a session that is in flight in this process. One that is not
// there any more, or never was, is none of our business (checklist 98).
func (h *Handler) cancel(session string, id []byte) {
	if len(id) == 0 {
		return
	}
	t := h.ongoing.talkOf(session)
	t.mu.Lock()
	call := t.calls[callKey{session, idKey(id)}]
	t.mu.Unlock()
	if call != nil {
		call.cancelled.Store(true)
		call.cancel()
	}
}
