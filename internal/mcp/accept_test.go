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
		j, s, _ := Accepts(tc.values)
		if j != tc.json || s != tc.stream {
			t.Errorf("%q: json %v, stream %v", tc.values, j, s)
		}
	}
}

func TestAClientMayLikeTheStreamBetter(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"text/event-stream":                   false, // it takes nothing else
		"application/json, text/event-stream": false,
		"text/event-stream, application/json": true,
		"application/json;q=0.5, text/event-stream": true,
		"text/event-stream;q=0.5, application/json": false,
		"text/event-stream, */*":                    false,
		"text/event-stream;q=0, application/json":   false,
	} {
		if _, _, first := Accepts([]string{accept}); first != want {
			t.Errorf("%q: %v", accept, first)
		}
	}
	if _, _, first := Accepts([]string{"text/event-stream", "application/json"}); !first {
		t.Error("two headers are not read in order")
	}
}

func TestReadingAUsualAcceptHeaderCostsNoAllocation(t *testing.T) {
	values := []string{"application/json, text/event-stream;q=0.9"}
	if n := testing.AllocsPerRun(100, func() {
		if j, s, first := Accepts(values); !j || !s || first {
			t.Error(j, s, first)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
