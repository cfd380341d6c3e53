package south

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// tells are capabilities of an upstream that tells of everything.
const tells = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`

var allLists = mcp.Filter{Tools: true, Prompts: true, Resources: true}

// notes is a sink that writes down what it is told.
type notes struct {
	mu    sync.Mutex // guards what follows
	lines []string
	busy  bool
	bad   string // a breach of what a sink is promised
}

func (n *notes) add(line string) {
	n.mu.Lock()
	if n.busy {
		n.bad = "two methods at a time"
	}
	n.busy = true
	n.lines = append(n.lines, line)
	n.mu.Unlock()
	time.Sleep(time.Millisecond) // long enough for another one to be seen
	n.mu.Lock()
	n.busy = false
	n.mu.Unlock()
}

func (n *notes) Honoured(_, f mcp.Filter)          { n.add("honoured " + string(f.Append(nil))) }
func (n *notes) Changed(k mcp.Kind)                { n.add("changed " + k.String()) }
func (n *notes) Updated(uri string, params []byte) { n.add("updated " + uri + " " + string(params)) }
func (n *notes) Reopened()                         { n.add("reopened") }
func (n *notes) Other(method string, raw []byte)   { n.add("other " + method + " " + string(raw)) }

func (n *notes) got() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}

func (n *notes) count(line string) (c int) {
	for _, l := range n.got() {
		if strings.HasPrefix(l, line) {
			c++
		}
	}
	return c
}

// await waits for exactly these lines, and that no other follows them for a moment.
func (n *notes) await(t *testing.T, want ...string) {
	t.Helper()
	end := time.Now().Add(8 * time.Second)
	for len(n.got()) < len(want) && time.Now().Before(end) {
		time.Sleep(2 * time.Millisecond)
	}
	time.Sleep(30 * time.Millisecond)
	if d := cmp.Diff(want, n.got()); d != "" {
		t.Fatal(d)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bad != "" {
		t.Error(n.bad)
	}
}

// held is a stream that a stub holds open.
type held struct {
	arrived
	out  chan string   // what its handler is to write
	end  func()        // ends it from the upstream's side
	gone chan struct{} // closed when it ended
}

func (h *held) write(s string) {
	select {
	case h.out <- s:
	case <-h.gone:
	}
}

// event writes one message.
func (h *held) event(message string) {
	h.write("data: " + strings.ReplaceAll(message, "$ID", h.id) + "\n\n")
}

// holder holds streams open.
type holder struct {
	mu  sync.Mutex // guards all
	all []*held
}

// serve answers with a stream, which begins with the given messages.
func (h *holder) serve(w http.ResponseWriter, r *http.Request, a arrived, first ...string) {
	ended := make(chan struct{})
	s := &held{arrived: a, out: make(chan string), end: sync.OnceFunc(func() { close(ended) }), gone: make(chan struct{})}
	defer close(s.gone)
	write := stream(w)
	for _, m := range first {
		write("data: " + strings.ReplaceAll(m, "$ID", a.id) + "\n\n")
	}
	h.mu.Lock()
	h.all = append(h.all, s)
	h.mu.Unlock()
	for {
		select {
		case text := <-s.out:
			write(text)
		case <-ended:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (h *holder) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// stream waits for the nth stream, counted from one.
func (h *holder) stream(t *testing.T, n int) *held {
	t.Helper()
	settle(t, "stream "+itoa(n), func() bool { return h.len() >= n })
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[n-1]
}

func isGone(h *held) bool {
	select {
	case <-h.gone:
		return true
	default:
		return false
	}
}

func changed(kind mcp.Kind) string { return `{"jsonrpc":"2.0","method":"` + kind.Changed() + `"}` }

func updated(uri string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
}

// watching returns a watch that is closed with the test.
func watching(t *testing.T, w interface {
	Watch(key SessionKey, sink Sink) *Watch
},
) (*Watch, *notes) {
	t.Helper()
	n := &notes{}
	watch := w.Watch(key("n"), n)
	t.Cleanup(watch.Close)
	return watch, n
}
