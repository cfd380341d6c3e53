package observe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is what the spans say they come from.
const scope = "github.com/penstock-mcp/penstock"

// maxTracestate bounds an incoming tracestate that is read; W3C asks for 512 bytes at least.
const maxTracestate = 8 << 10

// maxAttributes bounds the attributes of one span.
const maxAttributes = 64

// TraceOptions say where traces go. There are no other settings: variables of
// the environment have no effect.
type TraceOptions struct {
	Endpoint string  // of OTLP over HTTP: http(s)://host:port; traces go to /v1/traces unless it has a path
	Sample   float64 // the share of requests without an incoming parent, 0 to 1; with one, the parent decides
	Version  string  // of this program
	Instance string  // tells the instances apart; may be ""
	Log      *slog.Logger
}

// Tracer records spans and delivers them in batches, behind the requests. It is
// safe for concurrent use; all methods do nothing on a nil *Tracer.
type Tracer struct {
	post    *post
	version string
	bound   uint64 // a trace id whose number is below is sampled

	once   sync.Once // guards what follows, which the first sampled span makes
	spans  trace.Tracer
	queued *queue
}

// Stats tells what became of finished spans, so far.
type Stats struct {
	Exported uint64 // taken by the collector
	Dropped  uint64 // thrown away here: the queue was full, or Close ran out of time
	Failed   uint64 // sent, and not taken
	Queued   int64  // neither yet
}

// NewTracer returns a tracer that has not connected to anything and has started
// nothing; the first sampled span does, and Close ends it. The error tells what is wrong with the options.
func NewTracer(o TraceOptions) (*Tracer, error) {
	if math.IsNaN(o.Sample) || o.Sample < 0 || o.Sample > 1 {
		return nil, fmt.Errorf("observe: sample is %v, not a number from 0 to 1", o.Sample)
	}
	to, err := endpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	about := []attribute.KeyValue{attribute.String("service.name", "penstock"), attribute.String("service.version", clean(o.Version))}
	if o.Instance != "" {
		about = append(about, attribute.String("service.instance.id", clean(o.Instance)))
	}
	p, err := newPost(to, resource.NewSchemaless(about...), o.Log)
	if err != nil {
		return nil, err
	}
	return &Tracer{post: p, version: o.Version, bound: uint64(o.Sample * (1 << 63))}, nil
}

// endpoint adds the path for traces. It refuses what would be dropped silently.
func endpoint(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("observe: the otlp endpoint is no URL") // the text may hold a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("observe: the otlp endpoint must be http://host:port or https://host:port")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("observe: the otlp endpoint may have no user, query or fragment")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u, nil
}

// Start begins the span of one request. parent and tracestate are what came with
// it: of its _meta, or else of its headers. A parent that is not valid counts as none, and
// then starts a trace of its own, of which the share Sample is recorded; with a valid one, its flag decides.
// A nil *Tracer returns a Span that passes a valid parent on.
func (t *Tracer) Start(parent, tracestate, name string) Span {
	from, ok := parseTraceparent(parent)
	if ok {
		s := Span{parent: parent, trace: from.trace}
		if t == nil || from.flags&sampledBit == 0 {
			return s
		}
		return t.record(s, t.remote(&from, tracestate), name)
	}
	if t == nil {
		return Span{}
	}
	s := Span{}
	binary.BigEndian.PutUint64(s.trace[:8], nonzero())
	low := nonzero()
	binary.BigEndian.PutUint64(s.trace[8:], low)
	if low>>1 >= t.bound {
		return s
	}
	return t.record(s, context.WithValue(context.Background(), rootKey{}, s.trace), name)
}

func (t *Tracer) remote(from *remote, tracestate string) context.Context {
	c := trace.SpanContextConfig{TraceID: from.trace, SpanID: from.span, TraceFlags: trace.TraceFlags(from.flags), Remote: true}
	if tracestate != "" && len(tracestate) <= maxTracestate {
		if state, err := trace.ParseTraceState(tracestate); err == nil {
			c.TraceState = state
		}
	}
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(c))
}

// record makes s a span that is recorded, unless the tracer is closed.
func (t *Tracer) record(s Span, ctx context.Context, name string) Span {
	t.once.Do(t.open)
	if t.spans != nil {
		s.tracer, s.live = t, t.begin(ctx, name, trace.SpanKindServer)
	}
	return s
}

// begin starts a recorded span; the tracer is open.
func (t *Tracer) begin(ctx context.Context, name string, kind trace.SpanKind) trace.Span {
	_, live := t.spans.Start(ctx, clean(name), trace.WithSpanKind(kind))
	return live
}

// open starts the one goroutine that delivers. Every setting is given here, since
// the SDK takes the ones that are not from the environment.
func (t *Tracer) open() {
	t.queued = newQueue(t.post)
	t.spans = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), // Start has decided
		sdk.WithIDGenerator(ids{}),
		sdk.WithResource(resource.Empty()), // what it adds from the environment is replaced: see posted
		sdk.WithSpanProcessor(t.queued),
		sdk.WithRawSpanLimits(sdk.SpanLimits{AttributeValueLengthLimit: maxValue, AttributeCountLimit: maxAttributes}),
	).Tracer(scope, trace.WithInstrumentationVersion(t.version))
}

// Close delivers what is finished, within ctx, drops what then is left, and ends
// the tracer's goroutine and connections. Spans that end later are dropped. The error
// says that not everything was delivered in time.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.once.Do(func() {}) // never used: nothing is opened any more
	if t.queued == nil {
		return nil
	}
	return t.queued.close(ctx)
}

// Stats tells what became of the spans.
func (t *Tracer) Stats() Stats {
	if t == nil {
		return Stats{}
	}
	return t.post.stats()
}
