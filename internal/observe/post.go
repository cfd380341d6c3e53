package observe

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// The bounds on one request to the collector.
const (
	dialWithin  = 5 * time.Second
	sendWithin  = 10 * time.Second
	maxReply    = 64 << 10
	maxReason   = 300 // of a failure, in the log
	retryAfter  = time.Second
	retryWithin = 10 * time.Second
)

// post sends batches to the collector. It reports no failure to its caller, which
// would write it where nobody looks, but counts and logs it.
type post struct {
	to        sdk.SpanExporter
	transport *http.Transport
	about     *resource.Resource
	log       *slog.Logger
	seldom    fault.Seldom
	told      uint64 // of dropped, when it was last logged; batches are sent one at a time

	over  context.Context // ends with end: what is being sent is given up
	end   context.CancelFunc
	once  sync.Once
	ended chan struct{} // closed when nothing will be sent any more

	exported, dropped, failed atomic.Uint64
	queued                    atomic.Int64
}

func newPost(to *url.URL, about *resource.Resource, log *slog.Logger) (*post, error) {
	p := &post{about: about, log: log, ended: make(chan struct{})}
	p.over, p.end = context.WithCancel(context.Background())
	p.transport = &http.Transport{
		Proxy:               nil, // whatever HTTP_PROXY says
		DialContext:         (&net.Dialer{Timeout: dialWithin}).DialContext,
		TLSHandshakeTimeout: dialWithin,
		ForceAttemptHTTP2:   true,
		MaxConnsPerHost:     2,
		IdleConnTimeout:     90 * time.Second,
	}
	x, err := otlptrace.New(context.Background(), newExporter(to, &http.Client{
		Transport:     p.transport,
		Timeout:       sendWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	if err != nil {
		return nil, err
	}
	p.to = x
	return p, nil
}

// ExportSpans implements sdk.SpanExporter.
func (p *post) ExportSpans(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	n := len(batch)
	defer p.queued.Add(-int64(n))
	if p.over.Err() != nil {
		p.dropped.Add(uint64(n))
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.over, cancel)()
	sending := make([]sdk.ReadOnlySpan, n)
	for i, s := range batch {
		sending[i] = posted{s, p.about}
	}
	if err := p.to.ExportSpans(ctx, sending); err != nil {
		p.failed.Add(uint64(n))
		p.seldom.Say(p.log, slog.LevelWarn, "traces were not taken by the collector", "failed_so_far", p.failed.Load(), "dropped_so_far", p.dropped.Load(), "error", reason(err))
		return nil
	}
	p.exported.Add(uint64(n))
	if lost := p.dropped.Load(); lost > p.told {
		p.told = lost
		p.seldom.Say(p.log, slog.LevelWarn, "traces were dropped: the collector is too slow for them", "dropped_so_far", lost)
	}
	return nil
}

// Shutdown implements sdk.SpanExporter. It is called once, after the last batch.
func (p *post) Shutdown(ctx context.Context) error {
	defer p.once.Do(func() { close(p.ended) })
	defer p.transport.CloseIdleConnections()
	return p.to.Shutdown(ctx)
}

func (p *post) stats() Stats {
	return Stats{Exported: p.exported.Load(), Dropped: p.dropped.Load(), Failed: p.failed.Load(), Queued: max(p.queued.Load(), 0)}
}

// reason is one line of an error that may hold what the collector answered.
func reason(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	if len(s) > maxReason {
		s = s[:maxReason] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// posted is a span that comes from this gateway, whatever the environment says of
// the resource.
type posted struct {
	sdk.ReadOnlySpan
	about *resource.Resource
}

// Resource implements sdk.ReadOnlySpan.
func (p posted) Resource() *resource.Resource { return p.about }
