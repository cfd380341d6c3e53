package tasks_listen_test

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
)

// shop is an upstream of jobs that can be cut off, stopped and started again.
type shop struct {
	t    *testing.T
	addr string
	jobs *demo.JobServer

	mu     sync.Mutex // guards what follows
	server *http.Server
	counts map[string]int // messages by method
	deaf   bool           // listens are refused
}

// newShop starts a job server. Its jobs take three stages of the pace.
func newShop(t *testing.T, o demo.JobOptions) *shop {
	t.Helper()
	s := &shop{t: t, counts: map[string]int{}}
	o.Log = func(c demo.JobCall) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts[c.Method]++
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	s.jobs = demo.Jobs(o)
	s.start("127.0.0.1:0")
	t.Cleanup(func() {
		s.jobs.Close()
		s.stop()
	})
	return s
}

func (s *shop) url() string { return "http://" + s.addr + "/mcp" }

func (s *shop) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[method]
}

func (s *shop) start(addr string) {
	s.t.Helper()
	var l net.Listener
	wait(s.t, "the address", func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", addr)
		return err == nil
	})
	s.addr = l.Addr().String()
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		deaf := s.deaf
		s.mu.Unlock()
		if deaf && r.Header.Get("Mcp-Method") == "subscriptions/listen" {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		s.jobs.ServeHTTP(w, r)
	})}
	s.mu.Lock()
	s.server = srv
	s.mu.Unlock()
	go func() { _ = srv.Serve(l) }()
}

// stop closes the address and cuts every connection.
func (s *shop) stop() {
	s.mu.Lock()
	srv := s.server
	s.mu.Unlock()
	_ = srv.Close()
}

// cut cuts every connection and goes on; deaf says that listens are refused from
// then on.
func (s *shop) cut(deaf bool) {
	s.mu.Lock()
	s.deaf = deaf
	s.mu.Unlock()
	s.stop()
	s.start(s.addr)
}
