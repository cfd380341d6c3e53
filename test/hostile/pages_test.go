package hostile_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pages answers a list with one page per call, with the cursors given; the last
// has none. A cursor it never gave is refused.
func pages(u *upstream, kind string, cursors []string, items ...[]string) {
	u.handle(kindMethod[kind], func(x *exchange) {
		n := 0
		if given := at(x.Params, "cursor"); given != "" {
			n = slices.Index(cursors, given) + 1
			if n == 0 {
				x.fail(-32602, "no such cursor")
				return
			}
		}
		next := ""
		if n < len(cursors) {
			next = cursors[n]
		}
		x.page(kind, next, items[n]...)
	})
}

var kindMethod = map[string]string{
	"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list", "resourceTemplates": "resources/templates/list",
}

func plainTools(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf(`{"name":"t%03d","inputSchema":{"type":"object"}}`, i))
	}
	return out
}

func TestSecondPageOfAnUpstreamIsNotLost_agentgateway3476(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		pages(u, "tools", []string{`"2"`}, plainTools(0, 2), plainTools(2, 3))
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			if diff := cmp.Diff([]string{"a__t000", "a__t001", "a__t002"}, names(t, c, "tools/list")); diff != "" {
				t.Errorf("%s: %s", era, diff)
			}
			healthy(t, c, "a__t002")
		}
	})
}

func TestCursorOfTheUpstreamIsNeverTheClients_sparfenyuk233(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		pages(u, "tools", []string{`"8"`}, plainTools(0, 8), plainTools(8, 11))
		g := serve(t, document(members{"a": u}, nil, quick+"\nservers: {default: {page_size: 3}}"))
		for era, c := range g.clients() {
			wantError(t, c.request("tools/list", `"cursor":"8"`), http.StatusOK, -32602)
			got := names(t, c, "tools/list")
			if len(got) != 11 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 11 {
				t.Errorf("%s: a walk by pages of three gave %v", era, got)
			}
		}
	})
}

func TestRepeatedCursorEndsTheWalk_codebaseMemory1247(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.handle("tools/list", func(x *exchange) { x.page("tools", `"again"`, plainTools(0, 2)...) })
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			result := wantResult(t, c.request("tools/list", ""))
			if diff := cmp.Diff([]string{"a__t000", "a__t001"}, texts(at(result, "tools"), "name")); diff != "" {
				t.Errorf("%s: %s", era, diff)
			}
			if text(result, "_meta", "penstock/partial", 0, "upstream") != "a" || !strings.Contains(text(result, "_meta", "penstock/partial", 0, "reason"), "repeated a cursor") {
				t.Errorf("%s: the list is not marked: %s", era, result)
			}
		}
		if n := len(u.requests("tools/list")); n > 4 { // two pages per walk; a legacy list is read once per scope
			t.Errorf("the upstream was asked for %d pages", n)
		}
	})
}

func TestPagesForEverAreBounded_LL39172(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		n := 0
		u.handle("tools/list", func(x *exchange) {
			u.mu.Lock()
			n++
			page := n
			u.mu.Unlock()
			x.page("tools", fmt.Sprintf(`"c%d"`, page), plainTools(page%1000, page%1000+1)...)
		})
		b := newModern(t).tool("fine")
		g := serve(t, document(members{"a": u, "b": b}, nil, `limits: {list_timeout: 1s, list_items: 25}`))
		for era, c := range g.clients() {
			start := time.Now()
			result := wantResult(t, c.request("tools/list", ""))
			got := texts(at(result, "tools"), "name")
			if took := time.Since(start); took > 5*time.Second || len(got) != 26 || got[25] != "b__fine" {
				t.Errorf("%s: %d tools after %s: %v", era, len(got), took, got)
			}
			if !strings.Contains(text(result, "_meta", "penstock/partial", 0, "reason"), "25") {
				t.Errorf("%s: what lies beyond the bound is not reported: %s", era, at(result, "_meta"))
			}
			healthy(t, c, "b__fine")
		}
	})
}

