package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/north"
)

// running is a gateway with its listeners.
type running struct {
	doc     *config.Document
	log     *slog.Logger
	store   *penstock.Store
	gw      *penstock.Gateway
	main    *north.Listener
	observe *north.Listener // or nil
	admin   *adminSocket    // or nil
	base    string          // scheme and address of the main listener
	failed  chan error      // a listener that ended by itself
	done    chan struct{}   // closed when Run returned
	stop    context.CancelFunc
}

func newRunning(ctx context.Context, doc *config.Document, log *slog.Logger) (*running, error) {
	r := &running{doc: doc, log: log, failed: make(chan error, 4), done: make(chan struct{})}
	var err error
	if r.store, err = penstock.OpenStore(ctx, doc, log); err != nil {
		return nil, err
	}
	if r.gw, err = penstock.New(doc, penstock.WithLogger(log), penstock.WithStore(r.store), penstock.WithChildGuard(guardCommand()...)); err != nil {
		return nil, errors.Join(err, r.store.Close())
	}
	o := north.ListenOptions{HeaderBytes: int(doc.Limits.HeaderBytes), Connections: doc.Limits.Connections, Log: log}
	scheme := "http"
	if doc.TLS != nil {
		pair, err := tls.LoadX509KeyPair(doc.TLS.Cert, doc.TLS.Key)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("tls: %w", err), r.store.Close())
		}
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
		scheme = "https"
	}
	if r.main, err = north.Listen(ctx, doc.Listen, r.gw.Handler(), o); err != nil {
		return nil, errors.Join(err, r.store.Close())
	}
	r.base = scheme + "://" + r.main.Addr().String()
	if doc.Observe.Listen != "" {
		h := http.NewServeMux()
		h.Handle("GET /ready", r.gw.Details())
		h.Handle("GET /health", r.gw.Handler())
		h.Handle("GET /metrics", r.gw.Metrics())
		o := north.ListenOptions{HeaderBytes: 16 << 10, Connections: 100, Log: log}
		if r.observe, err = north.Listen(ctx, doc.Observe.Listen, h, o); err != nil {
			return nil, errors.Join(fmt.Errorf("observe: %w", err), r.shutdown())
		}
	}
	if r.admin, err = newAdminSocket(ctx, doc, r.gw.Admin(), log); err != nil {
		return nil, errors.Join(err, r.shutdown())
	}
	return r, nil
}

// start serves; every goroutine ends with shutdown.
func (r *running) start(ctx context.Context) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	go func() {
		defer close(r.done)
		var both sync.WaitGroup
		for _, f := range []func(context.Context) error{r.gw.Run, r.store.Run} {
			both.Go(func() {
				if err := f(run); err != nil && run.Err() == nil {
					r.failed <- err
				}
			})
		}
		both.Wait()
	}()
	for _, l := range []*north.Listener{r.main, r.observe} {
		if l != nil {
			go func() {
				if err := l.Serve(); err != nil {
					r.failed <- err
				}
			}()
		}
	}
	if r.admin != nil {
		r.admin.start()
	}
}

// wait drains when ctx ends, or stops with the error of a listener.
func (r *running) wait(ctx context.Context) error {
	var failed error
	select {
	case <-ctx.Done():
		r.log.Info("draining", "within", time.Duration(r.doc.Shutdown))
	case failed = <-r.failed:
	}
	return errors.Join(failed, r.shutdown())
}

func (r *running) shutdown() error {
	r.gw.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.doc.Shutdown))
	defer cancel()
	if err := r.main.Shutdown(ctx); err != nil {
		r.log.Warn("drain", "error", err)
	}
	if r.observe != nil {
		if err := r.observe.Shutdown(ctx); err != nil {
			r.log.Warn("drain of observe", "error", err)
		}
	}
	if r.admin != nil {
		r.admin.close(ctx)
	}
	if r.stop != nil {
		r.stop()
		<-r.done
	}
	end, cancelEnd := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancelEnd()
	return errors.Join(r.gw.Close(end), r.store.Close())
}
