package routing_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var lists = []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}

// meeting lets nobody on before n have come, or a second has passed.
type meeting struct {
	mu   sync.Mutex
	n    int
	late bool
	open chan struct{}
}

func newMeeting(n int) *meeting { return &meeting{n: n, open: make(chan struct{})} }

func (m *meeting) wait() {
	m.mu.Lock()
	if m.n--; m.n == 0 {
		close(m.open)
	}
	m.mu.Unlock()
	select {
	case <-m.open:
	case <-time.After(900 * time.Millisecond):
		m.mu.Lock()
		m.late = true
		m.mu.Unlock()
	}
}

func (m *meeting) met() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n <= 0 && !m.late
}

func TestS8ListsAskAllUpstreamsAtOnce(t *testing.T) {
	t.Parallel()
	for _, method := range lists {
		up := counters()
		up["three"] = counters()["gateway-one"]
		m := newMeeting(len(up))
		for _, p := range up {
			p.before = func(got request) {
				if got.method == method {
					m.wait()
				}
			}
		}
		c := serve(t, up, "").modern("")
		if got := c.ids(t, method); !m.met() {
			t.Errorf("%s: an upstream was asked only after another had answered (%q)", method, got)
		}
	}
}

// S8, edge: DESIGN section 6 gives every upstream a deadline, so that one that
// hangs costs nobody else.
func TestS8AnUpstreamThatHangsDoesNotHangTheList(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	up := peers{
		"fine": {tools: items("tools", "x")},
		"hung": {tools: items("tools", "x"), before: func(got request) {
			if got.method == "tools/list" {
				<-release
			}
		}},
	}
	defer close(release)
	c := serveWith(t, up, "", "limits: {list_timeout: 300ms}").modern("")
	begun := time.Now()
	p := c.call(t, "tools/list", "").page(t)
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("the list took %s", took)
	}
	if len(p.Tools) != 1 || len(p.Meta.Partial) != 1 || p.Meta.Partial[0].Upstream != "hung" || p.Meta.Partial[0].Reason == "" {
		t.Errorf("got %+v", p)
	}
	// After one timeout nobody waits for it again.
	begun = time.Now()
	if p := c.call(t, "tools/list", "").page(t); len(p.Tools) != 1 {
		t.Errorf("got %+v", p)
	}
	if took := time.Since(begun); took > 250*time.Millisecond {
		t.Errorf("the second list took %s", took)
	}
}

// S9. Unlike the seed's system, the list says what it lacks (DESIGN section 6).
func TestS9AFailedUpstreamIsSkippedAndNamed(t *testing.T) {
	t.Parallel()
	up := counters()
	up["broken"] = &peer{reply: func(got request) string {
		if strings.HasSuffix(got.method, "/list") {
			return failure("$ID", -32603, "no list today", "")
		}
		return ""
	}}
	up["dead"] = &peer{}
	up["dead"].down.Store(true)
	gw := serve(t, up, "")
	for era, c := range gw.clients(t, "") {
		for _, method := range lists {
			p := c.call(t, method, "").page(t)
			var missing []string
			for _, m := range p.Meta.Partial {
				missing = append(missing, m.Upstream)
				if m.Reason == "" || strings.Contains(m.Reason, "127.0.0.1") {
					t.Errorf("%s %s: reason %q", era, method, m.Reason)
				}
			}
			if n := len(p.items()); n == 0 || n > 2 {
				t.Errorf("%s %s: %d items", era, method, n)
			}
			if diff := cmp.Diff([]string{"broken", "dead"}, missing); diff != "" {
				t.Errorf("%s %s: %s", era, method, diff)
			}
		}
	}
}

func TestS9WhenNothingCanBeServedTheListIsAnErrorNotEmpty(t *testing.T) {
	t.Parallel()
	up := counters()
	for _, p := range up {
		p.down.Store(true)
	}
	gw := serve(t, up, "")
	for era, c := range gw.clients(t, "") {
		for _, method := range lists {
			if a := c.call(t, method, ""); a.code() != -31001 {
				t.Errorf("%s %s: %s", era, method, a.raw)
			}
		}
	}
}

// An upstream without a kind is no failure: its list is empty.
func TestS9AKindThatIsNotOfferedIsNotMissing(t *testing.T) {
	t.Parallel()
	up := peers{
		"tools":   {caps: `{"tools":{}}`, tools: items("tools", "x")},
		"prompts": {caps: `{"prompts":{}}`, prompts: items("prompts", "x"), legacy: true},
	}
	gw := serve(t, up, "")
	for era, c := range gw.clients(t, "") {
		for method, wanted := range map[string]int{"tools/list": 1, "prompts/list": 1, "resources/list": 0} {
			p := c.call(t, method, "").page(t)
			if len(p.items()) != wanted || len(p.Meta.Partial) != 0 {
				t.Errorf("%s %s: %+v", era, method, p)
			}
		}
	}
}

