package hostile_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// wants is the HTTP status and the code of a refusal; 0 leaves one open.
type wants struct{ status, code int }

func check(t *testing.T, r *reply, w wants) {
	t.Helper()
	if w.status != 0 && r.Status != w.status || w.code != 0 && at(r.message(), "error", "code") != fmt.Sprint(w.code) {
		t.Errorf("want %v, got %v", w, r)
	}
	if at(r.message(), "result") != "" {
		t.Errorf("it was served: %v", r)
	}
}

func TestMalformedMessagesAreRefusedAlone_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t", "fine")
	g := open(t, members{"a": u})
	s := g.legacy("2025-11-25")
	headers := modernHeaders("tools/call", "a__t")
	with := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `,"_meta":{` + meta + `}}}`
	}
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	for name, try := range map[string]struct {
		body string
		want wants
	}{
		"empty":                      {" ", wants{400, -32700}},
		"not JSON":                   {"hello", wants{400, -32700}},
		"cut":                        {with(`"name":"a__t"`)[:60], wants{400, -32700}},
		"two messages":               {with(`"name":"a__t"`) + with(`"name":"a__t"`), wants{400, -32700}},
		"trailing comma":             {strings.Replace(with(`"name":"a__t"`), `}}}`, `}},}`, 1), wants{400, -32700}},
		"invalid UTF-8":              {with("\"name\":\"a__t\",\"arguments\":{\"x\":\"\xff\"}"), wants{400, -32700}},
		"overlong UTF-8":             {with("\"name\":\"a__t\",\"arguments\":{\"x\":\"\xc0\xaf\"}"), wants{400, -32700}},
		"lone surrogate":             {with(`"name":"a__t","arguments":{"x":"\ud800"}`), wants{400, -32700}},
		"raw control character":      {with("\"name\":\"a__t\",\"arguments\":{\"x\":\"a\x01b\"}"), wants{400, -32700}},
		"byte order mark":            {"\ufeff" + with(`"name":"a__t"`), wants{400, -32700}},
		"NaN":                        {with(`"name":"a__t","arguments":{"x":NaN}`), wants{400, -32700}},
		"too deep":                   {with(`"name":"a__t","arguments":` + deep), wants{400, 0}},
		"duplicate name":             {with(`"name":"a__t","name":"a__fine"`), wants{400, -32700}},
		"duplicate by escape":        {with(`"name":"a__t","\u006eame":"a__fine"`), wants{400, -32700}},
		"duplicate deep inside":      {with(`"name":"a__t","arguments":{"x":{"y":1,"y":2}}`), wants{400, -32700}},
		"duplicate method":           {`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"a__t","_meta":{` + meta + `}}}`, wants{400, -32700}},
		"duplicate params":           {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__t"},"params":{"name":"a__t","_meta":{` + meta + `}}}`, wants{400, -32700}},
		"case twin Name":             {with(`"name":"a__t","Name":"a__fine"`), wants{400, 0}},
		"case twin ARGUMENTS":        {with(`"name":"a__t","arguments":{},"ARGUMENTS":{}`), wants{400, 0}},
		"case twin Method":           {`{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"x","params":{"name":"a__t","_meta":{` + meta + `}}}`, wants{400, 0}},
		"case twin of Kelvin":        {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__t","_meta":{` + meta + `},"taſk":{},"task":{}}}`, wants{400, 0}},
		"version 1.0":                {strings.Replace(with(`"name":"a__t"`), `"2.0"`, `"1.0"`, 1), wants{400, -32600}},
		"no version":                 {strings.Replace(with(`"name":"a__t"`), `"jsonrpc":"2.0",`, ``, 1), wants{400, -32600}},
		"id null":                    {strings.Replace(with(`"name":"a__t"`), `"id":1`, `"id":null`, 1), wants{400, -32600}},
		"id object":                  {strings.Replace(with(`"name":"a__t"`), `"id":1`, `"id":{}`, 1), wants{400, -32600}},
		"id fraction":                {strings.Replace(with(`"name":"a__t"`), `"id":1`, `"id":1.5`, 1), wants{400, -32600}},
		"method number":              {`{"jsonrpc":"2.0","id":1,"method":7}`, wants{400, -32600}},
		"params array":               {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, wants{400, 0}},
		"a string":                   {`"tools/call"`, wants{400, 0}},
		"null":                       {`null`, wants{400, 0}},
		"a batch":                    {`[` + with(`"name":"a__t"`) + `]`, wants{400, -32600}},
		"an empty batch":             {`[]`, wants{400, -32600}},
		"a response":                 {`{"jsonrpc":"2.0","id":1,"result":{},"x":{}}`, wants{400, 0}},
		"method and result":          {`{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{},"params":{"_meta":{` + meta + `}}}`, wants{400, -32600}},
		"name missing":               {with(`"x":1`), wants{0, -32602}},
		"name a number":              {with(`"name":7`), wants{0, -32602}},
		"requestState a number":      {with(`"name":"a__t","requestState":7`), wants{200, -32602}},
		"inputResponses a list":      {with(`"name":"a__t","inputResponses":[]`), wants{200, -32602}},
		"log level that is no level": {strings.Replace(with(`"name":"a__t"`), meta, meta+`,"io.modelcontextprotocol/logLevel":"loud"`, 1), wants{0, -32602}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, g.post(try.body, headers...), try.want)
			// The same within a session, where what is malformed for one era is for the other.
			if try.want.code == -32700 && !strings.Contains(name, "response") {
				check(t, s.send(try.body), wants{400, -32700})
			}
			healthy(t, s, "a__fine")
		})
	}
	for _, r := range u.requests("tools/call") {
		if text(r.Params, "name") != "fine" {
			t.Errorf("a malformed call reached the upstream: %s", r.Raw)
		}
	}
	healthy(t, g, "a__fine")
}

