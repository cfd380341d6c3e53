package mcp

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestFilterIsReadAndWritten(t *testing.T) {
	for raw, want := range map[string]Filter{
		`{}`:                        {},
		`{"toolsListChanged":true}`: {Tools: true},
		`{"toolsListChanged":false,"promptsListChanged":true,"x":[1]}`:      {Prompts: true},
		`{"resourcesListChanged":true,"resourceSubscriptions":null}`:        {Resources: true},
		`{ "resourceSubscriptions" : [ "b:/" , "a:/", "\u0061:/" ] }`:       {URIs: []string{"a:/", "b:/"}},
		`{"resourceSubscriptions":[],"taskIds":[],"toolsListChanged":null}`: {},
	} {
		got, tasks, err := ParseFilter([]byte(raw))
		if err != nil || tasks || !got.Equal(want) {
			t.Errorf("%s: %+v, %v, %v", raw, got, tasks, err)
		}
		again, _, err := ParseFilter(got.Append(nil))
		if err != nil || !again.Equal(got) {
			t.Errorf("%s: written as %s, read as %+v: %v", raw, got.Append(nil), again, err)
		}
		if got.Empty() != reflect.DeepEqual(want, Filter{}) {
			t.Errorf("%s: empty is %v", raw, got.Empty())
		}
	}
	if _, tasks, err := ParseFilter([]byte(`{"taskIds":["t"]}`)); !tasks || err != nil {
		t.Errorf("tasks: %v, %v", tasks, err)
	}
}

func TestMalformedFilterIsRefused(t *testing.T) {
	many := strings.Repeat(`"u",`, MaxFilterURIs) + `"u"`
	for _, raw := range []string{
		``, `null`, `[]`, `{"toolsListChanged":1}`, `{"promptsListChanged":"true"}`, `{"resourceSubscriptions":"a"}`,
		`{"resourceSubscriptions":[1]}`, `{"resourceSubscriptions":[{}]}`, fmt.Sprintf(`{"resourceSubscriptions":[%s]}`, many),
	} {
		if f, _, err := ParseFilter([]byte(raw)); err == nil {
			t.Errorf("%.60q is read as %+v", raw, f)
		}
	}
}

func TestFilterKnowsItsKindsAndResources(t *testing.T) {
	var f Filter
	for k := range NumKinds {
		if f.List(k) {
			t.Errorf("%s is in the empty filter", k)
		}
		if g := f.WithList(k); !g.List(k) || g.Empty() || !f.Empty() {
			t.Errorf("%s: %+v", k, g)
		}
	}
	if !f.WithList(Templates).Resources {
		t.Error("templates are not told as resources")
	}
	f.URIs = []string{"a", "b"}
	if !f.HasURI("b") || f.HasURI("c") || f.Empty() {
		t.Errorf("%+v", f)
	}
}
