package north

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// Listener is an HTTP server with the bounds of DESIGN section 2, step 1.
type Listener struct {
	srv   *http.Server
	bound *patientListener
	ln    net.Listener // bound, or TLS over it
	open  atomic.Int64
	limit int64
	log   *slog.Logger
	full  fault.Seldom // limit was reached
}

// ListenOptions configure a Listener.
type ListenOptions struct {
	HeaderBytes int
	Connections int
	TLS         *tls.Config // nil: plain HTTP
	Log         *slog.Logger
}

// Listen binds an address. Serve accepts on it.
func Listen(ctx context.Context, addr string, h http.Handler, o ListenOptions) (*Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l := &Listener{bound: newPatientListener(ln), limit: int64(o.Connections), log: o.Log}
	l.ln = l.bound
	l.srv = &http.Server{
		Handler:           h,
		MaxHeaderBytes:    o.HeaderBytes,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		ConnState:         l.count,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	if o.TLS != nil {
		l.srv.TLSConfig = http2(o.TLS)
		l.ln = tls.NewListener(l.bound, l.srv.TLSConfig)
	}
	return l, nil
}

// http2 offers both protocols, as net/http does for its own TLS listeners.
func http2(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.NextProtos = []string{"h2", "http/1.1"}
	return c
}

// count closes connections beyond the bound before anything is read from them.
func (l *Listener) count(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		if n := l.open.Add(1); l.limit > 0 && n > l.limit {
			l.full.Say(l.log, slog.LevelWarn, "connection refused: limits.connections is reached", "limit", l.limit)
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		l.open.Add(-1)
	}
}

// Addr is the bound address.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Serve accepts until Shutdown.
func (l *Listener) Serve() error {
	ctx, stop := context.WithCancel(context.Background())
	var sweeper sync.WaitGroup
	sweeper.Go(func() { l.bound.sweep(ctx) })
	defer sweeper.Wait()
	defer stop()
	if err := l.srv.Serve(l.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.ln.Addr(), err)
	}
	return nil
}

// Shutdown accepts no more, waits for requests in flight as long as ctx allows,
// and cuts what is left.
func (l *Listener) Shutdown(ctx context.Context) error {
	if err := l.srv.Shutdown(ctx); err != nil {
		_ = l.srv.Close()
		return fmt.Errorf("requests were cut after the time for draining: %w", err)
	}
	return nil
}
