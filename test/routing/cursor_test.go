package routing_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// numbered are tools t00, t01, ...
func numbered(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("t%02d", i))
	}
	return items("tools", ids...)
}

// waitFor tries until ok, for as long as a retry behind may take.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); pause() {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within 20 s", what)
}

// S13, under DESIGN section 6: the cursor is ours, opaque and authenticated, and
// continues after an exposed identifier. The table of cases follows the contract.

func TestS13WithoutCursorEveryUpstreamIsAsked(t *testing.T) {
	t.Parallel()
	up := peers{"a": {tools: numbered(7), page: 2}, "b": {tools: numbered(3), page: 2, legacy: true}}
	gw := serve(t, up, "  default: {page_size: 4}")
	for era, c := range gw.clients(t, "") {
		first := c.call(t, "tools/list", "").page(t)
		if len(first.Tools) != 4 || first.NextCursor == nil {
			t.Fatalf("%s: the page size is the gateway's, not the sum of others: %+v", era, first)
		}
		if n := len(c.ids(t, "tools/list")); n != 10 {
			t.Errorf("%s: %d tools", era, n)
		}
	}
	for key, p := range up {
		if n := len(p.got("tools/list")); n < 2 {
			t.Errorf("%s: its pages were not walked to the end (%d requests)", key, n)
		}
	}
}

func TestS13ACursorThatIsNotOursIsRefused(t *testing.T) {
	t.Parallel()
	up := peers{"a": {tools: numbered(9), prompts: items("prompts", "p", "q", "r")}}
	gw := serve(t, up, "  default: {page_size: 2}\n  another: {page_size: 2}")
	for era, c := range gw.clients(t, "") {
		cursor := *c.call(t, "tools/list", "").page(t).NextCursor
		prompts := *c.call(t, "prompts/list", "").page(t).NextCursor
		other := *gw.modern("another").call(t, "tools/list", "").page(t).NextCursor
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			t.Fatalf("the cursor is not base64url: %q", cursor)
		}
		edited := slices.Clone(raw)
		edited[len(edited)-1]++ // continues elsewhere
		cases := map[string]string{
			"empty":             `""`,
			"not JSON":          `"garbage"`,
			"of the seed":       quote(`{"op":"list_tools","backends":{"ghost":"x"}}`),
			"empty of it":       quote(`{"op":"list_tools","backends":{}}`),
			"of another list":   quote(prompts),
			"of another server": quote(other),
			"an upstream's":     `"from 2"`,
			"edited":            quote(base64.RawURLEncoding.EncodeToString(edited)),
			"cut":               quote(cursor[:len(cursor)-2]),
			"longer":            quote(cursor + "AAAA"),
			"padded":            quote(cursor + "="),
			"a number":          `7`,
			"null":              `null`,
			"an object":         `{}`,
		}
		for name, value := range cases {
			if a := c.call(t, "tools/list", `{"cursor":`+value+`}`); a.code() != -32602 {
				t.Errorf("%s, cursor %s: %s", era, name, a.raw)
			}
		}
		if p := c.call(t, "tools/list", `{"cursor":`+quote(cursor)+`}`).page(t); len(p.Tools) != 2 {
			t.Errorf("%s: the cursor itself: %+v", era, p)
		}
	}
}

// S13: failure is not exhaustion, and an upstream that failed on the first page
// is not lost from the walk.
func TestS13AnUpstreamThatFailsOnTheFirstPageIsInTheWalkOnceItIsBack(t *testing.T) {
	t.Parallel()
	up := peers{"a": {tools: numbered(4)}, "b": {tools: numbered(4)}}
	up["b"].down.Store(true)
	c := serve(t, up, "  default: {page_size: 3}").modern("")
	first := c.call(t, "tools/list", "").page(t)
	if len(first.Tools) != 3 || len(first.Meta.Partial) != 1 || first.Meta.Partial[0].Upstream != "b" {
		t.Fatalf("first page: %+v", first)
	}
	up["b"].down.Store(false)
	waitFor(t, "b comes back", func() bool { return len(c.ids(t, "tools/list")) == 8 })
	var rest []string
	cursor := first.NextCursor
	for cursor != nil {
		p := c.call(t, "tools/list", `{"cursor":`+quote(*cursor)+`}`).page(t)
		for _, i := range p.Tools {
			rest = append(rest, i.Name)
		}
		cursor = p.NextCursor
	}
	if diff := cmp.Diff([]string{"a__t03", "b__t00", "b__t01", "b__t02", "b__t03"}, rest); diff != "" {
		t.Error(diff)
	}
}

