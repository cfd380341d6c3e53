package north

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func pings(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
	}
	return "[" + b.String() + "]"
}

func TestBatchesAreTakenOnlyWhereTheRevisionHasThem(t *testing.T) { // checklist 14, 90
	f := open(t, &rooms{})
	old := f.initialize("2025-03-26")
	for _, c := range []struct {
		what, body   string
		headers      map[string]string
		status, code int
	}{
		{"no session", pings(1), nil, 400, -32600},
		{"modern", `[{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}]`, modernHeaders("tools/list", ""), 400, -32600},
		{"modern header in an old session", pings(1), map[string]string{"Mcp-Session-Id": old, "Mcp-Protocol-Version": "2026-07-28"}, 400, -32600},
		{"2025-06-18", pings(1), map[string]string{"Mcp-Session-Id": f.initialize("2025-06-18")}, 400, -32600},
		{"2025-11-25", pings(1), map[string]string{"Mcp-Session-Id": f.initialize("2025-11-25")}, 400, -32600},
		{"unknown session", pings(1), map[string]string{"Mcp-Session-Id": "gone"}, 404, -32001},
		{"empty", ` [ ] `, map[string]string{"Mcp-Session-Id": old}, 400, -32600},
		{"too many", pings(maxBatch + 1), map[string]string{"Mcp-Session-Id": old}, 400, -32600},
		{"duplicate names", `[{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}]`, map[string]string{"Mcp-Session-Id": old}, 400, -32700},
		{"cut short", `[{"jsonrpc":"2.0","id":1,"method":"ping"}`, map[string]string{"Mcp-Session-Id": old}, 400, -32700},
	} {
		g := f.post(c.body, c.headers)
		if g.status != c.status || g.code(t) != c.code {
			t.Errorf("%s: HTTP %d %s; want %d with %d", c.what, g.status, g.body, c.status, c.code)
		}
	}
	if n := len(f.reached()); n != 0 {
		t.Errorf("%d messages of refused batches were served", n)
	}
}

func TestABatchIsAnsweredInOrder(t *testing.T) {
	var inFlight, most atomic.Int64
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		most.Store(max(most.Load(), inFlight.Add(1)))
		defer inFlight.Add(-1)
		time.Sleep(5 * time.Millisecond)
		if string(x.ID()) == "3" {
			return fault.New(fault.InvalidParams, "three")
		}
		return x.Result([]byte(`{"id":`), x.ID(), []byte(`}`))
	}})
	session := f.initialize("2025-03-26")
	g := f.legacy(session, pings(40))
	var answers []msg
	if err := json.Unmarshal([]byte(g.body), &answers); err != nil || g.status != 200 {
		t.Fatalf("HTTP %d %s: %v", g.status, g.body, err)
	}
	if len(answers) != 40 {
		t.Fatalf("%d answers", len(answers))
	}
	for i, a := range answers {
		if a.ID != float64(i) || (a.Error != nil) != (i == 3) || (i != 3 && a.Result["id"] != float64(i)) {
			t.Errorf("answer %d is %+v", i, a)
		}
	}
	if m := most.Load(); m > batchParallel || m < 2 {
		t.Errorf("%d at once; want 2 to %d", m, batchParallel)
	}
}

func TestABatchMixesWhatIsAnsweredAndWhatIsNot(t *testing.T) {
	f := open(t, &rooms{})
	session := f.initialize("2025-03-26")
	g := f.legacy(session, `[
		{"jsonrpc":"2.0","method":"notifications/initialized"},
		{"jsonrpc":"2.0","id":"a","method":"ping"},
		{"jsonrpc":"2.0","id":5,"result":{}},
		{"jsonrpc":"2.0","id":6,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}},
		{"jsonrpc":"2.0","id":7,"method":"no/such"},
		{"jsonrpc":"1.0","id":8,"method":"ping"},
		7 ]`)
	var answers []msg
	if err := json.Unmarshal([]byte(g.body), &answers); err != nil {
		t.Fatalf("HTTP %d %s: %v", g.status, g.body, err)
	}
	var codes []string
	for _, a := range answers {
		code := 0
		if a.Error != nil {
			code = a.Error.Code
		}
		codes = append(codes, fmt.Sprint(a.ID, ":", code))
	}
	if got, want := strings.Join(codes, " "), "a:0 6:-32600 7:-32601 8:-32600 <nil>:-32600"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if g.header.Get("Mcp-Session-Id") != "" {
		t.Error("initialize within a batch minted a session")
	}
	for _, quiet := range []string{`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, `[{"jsonrpc":"2.0","id":5,"result":{}},{"jsonrpc":"2.0","id":6,"error":{"code":1,"message":""}}]`} {
		if g := f.legacy(session, quiet); g.status != 202 || g.body != "" {
			t.Errorf("%s: HTTP %d %q", quiet, g.status, g.body)
		}
	}
}

func TestABatchIsOneEventToAClientOfStreamsAlone(t *testing.T) {
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		return x.Result([]byte("{\n\"a\":\r\n1}"))
	}})
	session := f.initialize("2025-03-26")
	g := f.legacy(session, pings(2), "Accept", "text/event-stream")
	want := "event: message\ndata: " + `[{"jsonrpc":"2.0","id":0,"result":{ "a":  1}},{"jsonrpc":"2.0","id":1,"result":{ "a":  1}}]` + "\n\n"
	if g.header.Get("Content-Type") != "text/event-stream" || g.body != want {
		t.Errorf("%v %q", g.header, g.body)
	}
}

func TestAnAnswerTooLargeForABatchFailsAlone(t *testing.T) {
	big := []byte(`"` + strings.Repeat("a", maxCollected) + `"`)
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		if string(x.ID()) == "0" {
			return x.Result(big)
		}
		return x.Result([]byte(`1`))
	}})
	g := f.legacy(f.initialize("2025-03-26"), pings(2))
	if !strings.Contains(g.body, `"id":0,"error":{"code":-31008`) || !strings.Contains(g.body, `{"jsonrpc":"2.0","id":1,"result":1}`) {
		t.Errorf("HTTP %d %.300s", g.status, g.body)
	}
}
