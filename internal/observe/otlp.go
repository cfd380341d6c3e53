package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// exporter speaks OTLP over HTTP to one endpoint. The exporter that comes with the
// SDK would bring gRPC into every process: a fifth of the program, of which nothing
// here would ever run.
//
// It implements otlptrace.Client.
type exporter struct {
	endpoint string
	client   *http.Client
}

func newExporter(to *url.URL, client *http.Client) *exporter {
	return &exporter{endpoint: to.String(), client: client}
}

// Start implements otlptrace.Client.
func (*exporter) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (*exporter) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client. What the collector may take later is
// sent again, as long as OTLP's rules and ctx allow.
func (c *exporter) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	if len(spans) == 0 {
		return nil
	}
	// A TracesData has the wire form of an ExportTraceServiceRequest.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return backoff.Permanent(err)
	}
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = retryAfter, 5*retryAfter
	_, err = backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, c.send(ctx, body) },
		backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(retryWithin))
	return err
}

func (c *exporter) send(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "penstock")
	resp, err := c.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the address
		}
		return fmt.Errorf("send traces: %w", err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	switch {
	case resp.StatusCode/100 == 2:
		return err
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusBadGateway,
		resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && time.Duration(s)*time.Second <= retryWithin {
			return backoff.RetryAfter(s)
		}
		return fmt.Errorf("send traces: HTTP %d", resp.StatusCode)
	}
	return backoff.Permanent(fmt.Errorf("send traces: HTTP %d %s", resp.StatusCode, reply))
}
