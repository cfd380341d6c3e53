package mcp

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// allRevisions, for tables.
var allRevisions = []Revision{V20250326, V20250618, V20251125, V20260728}

const fullTool = `{ "name":"t", "title":"A <tool>","x-vendor":9007199254740993,` +
	`"icons":[{"src":"a"}],"inputSchema":{"type":"object","$defs":{}}, "outputSchema" : {"type":"object"},` +
	`"execution":{"taskSupport":"optional"},"annotations":{"readOnlyHint":true},"_meta":{"k":1e400} }`

func TestToolsAreShapedForEachRevision(t *testing.T) {
	noExecution := strings.Replace(fullTool, `"execution":{"taskSupport":"optional"},`, "", 1)
	noIcons := strings.Replace(noExecution, `"icons":[{"src":"a"}],`, "", 1)
	want := map[Revision]string{
		V20260728: noExecution,
		V20251125: fullTool,
		V20250618: noIcons,
		V20250326: `{ "name":"t","x-vendor":9007199254740993,` +
			`"inputSchema":{"type":"object","$defs":{}},"annotations":{"readOnlyHint":true,"title":"A <tool>"} }`,
	}
	for _, rev := range allRevisions {
		if got := string(ProjectItem(Tools, rev, []byte("x"), []byte(fullTool))); got != "x"+want[rev] {
			t.Errorf("%s:\n got %s\nwant x%s", rev, got, want[rev])
		}
	}
}

func TestItemsAreShapedByTheirKind(t *testing.T) {
	for _, tc := range []struct {
		name       string
		kind       Kind
		rev        Revision
		item, want string
	}{
		{"an output schema that is no object is modern only", Tools, V20251125, `{"inputSchema":{},"outputSchema":{"type":"array"}}`, `{"inputSchema":{}}`},
		{"an output schema of several types is modern only", Tools, V20250618, `{"inputSchema":{},"outputSchema":{"type":["object","null"]}}`, `{"inputSchema":{}}`},
		{"modern keeps any output schema", Tools, V20260728, `{"inputSchema":{},"outputSchema":{"type":"array"}}`, `{"inputSchema":{},"outputSchema":{"type":"array"}}`},
		{"the title becomes annotations", Tools, V20250326, `{"name":"t","title":"T","inputSchema":{}}`, `{"name":"t","annotations":{"title":"T"},"inputSchema":{}}`},
		{"an annotated title wins", Tools, V20250326, `{"title":"T","inputSchema":{},"annotations":{"title":"A"}}`, `{"inputSchema":{},"annotations":{"title":"A"}}`},
		{"empty annotations take the title", Tools, V20250326, `{"title":"T","inputSchema":{},"annotations":{ }}`, `{"inputSchema":{},"annotations":{"title":"T" }}`},
		{"null annotations take the title", Tools, V20250326, `{"annotations":null,"title":"T","inputSchema":{}}`, `{"annotations":{"title":"T"},"inputSchema":{}}`},
		{"a null title is no title", Tools, V20250326, `{"title":null,"inputSchema":{}}`, `{"inputSchema":{}}`},
		{"a missing input schema is given", Tools, V20260728, `{"name":"t"}`, `{"name":"t","inputSchema":{"type":"object"}}`},
		{"a null input schema is replaced", Tools, V20251125, `{"inputSchema":null,"name":"t"}`, `{"inputSchema":{"type":"object"},"name":"t"}`},
		{"the empty tool", Tools, V20251125, `{ }`, `{"inputSchema":{"type":"object"} }`},
		{"names with escapes are names", Tools, V20250618, `{"\u0065xecution":{},"inputSchema":{}}`, `{"inputSchema":{}}`},
		{"prompt arguments lose titles", Prompts, V20250326, `{"name":"p","title":"P","arguments":[{"name":"a","title":"A"}, {"name":"b"}]}`, `{"name":"p","arguments":[{"name":"a"}, {"name":"b"}]}`},
		{"a prompt keeps its titles", Prompts, V20250618, `{"title":"P","arguments":[{"name":"a","title":"A"}]}`, `{"title":"P","arguments":[{"name":"a","title":"A"}]}`},
		{"a resource loses title and _meta", Resources, V20250326, `{"uri":"a","name":"n","title":"T","_meta":{},"size":1.0}`, `{"uri":"a","name":"n","size":1.0}`},
		{"a template loses icons", Templates, V20250618, `{"icons":[],"uriTemplate":"a{b}"}`, `{"uriTemplate":"a{b}"}`},
		{"a prompt may have execution of its own", Prompts, V20251125, `{"execution":1}`, `{"execution":1}`},
		{"all members gone", Resources, V20250326, `{"title":"T","icons":[]}`, `{}`},
		{"what is no object passes", Tools, V20250326, `[1]`, `[1]`},
		{"what is broken passes", Tools, V20250326, `{"title":"T`, `{"title":"T`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(ProjectItem(tc.kind, tc.rev, nil, []byte(tc.item))); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func FuzzProjectedItemsAreValid(f *testing.F) {
	f.Add([]byte(fullTool))
	f.Add([]byte(`{"title":"T","annotations":{},"arguments":[{"title":1},2]}`))
	f.Add([]byte(`{"a\\\"b":"c\\","_meta":null}`))
	f.Fuzz(func(t *testing.T, item []byte) {
		if !jsontext.Value(item).IsValid() {
			return
		}
		for kind := range NumKinds {
			for _, rev := range allRevisions {
				once := ProjectItem(kind, rev, nil, item)
				if !jsontext.Value(once).IsValid() {
					t.Fatalf("%s %s: %s became %s", kind, rev, item, once)
				}
				if again := ProjectItem(kind, rev, nil, once); string(again) != string(once) {
					t.Fatalf("%s %s: not stable: %s became %s", kind, rev, once, again)
				}
			}
		}
	})
}

func TestProjectingAnItemAllocatesNoMoreThanItsTable(t *testing.T) {
	item := []byte(fullTool)
	dst := make([]byte, 0, 2*len(item))
	for _, rev := range []Revision{V20250618, V20251125, V20260728} {
		if n := testing.AllocsPerRun(100, func() { ProjectItem(Tools, rev, dst, item) }); n > 1 {
			t.Errorf("%s: %v allocations", rev, n)
		}
	}
}
