package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// farewell bounds the DELETE that ends a session.
const farewell = 5 * time.Second

// clientInfo is how the command introduces itself, as raw JSON.
func clientInfo() string {
	v := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	return `{"name":"penstock-call","version":"` + v + `"}`
}

// withMeta returns params with the _meta members that every modern request
// carries (checklist 107), and the version they name. What the user wrote into
// _meta stays and wins.
func withMeta(params jsontext.Value, tasks bool) (out jsontext.Value, version string, err error) {
	if params == nil {
		params = jsontext.Value("{}")
	}
	capabilities := `{}`
	if tasks {
		capabilities = `{"extensions":{"` + mcp.ExtensionTasks + `":{}}}`
	}
	version = mcp.LatestModern.String()
	ours := []struct{ name, value string }{
		{mcp.MetaProtocolVersion, `"` + version + `"`},
		{mcp.MetaClientCapabilities, capabilities},
		{mcp.MetaClientInfo, clientInfo()},
	}
	start, end, found := locateMember(params, "_meta")
	meta := jsontext.Value("{}")
	if found {
		if meta = params[start:end]; meta.Kind() != '{' {
			return nil, "", fmt.Errorf("_meta must be an object")
		}
	}
	if v, ok := stringMember(meta, mcp.MetaProtocolVersion); ok {
		version = v
	}
	var add []string
	for _, m := range ours {
		if _, _, has := locateMember(meta, m.name); !has {
			add = append(add, `"`+m.name+`":`+m.value)
		}
	}
	meta = prepend(meta, strings.Join(add, ","))
	if found {
		return bytes.Join([][]byte{params[:start], meta, params[end:]}, nil), version, nil
	}
	return prepend(params, `"_meta":`+string(meta)), version, nil
}

// prepend puts raw members in front of those of an object.
func prepend(object jsontext.Value, members string) jsontext.Value {
	rest := bytes.TrimLeft(object[1:], " \t\r\n")
	out := append(jsontext.Value{'{'}, members...)
	if members != "" && rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}

// locateMember finds the value of one member of an object.
func locateMember(object jsontext.Value, name string) (start, end int, ok bool) {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return 0, 0, false
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return 0, 0, false
		}
		hit := t.String() == name
		v, err := d.ReadValue()
		if err != nil {
			return 0, 0, false
		}
		if hit {
			end = int(d.InputOffset())
			return end - len(v), end, true
		}
	}
	return 0, 0, false
}

// stringMember is the text of a member that is a string.
func stringMember(object jsontext.Value, name string) (string, bool) {
	start, end, ok := locateMember(object, name)
	if !ok || object[start] != '"' {
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, object[start:end])
	return string(s), err == nil
}

// nameOf is what Mcp-Name says of a request (checklist 22, T16).
func nameOf(method string, params jsontext.Value) (string, bool) {
	switch method {
	case "tasks/get", "tasks/update", "tasks/cancel":
		return stringMember(params, "taskId")
	}
	if m := mcp.LookupMethod([]byte(method)); m != nil {
		switch m.Header {
		case mcp.FromName:
			return stringMember(params, "name")
		case mcp.FromURI:
			return stringMember(params, "uri")
		}
	}
	return "", false
}

// exchange posts one message and returns the result; without an id it is a
// notification, whose result is nil.
func (c *caller) exchange(ctx context.Context, id, method string, params jsontext.Value, header http.Header) (jsontext.Value, error) {
	return c.exchangeWith(ctx, id, method, params, header, nil)
}

// exchangeWith also copies the answer's headers to answered, unless it is nil.
func (c *caller) exchangeWith(ctx context.Context, id, method string, params jsontext.Value, header, answered http.Header) (jsontext.Value, error) {
	if method == c.method && c.notification() {
		id = ""
	}
	body := []byte(`{"jsonrpc":"2.0"`)
	if id != "" {
		body = append(body, `,"id":`+id...)
	}
	quoted, err := jsontext.AppendQuote(nil, method)
	if err != nil {
		return nil, &usageError{fmt.Errorf("the method %q is not UTF-8", method)}
	}
	body = append(append(body, `,"method":`...), quoted...)
	if params != nil {
		body = append(append(body, `,"params":`...), params...)
	}
	body = append(body, '}')
	resp, err := c.post(ctx, body, header)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if answered != nil {
		maps.Copy(answered, resp.Header)
	}
	return c.read(ctx, resp, id, header)
}

// post sends one body. What the user gave as --header replaces what would be sent.
func (c *caller) post(ctx context.Context, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &usageError{err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	c.setHeaders(req, header)
	return c.client.Do(req)
}

func (c *caller) setHeaders(req *http.Request, header http.Header) {
	for _, set := range []http.Header{header, c.headers} {
		maps.Copy(req.Header, set)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
}

// reply answers a request that a legacy server sends while it works: ping as it
// should be, anything else with a refusal, since nothing was declared.
func (c *caller) reply(ctx context.Context, m *received, header http.Header) error {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"penstock call answers no requests"}}`, m.ID)
	if m.Method == mcp.Ping {
		body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}
	resp, err := c.post(ctx, body, header)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxPage))
	return resp.Body.Close()
}

// endSession tells the server that the session is over. It is a courtesy: a
// server may refuse it (checklist 82), and the answer is already known, so its
// outcome changes nothing.
func (c *caller) endSession(ctx context.Context, header http.Header) {
	if header.Get(mcp.HeaderSession) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.url.String(), nil)
	if err != nil {
		return
	}
	c.setHeaders(req, header)
	if resp, err := c.client.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}
