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
		`{"taskIds":null}`: {},
		`{"taskIds": [ ]}`: {},
		`{"taskIds":["b","a","\u0062",""],"resourceSubscriptions":["a:/"]}`: {URIs: []string{"a:/"}, TaskIDs: []string{"", "a", "b"}},
	} {
		got, err := ParseFilter([]byte(raw))
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
		again, err := ParseFilter(got.Append(nil))
		if err != nil || !again.Equal(got) {
			t.Errorf("%s: written as %s, read as %+v: %v", raw, got.Append(nil), again, err)
		}
		if got.Empty() != reflect.DeepEqual(want, Filter{}) {
			t.Errorf("%s: empty is %v", raw, got.Empty())
		}
	}
}

func TestMalformedFilterIsRefused(t *testing.T) {
	many := strings.Repeat(`"u",`, MaxFilterURIs) + `"u"`
	tasks := strings.Repeat(`"u",`, MaxFilterTasks) + `"u"`
	long := strings.Repeat("t", MaxFilterTaskLen)
	if f, err := ParseFilter([]byte(`{"taskIds":["` + long + `"]}`)); err != nil || !f.HasTask(long) {
		t.Errorf("the longest id: %v", err)
	}
	for _, raw := range []string{
		``, `null`, `[]`, `{"toolsListChanged":1}`, `{"promptsListChanged":"true"}`, `{"resourceSubscriptions":"a"}`,
		`{"resourceSubscriptions":[1]}`, `{"resourceSubscriptions":[{}]}`, fmt.Sprintf(`{"resourceSubscriptions":[%s]}`, many),
		`{"taskIds":"t"}`, `{"taskIds":[1]}`, `{"taskIds":["t",null]}`, `{"taskIds":{}}`, `{"taskIds":["` + long + `t"]}`, fmt.Sprintf(`{"taskIds":[%s]}`, tasks),
	} {
		if f, err := ParseFilter([]byte(raw)); err == nil {
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
	f.TaskIDs = []string{"a", "b"}
	if !f.HasTask("b") || f.HasTask("c") || f.Empty() || f.Equal(Filter{}) {
		t.Errorf("%+v", f)
	}
	f.URIs = []string{"a", "b"}
	if !f.HasURI("b") || f.HasURI("c") || f.Empty() {
		t.Errorf("%+v", f)
	}
}
