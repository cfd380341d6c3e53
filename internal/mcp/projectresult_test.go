package mcp

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestResultsAreShapedForEachRevision(t *testing.T) {
	const (
		structured = `{"x":9007199254740993 ,"y":"<\n>"}`
		quoted     = `"{\"x\":9007199254740993 ,\"y\":\"<\\n>\"}"`
		link       = `{"type":"resource_link","uri":"file:///a","name":"a","icons":[],"_meta":{},"annotations":{"priority":1.0}}`
		linkBare   = `{"type":"resource_link","uri":"file:///a","name":"a","_meta":{},"annotations":{"priority":1.0}}`
		linkText   = `{"type":"text","text":"file:///a","annotations":{"priority":1.0}}`
	)
	for _, tc := range []struct {
		name         string
		method       string
		rev          Revision
		result, want string // want "" means unchanged
	}{
		{"modern passes", ToolsCall, V20260728, `{"content":[],"structuredContent":[1],"x":1}`, ``},
		{"an object passes from 2025-06-18", ToolsCall, V20250618, `{"content":[ ],"structuredContent":` + structured + `}`, ``},
		{"an array becomes text", ToolsCall, V20251125, `{"content":[],"structuredContent":[1.0, 2]}`, `{"content":[{"type":"text","text":"[1.0, 2]"}]}`},
		{"an array gives way to a text", ToolsCall, V20251125, `{"structuredContent":null,"content":[{"type":"text","text":"n"}]}`, `{"content":[{"type":"text","text":"n"}]}`},
		{"a text joins an image", ToolsCall, V20250618, `{"content":[{"type":"image"} ],"structuredContent":7}`, `{"content":[{"type":"image"} ,{"type":"text","text":"7"}]}`},
		{"2025-03-26 has no structured content", ToolsCall, V20250326, `{"content":[],"structuredContent":` + structured + `,"isError":false}`, `{"content":[{"type":"text","text":` + quoted + `}],"isError":false}`},
		{"content is made where there is none", ToolsCall, V20250326, `{"structuredContent":` + structured + `}`, `{"content":[{"type":"text","text":` + quoted + `}]}`},
		{"null content is none", ToolsCall, V20250326, `{"content":null,"structuredContent":1}`, `{"content":[{"type":"text","text":"1"}]}`},
		{"links become text", ToolsCall, V20250326, `{"content":[` + link + `, {"type":"odd","v":1.0}]}`, `{"content":[` + linkText + `, {"type":"odd","v":1.0}]}`},
		{"links lose icons", ToolsCall, V20250618, `{"content":[` + link + `]}`, `{"content":[` + linkBare + `]}`},
		{"links stay", ToolsCall, V20251125, `{"content":[` + link + `]}`, ``},
		{"blocks lose _meta", ToolsCall, V20250326, `{"content":[{"type":"text","text":"a","_meta":{}},{"type":"resource","resource":{"uri":"u","_meta":{}, "text":"b"}}]}`, `{"content":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"u", "text":"b"}}]}`},
		{"the result's own _meta stays", ToolsCall, V20250326, `{"_meta":{"a":1},"content":[]}`, ``},
		{"a prompt's link becomes text", PromptsGet, V20250326, `{"messages":[{"role":"user","content":` + link + `}],"description":"d"}`, `{"messages":[{"role":"user","content":` + linkText + `}],"description":"d"}`},
		{"a prompt passes", PromptsGet, V20251125, `{"messages":[{"role":"user","content":` + link + `}]}`, ``},
		{"contents lose _meta", ResourcesRead, V20250326, `{"contents":[{"uri":"a","_meta":{"x":1},"text":"t"}]}`, `{"contents":[{"uri":"a","text":"t"}]}`},
		{"contents keep _meta", ResourcesRead, V20250618, `{"contents":[{"uri":"a","_meta":{"x":1},"text":"t"}]}`, ``},
		{"other methods pass", Complete, V20250326, `{"structuredContent":1}`, ``},
		{"an empty result", ToolsCall, V20250326, `{}`, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.want
			if want == "" {
				want = tc.result
			}
			got, err := ProjectResult(tc.method, tc.rev, []byte("x"), []byte(tc.result))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != "x"+want {
				t.Errorf("\n got %s\nwant x%s", got, want)
			}
		})
	}
}

func TestResultsOfTheWrongShapeAreErrors(t *testing.T) {
	for _, result := range []string{``, `[]`, `{"content":[`, `{"content":{}}`, `{"structuredContent":"` + "\xff" + `"}`} {
		dst, err := ProjectResult(ToolsCall, V20250326, []byte("x"), []byte(result))
		if !errors.Is(err, errShape) || string(dst) != "x" {
			t.Errorf("%q: %q, %v", result, dst, err)
		}
	}
}

func TestOnlyTheOldestRevisionNeedsWholeResults(t *testing.T) {
	for _, rev := range allRevisions {
		if got := NeedsWhole(rev); got != (rev == V20250326) {
			t.Errorf("%s: %v", rev, got)
		}
	}
}

func TestImplementationsAreShapedForEachRevision(t *testing.T) {
	const impl = `{"name":"n","title":"T","version":"1.0","description":"d","websiteUrl":"w","icons":[],"x":1e2}`
	want := map[Revision]string{
		V20260728: impl,
		V20251125: impl,
		V20250618: `{"name":"n","title":"T","version":"1.0","x":1e2}`,
		V20250326: `{"name":"n","version":"1.0","x":1e2}`,
	}
	for _, rev := range allRevisions {
		if got := string(ProjectImplementation(rev, nil, []byte(impl))); got != want[rev] {
			t.Errorf("%s: got %s, want %s", rev, got, want[rev])
		}
	}
}

func FuzzProjectedResultsAreValid(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"_meta":1}},{"type":"resource_link","uri":"a"}],"structuredContent":[1]}`))
	f.Add([]byte(`{"messages":[{"content":{"type":"text","_meta":{}}}],"contents":[{"_meta":2},3]}`))
	f.Add([]byte(`{"content":null,"structuredContent":"\ud800\udc00"}`))
	f.Fuzz(func(t *testing.T, result []byte) {
		if !jsontext.Value(result).IsValid() {
			return
		}
		for _, rev := range allRevisions {
			for _, method := range []string{ToolsCall, PromptsGet, ResourcesRead} {
				got, err := ProjectResult(method, rev, nil, result)
				if err != nil {
					continue
				}
				if !jsontext.Value(got).IsValid() {
					t.Fatalf("%s %s: %s became %s", method, rev, result, got)
				}
				if rev == V20250326 && method == ToolsCall && find(got, "structuredContent") != nil {
					t.Fatalf("structured content is left: %s", got)
				}
			}
		}
	})
}

func BenchmarkProjectLargeText(b *testing.B) {
	result := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("abcdefg ", 1<<14) + `"}]}`)
	b.SetBytes(int64(len(result)))
	var dst []byte
	for b.Loop() {
		var err error
		if dst, err = ProjectResult(ToolsCall, V20250618, dst[:0], result); err != nil {
			b.Fatal(err)
		}
	}
}