// S13: an upstream that fails in the middle of a walk, for ever: the walk ends,
// and says that what it shows of it is old.
func TestS13AWalkEndsWhenAnUpstreamFailsForEver(t *testing.T) {
	t.Parallel()
	up := peers{"a": {tools: numbered(4)}, "b": {tools: numbered(4)}}
	c := serve(t, up, "  default: {page_size: 3}").modern("")
	first := c.call(t, "tools/list", "").page(t)
	up["b"].down.Store(true)
	time.Sleep(1100 * time.Millisecond) // what was listed just now may be used again
	var names []string
	var stale bool
	cursor := first.NextCursor
	for range 20 {
		if cursor == nil {
			break
		}
		p := c.call(t, "tools/list", `{"cursor":`+quote(*cursor)+`}`).page(t)
		for _, i := range p.Tools {
			names = append(names, i.Name)
		}
		for _, m := range p.Meta.Partial {
			stale = stale || m.Upstream == "b" && m.Stale
		}
		cursor = p.NextCursor
	}
	if cursor != nil {
		t.Fatal("the walk does not end")
	}
	if diff := cmp.Diff([]string{"a__t03", "b__t00", "b__t01", "b__t02", "b__t03"}, names); diff != "" {
		t.Error(diff)
	}
	if !stale {
		t.Error("no page says that the list of b is its last good one")
	}
}

// S13: an upstream that was taken out of the document between two pages, and one
// that was put in. Neither makes a walk endless, and no cursor is lost by it.
func TestS13AWalkGoesOnWhenTheDocumentChanges(t *testing.T) {
	t.Parallel()
	up := peers{"a": {tools: numbered(4)}, "b": {tools: numbered(4)}, "d": {tools: numbered(1)}}
	c := (&peer{tools: numbered(2), legacy: true}).start(t)
	gw := serve(t, up, "  default: {page_size: 3}")
	cl := gw.modern("")
	first := cl.call(t, "tools/list", "").page(t)
	gw.reload(t, "  b: ", "  c: {url: '"+c.url+"'}")
	names := []string{}
	cursor := first.NextCursor
	for range 20 {
		if cursor == nil {
			break
		}
		p := cl.call(t, "tools/list", `{"cursor":`+quote(*cursor)+`}`).page(t)
		for _, i := range p.Tools {
			names = append(names, i.Name)
		}
		cursor = p.NextCursor
	}
	if diff := cmp.Diff([]string{"a__t03", "c__t00", "c__t01", "d__t00"}, names); diff != "" || cursor != nil {
		t.Errorf("ended: %t; %s", cursor == nil, diff)
	}
	up["b"].forget()
	wantCode(t, cl.named(t, "tools/call", "b__t00"), -32602, "tools/call", peers{"b": up["b"]})
}

// S14. The seed drops the cursor of an upstream that is gone; here there is none
// to drop, and the walk ends (DESIGN section 6).
func TestS14AWalkEndsWhateverComesAndGoes(t *testing.T) {
	t.Parallel()
	up := peers{"a": {tools: numbered(5)}, "b": {tools: numbered(5), legacy: true}, "c": {tools: numbered(5)}}
	up["b"].down.Store(true)
	gw := serve(t, up, "  default: {page_size: 5}")
	for era, c := range gw.clients(t, "") {
		seen := map[string]int{}
		params := ""
		pages := 0
		for {
			p := c.call(t, "tools/list", params).page(t)
			for _, i := range p.Tools {
				seen[i.Name]++
			}
			if pages++; pages > 10 {
				t.Fatalf("%s: the walk does not end", era)
			}
			if p.NextCursor == nil {
				break
			}
			params = `{"cursor":` + quote(*p.NextCursor) + `}`
			// One goes and another comes before every page.
			up["b"].down.Store(pages%2 == 0)
			up["c"].down.Store(pages%2 == 1)
			time.Sleep(1100 * time.Millisecond)
		}
		for name, n := range seen {
			if n > 1 {
				t.Errorf("%s: %s came %d times", era, name, n)
			}
		}
		for i := range 5 {
			if name := fmt.Sprintf("a__t%02d", i); seen[name] != 1 {
				t.Errorf("%s: %s, whose upstream was always there, came %d times", era, name, seen[name])
			}
		}
		up["b"].down.Store(true)
		up["c"].down.Store(false)
	}
}
