package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestACallsAnswerIsRightOnlyByteForByte(t *testing.T) {
	want := payloadOf(rows, 200)
	right := `{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"` + string(want.raw) + `"}]}}`
	for _, tc := range []struct {
		name      string
		old, new  string
		onlyWhole bool // found only where the answer is decoded whole
	}{
		{name: "another byte", old: "4711", new: "4712"},
		{name: "another spelling of the same text", old: `\n`, new: `\u000a`},
		{name: "cut", old: `."}]`, new: `"}]`},
		{name: "longer", old: `."}]`, new: `.."}]`},
		{name: "another id", old: `"id":17`, new: `"id":18`},
		{name: "a longer id", old: `"id":17`, new: `"id":171`},
		{name: "id of another type", old: `"id":17`, new: `"id":"17"`},
		{name: "an error", old: `"result":{"content":[{"type":"text","text":"` + string(want.raw) + `"}]}`, new: `"error":{"code":-1,"message":"no"}`},
		{name: "an error result", old: `"}]}`, new: `"}],"isError":true}`, onlyWhole: true},
		{name: "a duplicate member", old: `"jsonrpc":"2.0",`, new: `"jsonrpc":"2.0","jsonrpc":"2.0",`, onlyWhole: true},
		{name: "no JSON at its end", old: `"}]}}`, new: `"}]}`, onlyWhole: true},
		{name: "another version", old: `"2.0"`, new: `"1.0"`, onlyWhole: true},
	} {
		altered := strings.Replace(right, tc.old, tc.new, 1)
		if altered == right {
			t.Fatalf("%s: nothing was altered", tc.name)
		}
		if err := checkCall([]byte(altered), 17, want, true); err == nil {
			t.Errorf("%s passes when it is decoded whole", tc.name)
		}
		if err := checkCall([]byte(altered), 17, want, false); err == nil && !tc.onlyWhole {
			t.Errorf("%s passes when it is compared", tc.name)
		}
	}
	for _, strict := range []bool{true, false} {
		if err := checkCall([]byte(right), 17, want, strict); err != nil {
			t.Errorf("the right answer, decoded %v: %v", strict, err)
		}
	}
	last := `{"result":{"_meta":{"a":1},"content":[{"text":"` + string(want.raw) + `","type":"text"}]},"id":17,"jsonrpc":"2.0"}`
	if err := checkCall([]byte(last), 17, want, false); err != nil {
		t.Errorf("the id behind the result: %v", err)
	}
}

func TestProgressMustComeInOrderBeforeTheResult(t *testing.T) {
	event := func(n int, token string) string {
		return `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"` + token + `","progress":` + strconv.Itoa(n) + `}}` + "\n\n"
	}
	result := "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
	message, err := checkEvents([]byte("text/event-stream"), []byte(": comment\n\n"+event(1, "p")+event(2, "p")+event(3, "p")+result), "p")
	if err != nil || string(message) != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("the right stream: %s, %v", message, err)
	}
	for name, stream := range map[string]string{
		"swapped":           event(2, "p") + event(1, "p") + event(3, "p") + result,
		"one lost":          event(1, "p") + event(2, "p") + result,
		"one behind":        event(1, "p") + event(2, "p") + result + event(3, "p"),
		"another's token":   event(1, "p") + event(2, "q") + event(3, "p") + result,
		"no result":         event(1, "p") + event(2, "p") + event(3, "p"),
		"two results":       event(1, "p") + event(2, "p") + event(3, "p") + result + result,
		"the upstream's id": event(1, "p") + event(2, "p") + event(3, "") + result,
	} {
		if _, err := checkEvents([]byte("text/event-stream"), []byte(stream), "p"); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	if _, err := checkEvents([]byte("application/json"), []byte(event(1, "p")+event(2, "p")+event(3, "p")+result), "p"); err == nil {
		t.Error("a stream that does not say that it is one passes")
	}
}

func TestAListIsRightWhenItHoldsEachToolOnce(t *testing.T) {
	want := []string{"b", "a", "c"}
	if err := checkNames([]string{"c", "a", "b"}, want); err != nil {
		t.Error(err)
	}
	for _, got := range [][]string{{"a", "b"}, {"a", "b", "c", "d"}, {"a", "b", "b", "c"}, {"a", "b", "x"}, nil} {
		if err := checkNames(got, want); err == nil {
			t.Errorf("%q passes for %q", got, want)
		}
	}
}

func TestAPageIsRefusedWhenSomethingIsMissing(t *testing.T) {
	right := `{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a","inputSchema":{}},{"name":"b","inputSchema":{}}],"nextCursor":"x/y="}}`
	names, err := checkPage([]byte(right), 3)
	if diff := cmp.Diff([]string{"a", "b"}, names); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if cursor, more := nextCursor([]byte(right)); !more || string(cursor) != `"x/y="` {
		t.Errorf("cursor %s, %v", cursor, more)
	}
	for _, wrong := range []string{
		strings.Replace(right, `"inputSchema":{}`, `"inputSchema":7`, 1),
		strings.Replace(right, `"nextCursor"`, `"_meta":{"penstock/partial":{"u3":"timed out"}},"nextCursor"`, 1),
		strings.Replace(right, `"id":3`, `"id":4`, 1),
	} {
		if _, err := checkPage([]byte(wrong), 3); err == nil {
			t.Errorf("%s passes", wrong)
		}
	}
	if _, more := nextCursor([]byte(`{"result":{"tools":[]}}`)); more {
		t.Error("a last page has a cursor")
	}
}
