package mcp

import "testing"

func TestAcceptHeadersAreRead(t *testing.T) {
	for _, tc := range []struct {
		values       []string
		json, stream bool
	}{
		{nil, true, true},
		{[]string{""}, true, true},
		{[]string{" , "}, true, true},
		{[]string{"application/json, text/event-stream"}, true, true},
		{[]string{"application/json", "text/event-stream"}, true, true},
		{[]string{"APPLICATION/JSON; charset=utf-8"}, true, false},
		{[]string{"text/event-stream"}, false, true},
		{[]string{"*/*"}, true, true},
		{[]string{"application/*"}, true, false},
		{[]string{"text/*;q=0.3"}, false, true},
		{[]string{"text/html"}, false, false},
		{[]string{"*/*, application/json;q=0"}, false, true},
		{[]string{"application/json;q=0, */*;q=0.1"}, false, true},
		{[]string{"*/*;q=0, text/event-stream"}, false, true},
		{[]string{"application/json; q=0.0"}, false, false},
		{[]string{"application/json;q=x"}, true, false},
		{[]string{`text/html;a="b,application/json"`}, false, false},
		{[]string{"json"}, false, false},
	} {
		j, s := Accepts(tc.values)
		if j != tc.json || s != tc.stream {
			t.Errorf("%q: json %v, stream %v", tc.values, j, s)
		}
	}
}

func TestReadingAUsualAcceptHeaderCostsNoAllocation(t *testing.T) {
	values := []string{"application/json, text/event-stream;q=0.9"}
	if n := testing.AllocsPerRun(100, func() {
		if j, s := Accepts(values); !j || !s {
			t.Error(j, s)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