func TestS10AllFourListsFollowTheNamingRule(t *testing.T) {
	t.Parallel()
	up := counters()
	up["gateway-one"].resources = append(up["gateway-one"].resources, items("resources", "ui://panel/main")...)
	gw := serve(t, up, "  default: {naming: prefixed}\n  one: {naming: prefixed, upstreams: [gateway-one]}\n  raw: {naming: passthrough, upstreams: [gateway-two]}\n  ns: {}")
	golden := map[string]map[string][]string{
		"default": {
			"tools/list":               {"gateway-one-increment", "gateway-two-increment"},
			"prompts/list":             {"gateway-one-greet", "gateway-two-greet"},
			"resources/list":           {"gateway-one-memo://counter", "gateway-two-memo://counter", "ui://gateway-one/panel/main"},
			"resources/templates/list": {"gateway-one-memo://{id}", "gateway-two-memo://{id}"},
		},
		"one": {
			"tools/list": {"increment"}, "prompts/list": {"greet"},
			"resources/list": {"memo://counter", "ui://panel/main"}, "resources/templates/list": {"memo://{id}"},
		},
		"raw": {
			"tools/list": {"increment"}, "prompts/list": {"greet"},
			"resources/list": {"memo://counter"}, "resources/templates/list": {"memo://{id}"},
		},
		"ns": {
			"tools/list":   {"gateway-one__increment", "gateway-two__increment"},
			"prompts/list": {"gateway-one__greet", "gateway-two__greet"},
			// One URI of two upstreams belongs to the first key.
			"resources/list": {"memo://counter", "ui://gateway-one/panel/main"}, "resources/templates/list": {"memo://{id}"},
		},
	}
	for server, byMethod := range golden {
		for era, c := range gw.clients(t, server) {
			for method, ids := range byMethod {
				if diff := cmp.Diff(ids, c.ids(t, method)); diff != "" {
					t.Errorf("%s, %s, %s: %s", server, era, method, diff)
				}
			}
		}
	}
}

// S11, with the order of DESIGN section 6: by exposed identifier, bytewise, over
// all pages; resources by URI.
func TestS11ListsAreSortedBytewiseOverAllPages(t *testing.T) {
	t.Parallel()
	names := []string{"b", "a", "Z", "aa", "_", "a.b", "a-b", "0"}
	up := peers{}
	for i, key := range []string{"beta", "Alpha", "alpha"} {
		up[key] = &peer{
			legacy: i == 1, page: 3, tools: items("tools", names...), prompts: items("prompts", names...),
			resources: items("resources", "x://"+key+"/é", "x://"+key+"/a", "X://"+key), templates: items("templates", "t://"+key+"/{z}", "t://"+key+"/{a}"),
		}
	}
	gw := serve(t, up, "  default: {page_size: 4}\n  prefixed: {naming: prefixed, page_size: 5}")
	for _, server := range []string{"", "prefixed"} {
		for era, c := range gw.clients(t, server) {
			for i, method := range lists {
				ids := c.ids(t, method)
				if wanted := []int{24, 24, 9, 6}[i]; len(ids) != wanted {
					t.Errorf("%s %s: %d items, want %d", era, method, len(ids), wanted)
				}
				if !slices.IsSorted(ids) {
					t.Errorf("%s %s is not sorted: %q", era, method, ids)
				}
			}
		}
	}
}

// S11, edge: caching hints survive merging (checklist 42, 43, 154).
func TestS11CachingHintsOfAMergedListAreTheStrictest(t *testing.T) {
	t.Parallel()
	list := func(up peers) *page {
		return serve(t, up, "").modern("").call(t, "tools/list", "").page(t)
	}
	long := func(scope string) *peer { return &peer{tools: items("tools", "x"), ttl: 60000, scope: scope} }
	short := &peer{tools: items("tools", "x"), ttl: 5000}

	if p := list(peers{"a": long("public"), "b": short}); p.TTLMs == nil || *p.TTLMs <= 0 || *p.TTLMs > 5000 || p.CacheScope != "public" {
		t.Errorf("two public lists: %+v", p)
	}
	if p := list(peers{"a": long("public"), "b": long("private")}); p.TTLMs == nil || *p.TTLMs <= 5000 || p.CacheScope != "private" {
		t.Errorf("one private list: %+v", p)
	}
	if p := list(peers{"a": long("public"), "b": {legacy: true, tools: items("tools", "x")}}); p.TTLMs == nil || *p.TTLMs != 0 || p.CacheScope != "private" {
		t.Errorf("one legacy list: %+v", p)
	}
	gw := serve(t, peers{"a": long("public")}, "")
	for _, revision := range []string{"2025-03-26", "2025-06-18", legacyRevision} {
		a := gw.legacy(t, "", revision).call(t, "tools/list", "")
		for _, modern := range []string{"resultType", "ttlMs", "cacheScope"} {
			if strings.Contains(string(a.raw), modern) {
				t.Errorf("%s: a legacy client is shown %s: %s", revision, modern, a.raw)
			}
		}
	}
}

// S12. A session belongs to legacy clients, and no list depends on one.
func TestS12ListsWorkWithAndWithoutASession(t *testing.T) {
	t.Parallel()
	gw := serve(t, counters(), prefixed)
	modern, legacy := gw.modern(""), gw.legacy(t, "", legacyRevision)
	stray := gw.modern("")
	stray.session = "made-up" // ignored on a modern request (checklist 10)
	for _, method := range lists {
		plain := modern.ids(t, method)
		if len(plain) == 0 {
			t.Fatalf("%s is empty", method)
		}
		for who, c := range map[string]*client{"legacy": legacy, "stray": stray} {
			if diff := cmp.Diff(plain, c.ids(t, method)); diff != "" {
				t.Errorf("%s %s: %s", who, method, diff)
			}
		}
		bare := &client{url: legacy.url, revision: legacyRevision}
		a := bare.post(t, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q}`, method), nil)
		if a.status != http.StatusBadRequest || a.Failure == nil {
			t.Errorf("%s without session and metadata: HTTP %d %s", method, a.status, a.raw)
		}
	}
}