func TestEmptyPageAndEmptyCursorAreNotTheEnd_checklist45(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		pages(u, "tools", []string{`""`, `"x"`}, nil, plainTools(0, 1), plainTools(1, 2))
		g := open(t, members{"a": u})
		if diff := cmp.Diff([]string{"a__t000", "a__t001"}, names(t, g, "tools/list")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAllOf101ToolsInPagesOf100_litellm32229(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		pages(u, "tools", []string{`"p2"`}, plainTools(0, 100), plainTools(100, 101))
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			if got := names(t, c, "tools/list"); len(got) != 101 || got[100] != "a__t100" {
				t.Errorf("%s: %d tools", era, len(got))
			}
		}
	})
}

func TestEveryKindIsWalkedToItsEnd_contextforge4664(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		cursors := []string{`"1"`, `"2"`}
		pages(u, "tools", cursors, plainTools(0, 2), plainTools(2, 4), plainTools(4, 5))
		pages(u, "prompts", cursors, []string{`{"name":"p1"}`, `{"name":"p2"}`}, []string{`{"name":"p3"}`, `{"name":"p4"}`}, []string{`{"name":"p5"}`})
		pages(u, "resources", cursors, []string{`{"uri":"r:1","name":"1"}`}, []string{`{"uri":"r:2","name":"2"}`}, []string{`{"uri":"r:3","name":"3"}`})
		pages(u, "resourceTemplates", cursors, []string{`{"uriTemplate":"t:1{x}","name":"1"}`}, []string{`{"uriTemplate":"t:2{x}","name":"2"}`}, []string{`{"uriTemplate":"t:3{x}","name":"3"}`})
		g := open(t, members{"a": u})
		for method, want := range map[string]int{"tools/list": 5, "prompts/list": 5, "resources/list": 3, "resources/templates/list": 3} {
			if got := names(t, g, method); len(got) != want {
				t.Errorf("%s: %v", method, got)
			}
		}
	})
}

func TestForeignCursorsAreRefused_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("a", "b", "c").prompt("p").prompt("q")
	g := serve(t, document(members{"a": u}, nil, quick+"\nservers: {default: {page_size: 1}, other: {page_size: 1}}"))
	cursor := text(wantResult(t, g.modern("tools/list", "")), "nextCursor")
	if cursor == "" {
		t.Fatal("there is no second page")
	}
	altered := []byte(cursor)
	altered[len(altered)/2] ^= 1
	for name, try := range map[string]struct {
		c      caller
		method string
		cursor string
	}{
		"made up":                 {g, "tools/list", `"page=2"`},
		"empty":                   {g, "tools/list", `""`},
		"altered":                 {g, "tools/list", quote(string(altered))},
		"cut":                     {g, "tools/list", quote(cursor[:len(cursor)-2])},
		"of another method":       {g, "prompts/list", quote(cursor)},
		"of another server":       {g.at("/servers/other/mcp"), "tools/list", quote(cursor)},
		"a number":                {g, "tools/list", `7`},
		"an object":               {g, "tools/list", `{"a":1}`},
		"null":                    {g, "tools/list", `null`},
		"a megabyte":              {g, "tools/list", quote(strings.Repeat("x", 1<<20))},
		"with a line end":         {g, "tools/list", `"a\nb"`},
		"with an invalid escape?": {g, "tools/list", `"\u0000"`},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, try.c.request(try.method, `"cursor":`+try.cursor), http.StatusOK, -32602)
		})
	}
	if got := names(t, g, "tools/list"); len(got) != 3 {
		t.Errorf("afterwards the list is %v", got)
	}
}

func TestAWalkThatHangsHalfwayKeepsWhatCame_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.handle("tools/list", func(x *exchange) {
			if at(x.Params, "cursor") != "" {
				x.hang()
				return
			}
			x.page("tools", `"2"`, plainTools(0, 3)...)
		})
		g := serve(t, document(members{"a": u, "b": newModern(t).tool("fine")}, nil, quick))
		for era, c := range g.clients() {
			result := wantResult(t, c.request("tools/list", ""))
			got := texts(at(result, "tools"), "name")
			if !slices.Contains(got, "b__fine") || text(result, "_meta", "penstock/partial", 0, "upstream") != "a" {
				t.Errorf("%s: %s", era, result)
			}
			healthy(t, c, "a__t001")
			healthy(t, c, "b__fine")
		}
	})
}
