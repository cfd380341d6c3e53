package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

const requestLimit = 4 << 20

// copyBuffers lends the proxy the buffers that it copies bodies through.
type copyBuffers struct{ pool sync.Pool }

func (c *copyBuffers) Get() []byte {
	if b, ok := c.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (c *copyBuffers) Put(b []byte) { c.pool.Put(&b) }

// plainProxy is the hop that everything is compared with: what a few lines of
// the standard library do, with warm connections and pooled buffers. It looks
// at nothing that passes, and cannot merge or translate.
//
// It holds a whole request before it passes it on. Where the body streams
// through, the server ends it as soon as the answer begins; if the transport
// has not seen its end by then, it closes the connection in the middle of the
// answer. With an upstream as quick as ours, a run of large answers rarely ends
// without that.
func plainProxy(upstream *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		BufferPool: &copyBuffers{},
		// As in front of MCP servers: whether an answer is an event stream shows
		// only when it comes, and an event that waits in a buffer is late.
		FlushInterval: -1,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 2048,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestLimit))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if len(body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		proxy.ServeHTTP(w, r)
	})
}

// servePlain serves the plain hop on l until ctx ends.
func servePlain(ctx context.Context, l net.Listener, upstream *url.URL) error {
	server := &http.Server{Handler: plainProxy(upstream), ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
