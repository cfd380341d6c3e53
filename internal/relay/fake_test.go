package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// house is Rooms that tests script.
type house struct {
	mu       sync.Mutex // guards all below
	servers  map[string][]string
	watches  map[string]*fakeWatch
	opened   int
	lists    map[string]string // by server and kind: what is seen
	hidden   map[string]string // what is not
	down     bool
	stale    []string
	digests  int
	identity map[string]int
}

func newHouse(upstreams ...string) *house {
	return &house{
		servers: map[string][]string{"s": upstreams}, watches: map[string]*fakeWatch{},
		lists: map[string]string{}, hidden: map[string]string{}, identity: map[string]int{},
	}
}

func (h *house) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *house) Upstreams(server string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.servers[server]
}

func (h *house) Watch(upstream string, hub *Hub) (Watch, any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &fakeWatch{hub: hub, honours: true}
	h.watches[upstream] = w
	h.opened++
	return w, h.identity[upstream]
}

func (h *house) Same(upstream string) any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.identity[upstream]
}

func (h *house) Digest(_ context.Context, v View, kind mcp.Kind) (d ListDigest, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.digests++
	if h.down {
		return d, errors.New("nothing can be listed")
	}
	key := v.Server + " " + kind.String()
	copy(d.Seen[:], h.lists[key])
	copy(d.Whole[:], h.lists[key]+h.hidden[key])
	return d, nil
}

func (h *house) Invalidate(upstream string, kind mcp.Kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stale = append(h.stale, upstream+" "+kind.String())
}

func (h *house) Expose(_ View, upstream, uri, exposed string) (string, bool) {
	return cmp.Or(exposed, upstream+":"+uri), !strings.Contains(uri, "hidden")
}

func (h *house) watch(upstream string) *fakeWatch {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watches[upstream]
}

// fakeWatch honours at once, on a goroutine of its own as a real one does.
type fakeWatch struct {
	hub     *Hub
	mu      sync.Mutex // guards what follows
	wants   []mcp.Filter
	honours bool
	silent  bool
	closed  bool
}

func (w *fakeWatch) Want(f mcp.Filter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wants) == 0 && f.Empty() {
		return
	}
	w.wants = append(w.wants, f)
	if w.silent {
		return
	}
	honoured := mcp.Filter{}
	if w.honours {
		honoured = f
	}
	go w.hub.Honoured(f, honoured)
}

func (w *fakeWatch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

func (w *fakeWatch) last() mcp.Filter {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wants) == 0 {
		return mcp.Filter{}
	}
	return w.wants[len(w.wants)-1]
}

// at runs a test against a board over these upstreams, under a clock that the
// test moves by sleeping.
func at(t *testing.T, upstreams []string, f func(t *testing.T, b *Board, h *house)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(upstreams...)
		b := NewBoard(4, slog.New(slog.DiscardHandler))
		b.Rebind(h)
		f(t, b, h)
		b.Close()
	})
}

// heard is what a listener was told since it was last asked.
func heard(t *testing.T, l *Listener) (out []string) {
	t.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	changed, updates, end := l.Take()
	for _, kind := range changed {
		out = append(out, kind.String())
	}
	for _, u := range updates {
		out = append(out, fmt.Sprintf("%s %s", u.URI, u.Params))
	}
	if end != nil {
		out = append(out, end.Error())
	}
	return out
}

func expect(t *testing.T, l *Listener, what string, want ...string) {
	t.Helper()
	if got := heard(t, l); !slices.Equal(got, want) {
		t.Errorf("%s: told %q, want %q", what, got, want)
	}
}
