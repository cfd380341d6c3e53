package observe

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// The bounds on what waits to be delivered.
const (
	maxQueued    = 2048
	maxBatch     = 512
	batchAfter   = 5 * time.Second
	exportWithin = 15 * time.Second // of one batch, retries included
	endWithin    = 2 * time.Second  // for the goroutine to see that it is over
)

// queue is the SDK's batch processor behind a gate of our own, which counts what
// it drops: the processor does not tell.
type queue struct {
	sdk.SpanProcessor
	post   *post
	closed atomic.Bool
}

func newQueue(p *post) *queue {
	return &queue{post: p, SpanProcessor: sdk.NewBatchSpanProcessor(
		p,
		sdk.WithMaxQueueSize(maxQueued),
		sdk.WithMaxExportBatchSize(maxBatch),
		sdk.WithBatchTimeout(batchAfter),
		sdk.WithExportTimeout(exportWithin),
	)}
}

// OnEnd implements sdk.SpanProcessor. It never waits.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if q.closed.Load() {
		q.post.dropped.Add(1)
		return
	}
	if q.post.queued.Add(1) > maxQueued {
		q.post.queued.Add(-1)
		q.post.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// close delivers what is queued within ctx. Then the goroutine has ended, or it
// is about to: nothing that it could wait for is left.
func (q *queue) close(ctx context.Context) error {
	if q.closed.Swap(true) {
		return nil
	}
	err := q.Shutdown(ctx)
	q.post.end()
	select {
	case <-q.post.ended:
	case <-time.After(endWithin):
	}
	if left := q.post.queued.Swap(0); left > 0 {
		q.post.dropped.Add(uint64(left))
	}
	if err != nil {
		return fmt.Errorf("observe: not all spans were delivered: %w", err)
	}
	return nil
}