func TestWrongHeadersAreRefusedInTheOrderOfT1_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t")
	g := open(t, members{"a": u})
	body := modernBody("1", "tools/call", `"name":"a__t"`)
	noMeta := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__t"}}`
	future := strings.ReplaceAll(body, modernVersion, "2027-01-01")
	const v, m, n = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"
	for name, try := range map[string]struct {
		body    string
		headers []string
		want    wants
	}{
		"no version":             {body, []string{m, "tools/call", n, "a__t"}, wants{400, -32020}},
		"other version":          {body, []string{v, "2025-11-25", m, "tools/call", n, "a__t"}, wants{400, -32020}},
		"version twice":          {body, []string{v, modernVersion, v, modernVersion, m, "tools/call", n, "a__t"}, wants{400, -32020}},
		"no method":              {body, []string{v, modernVersion, n, "a__t"}, wants{400, -32020}},
		"other method":           {body, []string{v, modernVersion, m, "tools/list", n, "a__t"}, wants{400, -32020}},
		"method in other case":   {body, []string{v, modernVersion, m, "Tools/Call", n, "a__t"}, wants{400, -32020}},
		"method twice":           {body, []string{v, modernVersion, m, "tools/call", m, "tools/call", n, "a__t"}, wants{400, -32020}},
		"no name":                {body, []string{v, modernVersion, m, "tools/call"}, wants{400, -32020}},
		"other name":             {body, []string{v, modernVersion, m, "tools/call", n, "a__u"}, wants{400, -32020}},
		"name twice":             {body, []string{v, modernVersion, m, "tools/call", n, "a__t", n, "a__t"}, wants{400, -32020}},
		"name empty":             {body, []string{v, modernVersion, m, "tools/call", n, ""}, wants{400, -32020}},
		"header, no metadata":    {noMeta, []string{v, modernVersion, m, "tools/call", n, "a__t"}, wants{400, -32602}},
		"no metadata, no header": {noMeta, nil, wants{400, 0}},
		"unknown version":        {future, []string{v, "2027-01-01", m, "tools/call", n, "a__t"}, wants{400, -32022}},
		"unknown version, other": {future, []string{v, modernVersion, m, "tools/call", n, "a__t"}, wants{400, -32020}},
		"no capabilities":        {strings.Replace(body, `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1), []string{v, modernVersion, m, "tools/call", n, "a__t"}, wants{400, -32602}},
		"unknown method":         {modernBody("1", "no/such", ""), modernHeaders("no/such", ""), wants{404, -32601}},
		"initialize, modern":     {modernBody("1", "initialize", ""), modernHeaders("initialize", ""), wants{404, -32601}},
		"ping, modern":           {modernBody("1", "ping", ""), modernHeaders("ping", ""), wants{404, -32601}},
		"setLevel, modern":       {modernBody("1", "logging/setLevel", `"level":"info"`), modernHeaders("logging/setLevel", ""), wants{404, -32601}},
		"text body":              {body, append(modernHeaders("tools/call", "a__t"), "Content-Type", "text/plain"), wants{415, 0}},
		"no media type":          {body, append(modernHeaders("tools/call", "a__t"), "-Content-Type", ""), wants{415, 0}},
		"accepts images":         {body, append(modernHeaders("tools/call", "a__t"), "Accept", "image/png"), wants{406, 0}},
		"refuses both":           {body, append(modernHeaders("tools/call", "a__t"), "Accept", "application/json;q=0, text/event-stream;q=0"), wants{406, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			r := g.post(try.body, try.headers...)
			check(t, r, try.want)
			if try.want.code == -32022 && (at(r.Body, "error", "data", "requested") != `"2027-01-01"` || !strings.Contains(at(r.Body, "error", "data", "supported"), modernVersion)) {
				t.Errorf("data: %v", r)
			}
			if r.Header.Get("Mcp-Session-Id") != "" {
				t.Error("a session was minted")
			}
		})
	}
	if n := len(u.requests("tools/call")); n != 0 {
		t.Errorf("%d refused calls reached the upstream", n)
	}
	for _, accept := range []string{"application/json", "text/event-stream", "*/*", "application/*, text/*;q=0.1", "APPLICATION/JSON; charset=utf-8"} {
		wantResult(t, g.post(body, append(modernHeaders("tools/call", "a__t"), "Accept", accept)...))
	}
	wantResult(t, g.post(body, append(modernHeaders("tools/call", "a__t"), "-Accept", "", "Content-Type", "application/json; charset=UTF-8")...))
	wantResult(t, g.at("/mcp/").post(body, modernHeaders("tools/call", "a__t")...))
	wantResult(t, g.post(body, append(modernHeaders("tools/call", "a__t"), "Mcp-Session-Id", "stray", "Last-Event-ID", "7")...))
}

func TestOversizedRequestsAreRefusedAlone_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t")
	g := serve(t, document(members{"a": u}, nil, `limits: {list_timeout: 1s, request_bytes: 64KiB, header_bytes: 16KiB}`))
	s := g.legacy("2025-11-25")
	big := strings.Repeat("x", 70<<10)
	body := modernBody("1", "tools/call", `"name":"a__t","arguments":{"x":"`+big+`"}`)
	check(t, g.post(body, modernHeaders("tools/call", "a__t")...), wants{413, -31008})
	check(t, s.call("tools/call", `"name":"a__t","arguments":{"x":"`+big+`"}`), wants{413, -31008})
	chunked := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	if r, err := rawHTTP(t, g.addr, chunked, http.MethodPost); err != nil || r.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("chunked: %v %v", r, err)
	}
	long := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("h", 64<<10) + "\r\n\r\n"
	if r, err := rawHTTP(t, g.addr, long, http.MethodPost); err != nil || r.Status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("long header: %v %v", r, err)
	}
	healthy(t, g, "a__t")
	healthy(t, s, "a__t")
	if n := len(u.requests("tools/call")); n != 2 {
		t.Errorf("%d calls reached the upstream", n)
	}
}

func TestSmuggledRequestsAreRefused_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t")
	g := open(t, members{"a": u})
	body := modernBody("1", "tools/call", `"name":"a__t"`)
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: a__t\r\nConnection: close\r\n"
	for name, raw := range map[string]string{
		"two lengths":      head + fmt.Sprintf("Content-Length: %d\r\nContent-Length: 3\r\n\r\n", len(body)) + body,
		"negative length":  head + "Content-Length: -1\r\n\r\n" + body,
		"bad chunk":        head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + body + "\r\n0\r\n\r\n",
		"odd coding":       head + "Transfer-Encoding: xchunked\r\n\r\n" + body,
		"line end in name": strings.Replace(head, "Mcp-Name: a__t", "Mcp-Name: a\x00t", 1) + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body,
		"no host":          strings.Replace(head, "Host: localhost\r\n", "", 1) + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body,
	} {
		r, err := rawHTTP(t, g.addr, raw, http.MethodPost)
		if err == nil && r.Status < 400 {
			t.Errorf("%s: %v", name, r)
		}
	}
	// Both framings: RFC 9112 lets the chunked one win; never both messages.
	both := head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	_, _ = rawHTTP(t, g.addr, both, http.MethodPost)
	if n := len(u.requests("tools/call")); n > 1 {
		t.Errorf("%d calls reached the upstream", n)
	}
	healthy(t, g, "a__t")
}

func TestNamesAndURIsOfAnyShape_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t").prompt("p").resource("memo://1")
	g := open(t, members{"a": u, "b": newLegacy(t).tool("fine")})
	odd := []string{
		"", " ", "a", "a__", "__t", "a__t ", "A__t", "a__t\x00", "a__t\n", "../a__t", "a__a__t", "b__t", "c__t", "a-t", "a.t",
		"läuft", "\u202ea__t", "a__t\u0301", strings.Repeat("x", 10_000), "ui://", "ui://a", "ui://a/", "ui://nobody/x", "file:///../../etc/passwd",
		"http://169.254.169.254/", "javascript:alert(1)", "{uri}", "%00", "=?base64?x", `"}`, "memo://1#f", "MEMO://1",
	}
	for era, c := range g.clients() {
		for _, name := range odd {
			for _, method := range []string{"tools/call", "prompts/get"} {
				r := c.request(method, `"name":`+quote(name))
				if code := at(r.message(), "error", "code"); code != "-32602" && !(name == "" && code == "-32020") {
					t.Errorf("%s %s %.40q: %v", era, method, name, r)
				}
			}
			want := "-32602"
			if era == "legacy" {
				want = "-32002"
			}
			if strings.HasPrefix(name, "ui://a/") {
				continue // of the form of a resource that a offers
			}
			r := c.request("resources/read", `"uri":`+quote(name))
			if code := at(r.message(), "error", "code"); code != want && !(name == "" && code == "-32020") {
				t.Errorf("%s resources/read %.40q: %v", era, name, r)
			}
		}
		healthy(t, c, "b__fine")
	}
	if n := len(u.requests("tools/call")) + len(u.requests("prompts/get")); n != 0 {
		t.Errorf("%d unknown names reached the upstream", n)
	}
}

func TestBatchesAreOnlyForTheRevisionThatHasThem_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t")
	g := open(t, members{"a": u})
	call := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a__t"}}`
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		check(t, g.legacy(version).send("["+call+"]"), wants{400, -32600})
	}
	check(t, g.post("["+initialize("2025-03-26")+"]"), wants{400, -32600})
	s := g.legacy("2025-03-26")
	r := s.send(`[` + call + `,{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"nope"},` +
		initialize("2025-03-26") + `,7]`)
	for i, want := range []string{`"x"`, "2", "3", "0"} {
		if at(r.message(), i, "id") != want {
			t.Errorf("answer %d: %v", i, r)
		}
	}
	if at(r.message(), 0, "result") == "" || at(r.message(), 1, "result") != "{}" || at(r.message(), 2, "error", "code") != "-32601" || at(r.message(), 3, "error", "code") != "-32600" {
		t.Errorf("%v", r)
	}
	if r := s.send(`[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"p","result":{}}]`); r.Status != http.StatusAccepted || r.Body != "" {
		t.Errorf("a batch without requests: %v", r)
	}
	check(t, s.send(`[`+call+`,{"jsonrpc":"2.0","id":5,"method":"ping","method":"ping"}]`), wants{400, -32700})
	check(t, s.send(`[]`), wants{400, -32600})
	check(t, s.send(`[`+strings.Repeat(call+",", 5000)+call+`]`), wants{400, 0})
	check(t, s.send(`[`+call), wants{400, -32700})
	healthy(t, s, "a__t")
}

func TestAClientThatIsSlowOrLeavesHarmsNobody_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t", "big")
	u.handle("tools/call", func(x *exchange) {
		if text(x.Params, "name") == "big" {
			x.result(`{"content":[{"type":"text","text":"` + strings.Repeat("y", 8<<20) + `"}]}`)
			return
		}
		x.result(`{"content":[{"type":"text","text":"ok"}]}`)
	})
	g := open(t, members{"a": u})
	for range 5 {
		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, strings.NewReader(modernBody("1", "tools/call", `"name":"a__big"`)))
		if err != nil {
			t.Fatal(err)
		}
		h := append(modernHeaders("tools/call", "a__big"), "Content-Type", "application/json")
		for i := 0; i < len(h); i += 2 {
			req.Header.Set(h[i], h[i+1])
		}
		resp, err := g.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = resp.Body.Read(make([]byte, 100)) // and no more
		healthy(t, g, "a__t")
		cancel()
		_ = resp.Body.Close()
	}
	healthy(t, g, "a__t")
}
