package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// fleet is a Fetcher over upstreams that tests script.
type fleet struct {
	mu    sync.Mutex // guards all below
	ups   map[string]*fakeUpstream
	calls map[string]int // by upstream and method
	auth  []Scope
}

type fakeUpstream struct {
	pages  map[mcp.Kind][]string // raw results; page i has the cursor "i"
	era    mcp.Era
	err    error
	hang   bool
	delay  time.Duration
	answer func(scope Scope, kind mcp.Kind, cursor []byte) (string, error)
}

func newFleet() *fleet {
	return &fleet{ups: map[string]*fakeUpstream{}, calls: map[string]int{}}
}

// up adds an upstream with one page of public, long-lived lists.
func (f *fleet) up(key string, lists map[mcp.Kind][]string) *fakeUpstream {
	u := &fakeUpstream{pages: map[mcp.Kind][]string{}, era: mcp.Modern}
	for kind, items := range lists {
		u.pages[kind] = []string{result(kind, "", items...)}
	}
	f.mu.Lock()
	f.ups[key] = u
	f.mu.Unlock()
	return u
}

func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fleet) count(key string, kind mcp.Kind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[key+" "+kind.Method()]
}

func (f *fleet) Page(ctx context.Context, upstream string, scope Scope, kind mcp.Kind, cursor []byte) (Page, error) {
	f.mu.Lock()
	f.calls[upstream+" "+kind.Method()]++
	f.auth = append(f.auth, scope)
	u := *f.ups[upstream]
	u.pages = maps.Clone(u.pages)
	f.mu.Unlock()
	if u.hang {
		<-ctx.Done()
		return Page{}, ctx.Err()
	}
	if u.delay > 0 && !sleep(ctx, u.delay) {
		return Page{}, ctx.Err()
	}
	if u.err != nil {
		return Page{}, u.err
	}
	if u.answer != nil {
		raw, err := u.answer(scope, kind, cursor)
		return Page{Result: []byte(raw), Era: u.era, HTTP: true}, err
	}
	pages := u.pages[kind]
	if pages == nil {
		return Page{}, fmt.Errorf("no %s: %w", kind, ErrAbsent)
	}
	at := 0
	if cursor != nil {
		if _, err := fmt.Sscanf(string(cursor), `"%d"`, &at); err != nil || at >= len(pages) {
			return Page{}, errors.New("bad cursor")
		}
	}
	return Page{Result: []byte(pages[at]), Era: u.era, HTTP: true}, nil
}

// result is a list result: public for a minute.
func result(kind mcp.Kind, next string, items ...string) string {
	s := fmt.Sprintf(`{"%s":[%s],"ttlMs":60000,"cacheScope":"public"`, kind, strings.Join(items, ","))
	if next != "" {
		s += `,"nextCursor":"` + next + `"`
	}
	return s + "}"
}

func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

func tools(names ...string) map[mcp.Kind][]string {
	var items []string
	for _, n := range names {
		items = append(items, tool(n))
	}
	return map[mcp.Kind][]string{mcp.Tools: items}
}

func resource(uri, name string) string {
	return fmt.Sprintf(`{"uri":%q,"name":%q}`, uri, name)
}

func uriTemplate(text, name string) string {
	return fmt.Sprintf(`{"uriTemplate":%q,"name":%q}`, text, name)
}

// serve makes a Server over all upstreams of the fleet.
func serve(t testing.TB, f *fleet, change func(*Options)) *Server {
	t.Helper()
	o := Options{Name: "default", CursorKey: []byte("0123456789abcdef0123456789abcdef")}
	for key := range f.ups {
		o.Members = append(o.Members, Member{Key: key})
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

var (
	alice = Scope{Principal: [32]byte{1}}
	bob   = Scope{Principal: [32]byte{2}}
)

// all walks every page and returns the identifiers listed.
func all(t testing.TB, s *Server, scope Scope, kind mcp.Kind) []string {
	t.Helper()
	var out []string
	l, err := s.List(t.Context(), scope, nil, kind, mcp.LatestModern, "", false)
	for n := 0; ; n++ {
		if err != nil {
			t.Fatalf("list %s: %v", kind, err)
		}
		out = append(out, ids(t, kind, l)...)
		if l.Next == "" {
			return out
		}
		if n > 1000 {
			t.Fatal("the walk does not end")
		}
		l, err = s.List(t.Context(), scope, nil, kind, mcp.LatestModern, l.Next, true)
	}
}

func items(t testing.TB, l List) []map[string]any {
	t.Helper()
	var out []map[string]any
	if err := json.Unmarshal([]byte("["+string(l.Items)+"]"), &out); err != nil {
		t.Fatalf("items are not valid JSON: %v\n%s", err, l.Items)
	}
	if len(out) != l.Count {
		t.Fatalf("%d items, Count says %d", len(out), l.Count)
	}
	return out
}

func ids(t testing.TB, kind mcp.Kind, l List) []string {
	t.Helper()
	var out []string
	for _, it := range items(t, l) {
		out = append(out, it[kind.ID()].(string))
	}
	return out
}

// goesTo checks where an identifier is routed.
func goesTo(t testing.TB, s *Server, kind mcp.Kind, id, upstream, original string) Target {
	t.Helper()
	got, err := s.Resolve(t.Context(), alice, kind, id)
	if err != nil {
		t.Fatalf("resolve %s %q: %v", kind, id, err)
	}
	if got.Upstream != upstream || got.ID != original {
		t.Fatalf("resolve %s %q: got %s %q by %q, want %s %q", kind, id, got.Upstream, got.ID, got.Rule, upstream, original)
	}
	return got
}

// isRefused checks that an identifier is answered as unknown, by its name.
func isRefused(t testing.TB, s *Server, kind mcp.Kind, id string) {
	t.Helper()
	got, err := s.Resolve(t.Context(), alice, kind, id)
	if err == nil {
		t.Fatalf("resolve %s %q: got %s %q, want it unknown", kind, id, got.Upstream, got.ID)
	}
	fe := fault.From(err)
	if fe.Code != fault.InvalidParams || !strings.Contains(fe.Message, fmt.Sprintf("%q", id)) {
		t.Fatalf("resolve %s %q: got %v, want invalid params that name it", kind, id, err)
	}
}

func codeOf(err error) fault.Code {
	if err == nil {
		return 0
	}
	return fault.From(err).Code
}
