package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// serveHere runs an upstream in this process and returns its address.
func serveHere(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- new(upstream).serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// A hop that leaves something out must not look cheap for it.
func TestTheUpstreamRefusesWhatAStrictServerRefuses(t *testing.T) {
	base := serveHere(t)
	meta := `"_meta":{` + modernMeta + `{}}`
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gauge_1","arguments":{"size":5},` + meta + `}}`
	right := []string{headerVersion, "2026-07-28", headerMethod, "tools/call", headerName, "gauge_1"}
	with := func(name, value string) []string { return append(append([]string{}, right...), name, value) }
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`
	for _, tc := range []struct {
		name    string
		path    string
		headers []string
		body    string
		status  int
		holds   string
	}{
		{"a right modern call", "/modern/text/2/0/mcp", right, call, 200, `"text":"....."`},
		{"another method in the header", "/modern/text/2/0/mcp", with(headerMethod, "tools/list"), call, 400, "-32020"},
		{"another name in the header", "/modern/text/2/0/mcp", with(headerName, "u0__gauge_1"), call, 400, "-32020"},
		{"another version in the header", "/modern/text/2/0/mcp", with(headerVersion, "2025-11-25"), call, 400, "-32022"},
		{"no capabilities", "/modern/text/2/0/mcp", right, strings.Replace(call, "clientCapabilities", "other", 1), 400, "-32602"},
		{"a duplicate member", "/modern/text/2/0/mcp", right, strings.Replace(call, `"id":1`, `"id":1,"id":1`, 1), 400, ""},
		{"a tool too many", "/modern/text/1/0/mcp", right, call, 200, "-32602"},
		{"initialize on modern", "/modern/text/1/0/mcp", nil, initialize, 400, "-32022"},
		{"initialize on legacy", "/legacy/text/1/0/mcp", nil, initialize, 200, `"protocolVersion":"2025-11-25"`},
		{"a modern call on legacy", "/legacy/text/2/0/mcp", right, call, 400, "-32000"},
		{"a session nobody began", "/legacy/text/2/0/mcp", []string{headerVersion, "2025-11-25", headerSession, sessionPrefix + "99"}, call, 404, "-32001"},
		{"the session that was begun", "/legacy/text/2/0/mcp", []string{headerVersion, "2025-11-25", headerSession, sessionPrefix + "1"}, call, 200, `"text":"....."`},
		{"no such upstream", "/modern/prose/2/0/mcp", right, call, 404, ""},
	} {
		req, err := http.NewRequest(http.MethodPost, base+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(tc.headers); i += 2 {
			req.Header.Set(tc.headers[i], tc.headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if resp.StatusCode != tc.status || !strings.Contains(string(body), tc.holds) {
			t.Errorf("%s: HTTP %d %s, want %d with %q", tc.name, resp.StatusCode, body, tc.status, tc.holds)
		}
	}
}

func TestClientAndUpstreamOfOneEraUnderstandEachOther(t *testing.T) {
	base := serveHere(t)
	for _, e := range []era{legacy, modern} {
		for _, f := range []form{text, rows, events} {
			at := place{era: e, form: f, tools: 3}
			c, err := connect(t.Context(), base+at.path(), e)
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range []int{0, 1, 1000, 70_000, 1 << 20, 3} {
				if err := c.call(toolName(2), f, size); err != nil {
					t.Errorf("%s %s, %d bytes: %v", e, f, size, err)
				}
			}
			if err := c.call(toolName(3), f, 1); err == nil {
				t.Errorf("%s %s: a call of a tool that is not offered passes", e, f)
			}
			if err := c.list([]string{toolName(0), toolName(1), toolName(2)}); err != nil {
				t.Errorf("%s %s: %v", e, f, err)
			}
			if err := c.list([]string{toolName(0), toolName(1)}); err == nil {
				t.Errorf("%s %s: a list with a tool too many passes", e, f)
			}
			c.close()
		}
	}
}

func TestAPlaceIsItsPath(t *testing.T) {
	want := place{era: legacy, form: rows, tools: 20, n: 99}
	if got, ok := parsePlace(want.path()); !ok || got != want {
		t.Errorf("%s reads as %+v, %v", want.path(), got, ok)
	}
	for _, path := range []string{"/", "/mcp", "/modern/text/0/0/mcp", "/modern/text/1/-1/mcp", "/old/text/1/0/mcp", "/modern/text/1/0/mcp/", "/modern/text/1/0/sse"} {
		if _, ok := parsePlace(path); ok {
			t.Errorf("%s is a place", path)
		}
	}
}
