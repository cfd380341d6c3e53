package north

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// Checklist T1: in each case everything up to a step is right, and that step and
// all later ones that can be are wrong; the step's own error is the answer.
func TestValidationAnswersWithTheFirstThingThatIsWrong(t *testing.T) {
	f := open(t, &rooms{
		identify: func(r *http.Request) (*Principal, error) {
			if r.Header.Get("Authorization") == "bad" {
				return nil, fault.New(fault.PolicyDenied, "not you")
			}
			return &Principal{Name: "p"}, nil
		},
		serve: func(context.Context, *Exchange) error { return fault.New(fault.InvalidParams, "from behind") },
	}, func(o *Options) { o.RequestBytes = 2000 })
	const (
		wrongMeta    = `"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01","io.modelcontextprotocol/clientCapabilities":{}}`
		noMeta       = `"_meta":{}`
		wrongMethod  = `"method":"no/such","params":{"name":"a",`
		rightMethod  = `"method":"tools/call","params":{"name":"a",`
		head         = `{"jsonrpc":"2.0","id":"x",`
		wrongHeaders = "Mcp-Protocol-Version=1999-01-02&Mcp-Method=other&Mcp-Name=other"
	)
	for _, c := range []struct {
		step, headers, body string
		status, code        int
	}{
		{"origin", "Origin=http://evil.example&Authorization=bad&Content-Type=text/plain&Accept=image/png&" + wrongHeaders, strings.Repeat("{", 3000), 403, -31013},
		{"identity", "Authorization=bad&Content-Type=text/plain&Accept=image/png&" + wrongHeaders, strings.Repeat("{", 3000), 200, -31004},
		{"content type", "Content-Type=text/plain&Accept=image/png&" + wrongHeaders, strings.Repeat("{", 3000), 415, -31012},
		{"accept", "Accept=image/png&" + wrongHeaders, strings.Repeat("{", 3000), 406, -31011},
		{"size", wrongHeaders, strings.Repeat("{", 3000), 413, -31008},
		{"parse", wrongHeaders, head + wrongMethod + noMeta + `}`, 400, -32700},
		{"parse before era", "Mcp-Protocol-Version=2026-07-28|2026-07-28", head + wrongMethod + noMeta + `}`, 400, -32700},
		{"duplicate member", wrongHeaders, `{"jsonrpc":"2.0","id":1,"id":2,` + wrongMethod + noMeta + `}}`, 400, -32700},
		{"parse before array", wrongHeaders, `[` + head + wrongMethod + noMeta + `}`, 400, -32700},
		{"array", wrongHeaders, `[` + head + wrongMethod + noMeta + `}}]`, 400, -32600},
		{"envelope", wrongHeaders, `{"jsonrpc":"1.0","id":"x",` + wrongMethod + noMeta + `}}`, 400, -32600},
		{"missing _meta", wrongHeaders, head + wrongMethod + noMeta + `}}`, 400, -32602},
		{"no params at all", wrongHeaders, `{"jsonrpc":"2.0","id":"x","method":"no/such"}`, 400, -32602},
		{"missing capabilities", wrongHeaders, head + wrongMethod + `"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01"}}}`, 400, -32602},
		{"capabilities no object", wrongHeaders, head + wrongMethod + `"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01","io.modelcontextprotocol/clientCapabilities":[]}}}`, 400, -32602},
		{"version no string", wrongHeaders, head + wrongMethod + `"_meta":{"io.modelcontextprotocol/protocolVersion":1,"io.modelcontextprotocol/clientCapabilities":{}}}}`, 400, -32602},
		{"version header mismatch", wrongHeaders, head + wrongMethod + wrongMeta + `}}`, 400, -32020},
		{"version header missing", "Mcp-Method=other&Mcp-Name=other", head + wrongMethod + wrongMeta + `}}`, 400, -32020},
		{"version header twice", "Mcp-Protocol-Version=1999-01-01|1999-01-01&Mcp-Method=other", head + wrongMethod + wrongMeta + `}}`, 400, -32020},
		{"version", "Mcp-Protocol-Version=1999-01-01&Mcp-Method=other&Mcp-Name=other", head + wrongMethod + wrongMeta + `}}`, 400, -32022},
		{"method", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=other&Mcp-Name=other", head + wrongMethod + meta + `}}`, 404, -32601},
		{"Mcp-Method missing", "Mcp-Protocol-Version=2026-07-28&Mcp-Name=other", head + rightMethod + meta + `}}`, 400, -32020},
		{"Mcp-Method mismatch", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=other&Mcp-Name=other", head + rightMethod + meta + `}}`, 400, -32020},
		{"Mcp-Method in another case", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=Tools/Call&Mcp-Name=a", head + rightMethod + meta + `}}`, 400, -32020},
		{"Mcp-Name missing", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=tools/call", head + rightMethod + meta + `}}`, 400, -32020},
		{"Mcp-Name mismatch", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=tools/call&Mcp-Name=b", head + rightMethod + meta + `}}`, 400, -32020},
		{"Mcp-Name undecodable", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=tools/call&Mcp-Name==?base64?YQ?=", head + rightMethod + meta + `}}`, 400, -32020},
		{"params", "Mcp-Protocol-Version=2026-07-28&Mcp-Method=tools/call&Mcp-Name=a", head + rightMethod + meta + `}}`, 200, -32602},
	} {
		t.Run(c.step, func(t *testing.T) {
			h := map[string]string{}
			for kv := range strings.SplitSeq(c.headers, "&") {
				k, v, _ := strings.Cut(kv, "=")
				h[k] = v
			}
			g := f.post(c.body, h)
			if g.status != c.status || g.code(t) != c.code {
				t.Errorf("HTTP %d %s; want %d with %d", g.status, g.body, c.status, c.code)
			}
			if reached := len(f.reached()) > 0; reached != (c.step == "params") {
				t.Errorf("reached the rooms behind: %v", reached)
			}
			if g.header.Get("Mcp-Session-Id") != "" {
				t.Error("a session id was minted (checklist 10)")
			}
		})
	}
}

func TestErrorsCarryTheRequestsOwnID(t *testing.T) { // checklist 27
	f := open(t, &rooms{})
	for _, id := range []string{`1`, `"1"`, `9007199254740993`, `"ü\u0041"`, `-5`} {
		g := f.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"no/such","params":{`+meta+`}}`, modernHeaders("no/such", ""))
		if !strings.Contains(g.body, `"id":`+id+`,"error"`) {
			t.Errorf("id %s: %s", id, g.body)
		}
	}
	for _, body := range []string{`{`, `[]`, `{"jsonrpc":"2.0","id":null,"method":"a"}`, `{"jsonrpc":"2.0","id":1.5,"method":"a"}`} {
		g := f.post(body, modernHeaders("a", ""))
		if g.status != 400 || strings.Contains(g.body, `"id"`) {
			t.Errorf("%s: HTTP %d %s", body, g.status, g.body)
		}
	}
}

func TestUnsupportedVersionNamesWhatIsSupported(t *testing.T) { // checklist 19, T6
	f := open(t, &rooms{})
	m := strings.ReplaceAll(meta, "2026-07-28", "2099-01-01")
	g := f.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+m+`}}`, map[string]string{"Mcp-Protocol-Version": "2099-01-01", "Mcp-Method": "tools/list"})
	want := map[string]any{"requested": "2099-01-01", "supported": []any{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}}
	if d := cmp.Diff(want, g.message(t).Error.Data); d != "" || g.status != 400 {
		t.Errorf("HTTP %d %s", g.status, d)
	}
}

func TestAModernRequestIsServed(t *testing.T) {
	f := open(t, &rooms{})
	for _, c := range []struct{ name, header string }{
		{"a", "a"},
		{"a", "=?base64?YQ==?="},
		{"Zażółć", "=?base64?WmHFvMOzxYLEhw==?="},
		{"=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="},
		{"=?BASE64?x?=", "=?BASE64?x?="},
	} {
		if g := f.modern("tools/call", c.header, `"name":"`+c.name+`"`); g.status != 200 || g.message(t).Result["served"] != "tools/call" {
			t.Errorf("%s as %s: HTTP %d %s", c.name, c.header, g.status, g.body)
		}
	}
	// clientInfo is optional (checklist 16), a session id is ignored (checklist 10).
	h := modernHeaders("resources/read", "file:///a")
	h["Mcp-Session-Id"], h["Last-Event-Id"] = "never-made", "9"
	g := f.post(`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"file:///a",`+meta+`}}`, h)
	if g.status != 200 || g.header.Get("Mcp-Session-Id") != "" || g.message(t).ID != float64(7) {
		t.Errorf("HTTP %d %v %s", g.status, g.header, g.body)
	}
}

func TestParametersThatAHeaderRepeatsMustBeStrings(t *testing.T) {
	f := open(t, &rooms{})
	for method, params := range map[string]string{"tools/call": `"name":5`, "prompts/get": `"title":"a"`, "resources/read": `"uri":null`} {
		if g := f.modern(method, "5", params); g.status != 200 || g.code(t) != -32602 {
			t.Errorf("%s %s: HTTP %d %s", method, params, g.status, g.body)
		}
	}
}

func TestLogLevelOfARequestIsChecked(t *testing.T) { // checklist 29
	f := open(t, &rooms{})
	for level, code := range map[string]int{`"debug"`: 0, `"emergency"`: 0, `"loud"`: -32602, `7`: -32602} {
		m := strings.TrimSuffix(meta, "}") + `,"io.modelcontextprotocol/logLevel":` + level + `}`
		g := f.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+m+`}}`, modernHeaders("tools/list", ""))
		if got := g.code(t); got != code {
			t.Errorf("%s: code %d, want %d", level, got, code)
		}
	}
}

func TestModernNotificationsAreAcceptedWithoutHeaders(t *testing.T) { // checklist 15
	f := open(t, &rooms{})
	for _, h := range []map[string]string{{"Mcp-Protocol-Version": "2026-07-28"}, {}} {
		g := f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,`+meta+`}}`, h)
		if g.status != http.StatusAccepted || g.body != "" {
			t.Errorf("HTTP %d %q", g.status, g.body)
		}
	}
	g := f.post(`{"jsonrpc":"2.0","id":1,"result":{}}`, map[string]string{"Mcp-Protocol-Version": "2026-07-28"})
	if g.status != 400 || g.code(t) != -32600 {
		t.Errorf("a response from a modern client: HTTP %d %s", g.status, g.body)
	}
}

func TestAModernClientThatHangsUpCancels(t *testing.T) { // checklist 35, T24
	began, ended := make(chan struct{}), make(chan error, 1)
	f := open(t, &rooms{serve: func(ctx context.Context, _ *Exchange) error {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}})
	ctx, hangUp := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+meta+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	h := modernHeaders("tools/list", "")
	h["Content-Type"] = "application/json"
	done := make(chan got, 1)
	go func() { done <- f.do(r, h) }()
	<-began
	hangUp()
	<-ended // the test's own deadline is the bound
	<-done
}
