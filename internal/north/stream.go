package north

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// ErrStreamsEnd is the cause of a stream's context when the gateway ends it: the
// stream says goodbye and is closed.
var ErrStreamsEnd = errors.New("north: the gateway ends its streams")

// stream serves what is open for as long as its client likes: it counts among
// the streams of its principal, and its context ends with all streams, too.
func (h *Handler) stream(ctx context.Context, x *Exchange, serve func(context.Context, *Exchange) error) error {
	return h.counted(ctx, x, func(ctx context.Context, x *Exchange) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(h.ongoing.streaming, func() { cancel(ErrStreamsEnd) })()
		return serve(ctx, x)
	})
}

// counted serves an event stream that counts among those of its principal.
func (h *Handler) counted(ctx context.Context, x *Exchange, serve func(context.Context, *Exchange) error) error {
	if !x.out.takesEvents() {
		return fault.New(fault.NotAcceptable, "the answer is text/event-stream, and the client does not accept it").
			WithHint("accept text/event-stream")
	}
	if !h.ongoing.enter(x.Principal, h.o.Streams) {
		return fault.New(fault.AtCapacity, "%d streams of this caller are open, the limit", h.o.Streams).
			WithHint("close some, or raise limits.streams_per_principal")
	}
	defer h.ongoing.leave(x.Principal)
	return serve(ctx, x)
}

// aloof is stream for a request that was counted among those in flight: a stream
// takes no place there, and a replaced handler does not wait for it.
func (h *Handler) aloof(ctx context.Context, x *Exchange, serve func(context.Context, *Exchange) error) error {
	x.Principal.release()
	h.serving.Add(-1)
	defer func() { // before the count of the request is taken back
		h.serving.Add(1)
		x.Principal.tally().inFlight.Add(1)
	}()
	return h.stream(ctx, x, serve)
}

// Wait returns nil when wake has a value or is closed, and writes keep-alive
// comments meanwhile (Options.KeepAlive; nothing for stdio). It returns
// context.Cause(ctx) when ctx ended, or the error of a client that is gone. A
// nil wake waits for the end.
func (x *Exchange) Wait(ctx context.Context, wake <-chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	alive := time.NewTicker(x.handler.o.KeepAlive)
	defer alive.Stop()
	for {
		select {
		case <-wake:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-alive.C:
			if err := x.alone(x.out.keepAlive); err != nil {
				return err
			}
		}
	}
}
