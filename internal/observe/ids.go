package observe

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// rootKey is where Start leaves the trace id that it has drawn.
type rootKey struct{}

// ids gives spans the trace that Start has decided on. They are not secret, and
// drawn from the runtime's generator, which no two processes share.
type ids struct{}

// NewIDs implements the SDK's IDGenerator, for a span without a parent.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, _ := ctx.Value(rootKey{}).([16]byte)
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements the SDK's IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], nonzero())
	return id
}

func nonzero() uint64 {
	for {
		if n := rand.Uint64(); n != 0 {
			return n
		}
	}
}
