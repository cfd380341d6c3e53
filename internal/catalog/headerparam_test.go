package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestHeaderAnnotationsAreFoundAtTheirPaths(t *testing.T) {
	f := newFleet()
	f.up("u", map[mcp.Kind][]string{mcp.Tools: {`{"name":"t","inputSchema":{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"deep":{"type":"object","properties":{"a.b":{"properties":{"n":{"x-mcp-header":"N","type":"integer"}}}}},
		"x-mcp-header":{"type":"string","default":{"x-mcp-header":"data"}},
		"flag":{"type":"boolean","x-mcp-h\u0065ader":"Flag"}}}}`}})
	s := serve(t, f, nil)
	got := goesTo(t, s, mcp.Tools, "u__t", "u", "t").Params
	want := []HeaderParam{
		{"Region", []string{"region"}, "string"},
		{"N", []string{"deep", "a.b", "n"}, "integer"},
		{"Flag", []string{"flag"}, "boolean"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestInvalidHeaderAnnotationsExcludeTheTool(t *testing.T) {
	property := func(schema string) string { return `{"properties":{"p":` + schema + `}}` }
	ok := `{"type":"string","x-mcp-header":"A"}`
	for _, schema := range []string{
		property(`{"type":"number","x-mcp-header":"A"}`),
		property(`{"type":"object","x-mcp-header":"A"}`),
		property(`{"type":["string","null"],"x-mcp-header":"A"}`),
		property(`{"x-mcp-header":"A"}`),
		property(`{"type":"string","x-mcp-header":""}`),
		property(`{"type":"string","x-mcp-header":"A B"}`),
		property(`{"type":"string","x-mcp-header":"A\r\nB"}`),
		property(`{"type":"string","x-mcp-header":"Ä"}`),
		property(`{"type":"string","x-mcp-header":7}`),
		property(`{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}`),
		property(`{"type":"array","items":` + ok + `}`),
		property(`{"oneOf":[{"type":"null"},` + ok + `]}`),
		property(`{"additionalProperties":` + ok + `}`),
		property(`{"items":{"properties":{"q":` + ok + `}}}`),
		`{"properties":{"a":` + ok + `,"b":{"type":"string","x-mcp-header":"a"}}}`,
		`{"$defs":{"d":` + ok + `},"properties":{"p":{"$ref":"#/$defs/d"}}}`,
		`{"type":"string","x-mcp-header":"A"}`,
		strings.Repeat(`{"properties":{"p":`, 100) + ok + strings.Repeat(`}}`, 100),
	} {
		if got, err := headerParams([]byte(schema)); err == nil {
			t.Errorf("%.80s: got %+v, want an error", schema, got)
		}
		item := fmt.Appendf(nil, `{"name":"t","inputSchema":%s}`, schema)
		if _, err := parseItem(mcp.Tools, item, reading{headers: true}); err == nil {
			t.Errorf("%.80s: the tool is listed", schema)
		}
		if it, err := parseItem(mcp.Tools, item, reading{}); err != nil || it.params != nil {
			t.Errorf("%.80s: where headers play no part: %v", schema, err)
		}
	}
	for _, schema := range []string{`{}`, `true`, property(`true`), property(`{"enum":[{"x-mcp-header":"A B"}]}`), property(ok)} {
		if _, err := headerParams([]byte(schema)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}
