package north

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

const (
	maxBatch      = 100 // messages in one batch
	batchParallel = 8   // of them served at once
)

// batch serves an array of messages, which only 2025-03-26 has (checklist 90, T56).
func (h *Handler) batch(ctx context.Context, x *Exchange, body []byte) {
	x.Era = mcp.Legacy
	parts, perr := wire.SplitBatch(body, maxBatch)
	if perr != nil && fault.From(perr).Code == fault.Parse {
		h.fail(x, perr) // what cannot be parsed is no batch either (checklist T1)
		return
	}
	if modern, err := x.era(); modern || err != nil || len(x.Header[mcp.HeaderSession]) == 0 {
		x.Era = mcp.Modern
		h.fail(x, fault.New(fault.InvalidRequest, "a batch is only taken within a session of %s", mcp.V20250326))
		return
	}
	if err := h.resume(ctx, x); err != nil {
		h.fail(x, err)
		return
	}
	if x.Revision != mcp.V20250326 {
		h.fail(x, fault.New(fault.InvalidRequest, "revision %s has no batches", x.Revision).WithHint("send one message a request"))
		return
	}
	if perr == nil && len(parts) == 0 {
		perr = fault.New(fault.InvalidRequest, "the batch is empty")
	}
	if perr != nil {
		h.fail(x, perr)
		return
	}
	answers := h.batchAnswers(ctx, x, parts)
	if len(answers) == 0 {
		h.accepted(x)
		return
	}
	h.done(x, x.Reply(http.StatusOK, []byte{'['}, bytes.Join(answers, []byte{','}), []byte{']'}))
}

// batchAnswers serves the messages, some at a time, and returns the answers in
// the order of their requests.
func (h *Handler) batchAnswers(ctx context.Context, x *Exchange, parts [][]byte) [][]byte {
	x.parts = true
	all := make([][]byte, len(parts))
	gate := make(chan struct{}, batchParallel)
	var wg sync.WaitGroup
	for i, raw := range parts {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			all[i] = h.batchOne(ctx, x, raw, i == 0)
		})
	}
	wg.Wait()
	answers := all[:0]
	for _, a := range all {
		if a != nil {
			answers = append(answers, a)
		}
	}
	return answers
}

func (h *Handler) batchOne(ctx context.Context, x *Exchange, raw []byte, first bool) (answer []byte) {
	out := &collected{limit: maxCollected}
	one := &Exchange{
		Server: x.Server, Principal: x.Principal, Era: x.Era, Revision: x.Revision,
		Session: x.Session, Header: x.Header, Headerless: x.Headerless, out: out, sessions: x.sessions,
	}
	one.Trail.Began, one.Trail.Source, one.Trail.In = time.Now(), x.Trail.Source, int64(len(raw))
	defer h.record(one)
	defer func() {
		if p := recover(); p != nil {
			answer = errorBody(one.ID(), h.panicked(one, p))
		}
	}()
	err := wire.Parse(raw, &one.Msg)
	switch {
	case err != nil:
	case one.Msg.Kind != wire.Request:
		if one.Msg.Kind == wire.Notification && one.Msg.Method == mcp.Cancelled {
			h.cancel(x.Session.ID, one.Msg.RequestID.Of(one.Msg.Raw))
		}
		return nil
	case one.Msg.Method == mcp.Initialize:
		err = fault.New(fault.InvalidRequest, "initialize is not taken in a batch")
	default:
		if first {
			err = nil // the batch was admitted as its first
		} else {
			err = h.gw.Admit(one)
		}
		if err == nil {
			err = h.serveLegacy(one)
		}
	}
	if errors.Is(err, errCancelled) {
		one.Trail.lost(err)
		return nil
	}
	if err != nil {
		f := fault.From(err)
		one.Trail.fail(f)
		h.log(one, f)
		return errorBody(one.ID(), f)
	}
	return out.b.Bytes()
}

// maxCollected bounds one answer within a batch, which must be held.
const maxCollected = 16 << 20

var errCollected = errors.New("answer too large for a batch")

// collected keeps an answer for the batch it belongs to.
type collected struct {
	b     bytes.Buffer
	limit int
}

func (c *collected) whole(_ int, parts ...[]byte) error {
	for _, p := range parts {
		if _, err := c.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// Write implements io.Writer within the bound.
func (c *collected) Write(p []byte) (int, error) {
	if c.b.Len()+len(p) > c.limit {
		return 0, fault.Wrap(errCollected, fault.TooLarge, "an answer within a batch is larger than %d bytes", c.limit).WithHint("send the request alone")
	}
	return c.b.Write(p)
}

func (c *collected) begin() (io.Writer, error)  { return c, nil }
func (c *collected) sent() int64                { return int64(c.b.Len()) }
func (c *collected) keepAlive() error           { return nil }
func (c *collected) beat() error                { return nil }
func (c *collected) broken() bool               { return false }
func (c *collected) end() error                 { return nil }
func (c *collected) event([]byte) (bool, error) { return false, nil }
func (c *collected) takesEvents() bool          { return false }
func (c *collected) framed() bool               { return true } // the batch may go out as an event
func (c *collected) begun() bool                { return false }
func (c *collected) abort()                     {}
