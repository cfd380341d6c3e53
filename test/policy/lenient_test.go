package policy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// lenient is an upstream that reads requests in every way that servers do, and
// notes whatever any of these readings would have executed.
type lenient struct {
	*httptest.Server
	mu       sync.Mutex // guards what follows
	executed []execution
}

// execution is one call by one reading of a request.
type execution struct {
	reading, method, name, uri string
	env                        any  // of the arguments
	said                       bool // whether there is one
}

func (e execution) String() string {
	return fmt.Sprintf("%s executes %s of name %q, URI %q with env %v (%v)", e.reading, e.method, e.name, e.uri, e.env, e.said)
}

// forbidden tells what of a policy an execution breaks, "" for nothing.
func (e execution) forbidden() string {
	switch e.method {
	case "tools/call":
		switch {
		case e.name == "forbidden":
			return "the tool forbidden"
		case !e.said:
			return "a call without env"
		case e.env == "prod":
			return "a call in prod"
		}
	case "resources/read", "resources/subscribe":
		for _, p := range opened(e.uri) {
			if strings.HasPrefix(p, "/secret/") {
				return "the file " + p
			}
		}
	}
	return ""
}

func newLenient(t testing.TB) *lenient {
	u := &lenient{}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

// ServeHTTP implements http.Handler.
func (u *lenient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	read := readings(raw)
	if name, ok := strings.CutPrefix(r.Header.Get("Mcp-Name"), ""); ok && name != "" && !strings.HasPrefix(name, "=?") {
		for _, e := range read {
			e.reading, e.method, e.name, e.uri = "headers", r.Header.Get("Mcp-Method"), name, name
			read = append(read, e)
			break
		}
	}
	u.mu.Lock()
	u.executed = append(u.executed, read...)
	u.mu.Unlock()
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(raw, &m) // what it cannot read it takes for a notification
	w.Header().Set("Content-Type", "application/json")
	result := map[string]string{
		"server/discover":          `"supportedVersions":["` + modernVersion + `"],"capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{}},"ttlMs":600000,"cacheScope":"public"`,
		"tools/list":               `"tools":[{"name":"ok"},{"name":"forbidden"},{"name":"` + long + `"}],"ttlMs":600000,"cacheScope":"public"`,
		"prompts/list":             `"prompts":[{"name":"greet"}],"ttlMs":600000,"cacheScope":"public"`,
		"resources/list":           `"resources":[{"uri":"file:///public/a","name":"a"},{"uri":"file:///secret/b","name":"b"}],"ttlMs":600000,"cacheScope":"public"`,
		"resources/templates/list": `"resourceTemplates":[{"uriTemplate":"file:///{+path}","name":"t"}],"ttlMs":600000,"cacheScope":"public"`,
		"tools/call":               `"content":[]`, "prompts/get": `"messages":[]`, "resources/read": `"contents":[]`, "completion/complete": `"completion":{"values":[]}`,
	}[m.Method]
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case result == "":
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
	default:
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}`, m.ID, result)
	}
}

// take returns what was executed since the last time.
func (u *lenient) take() []execution {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.executed
	u.executed = nil
	return out
}

// readings are what servers read in a body: one call, or all of a batch.
func readings(raw []byte) (out []execution) {
	raw = bytes.TrimLeft(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), " \t\r\n\x00")
	if bytes.HasPrefix(raw, []byte("[")) {
		var all []json.RawMessage
		_ = json.NewDecoder(bytes.NewReader(raw)).Decode(&all) // what came before the fault counts
		for _, one := range all {
			out = append(out, readings(one)...)
		}
		return out
	}
	// Go's encoding/json into a struct: names are folded, the last one wins.
	var folded struct {
		Method string
		Params struct {
			Name, URI string
			Arguments json.RawMessage
		}
	}
	// A decoder leaves what follows alone; a member of another type is passed over.
	_ = json.NewDecoder(bytes.NewReader(raw)).Decode(&folded)
	e := execution{reading: "encoding/json", method: folded.Method, name: folded.Params.Name, uri: folded.Params.URI}
	e.env, e.said = foldedEnv(folded.Params.Arguments)
	out = append(out, e)
	for reading, get := range map[string]func(obj []byte, name string) []byte{"the last member": lastMember, "the first member": firstMember} {
		params := get(raw, "params")
		args := get(params, "arguments")
		if s := str(args); strings.HasPrefix(s, "{") {
			args = []byte(s) // some take arguments in a string
		}
		e := execution{reading: reading, method: str(get(raw, "method")), name: str(get(params, "name")), uri: str(get(params, "uri"))}
		if v := get(args, "env"); v != nil {
			e.said = json.Unmarshal(v, &e.env) == nil
		}
		out = append(out, e)
	}
	return out
}

// foldedEnv is env as a struct reads it.
func foldedEnv(args json.RawMessage) (env any, said bool) {
	if s := str(args); strings.HasPrefix(s, "{") {
		args = json.RawMessage(s)
	}
	var in struct{ Env *any }
	_ = json.Unmarshal(args, &in)
	if in.Env == nil {
		// A struct cannot tell null from nothing, and neither is prod.
		var exact map[string]json.RawMessage
		_ = json.Unmarshal(args, &exact)
		for name := range exact {
			said = said || strings.EqualFold(name, "env")
		}
		return nil, said
	}
	return *in.Env, true
}

func str(raw []byte) (s string) {
	_ = json.Unmarshal(raw, &s) // anything else is no string
	return s
}

func lastMember(obj []byte, name string) []byte {
	var m map[string]json.RawMessage
	_ = json.NewDecoder(bytes.NewReader(obj)).Decode(&m)
	return m[name]
}

func firstMember(obj []byte, name string) []byte {
	d := jsontext.NewDecoder(bytes.NewReader(obj), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil
		}
		is := token.String() == name
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		if is {
			return bytes.Clone(value)
		}
	}
	return nil
}

// opened are the paths that servers open for a file URI: with its escapes decoded
// up to three times, before or after its dots are resolved, whatever its host is,
// and with what browsers' parsers leave out left out.
func opened(uri string) (out []string) {
	uri = strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, strings.TrimFunc(uri, func(r rune) bool { return r <= ' ' }))
	scheme, rest, found := strings.Cut(uri, ":")
	if !found || !strings.EqualFold(scheme, "file") {
		return nil
	}
	rest = strings.ReplaceAll(rest, `\`, "/")
	starts := []string{rest}
	if at := strings.IndexAny(rest, "?#"); at >= 0 {
		starts = append(starts, rest[:at])
	}
	seen := map[string]bool{}
	var walk func(p string, depth int)
	walk = func(p string, depth int) {
		if seen[p] || depth == 0 {
			return
		}
		seen[p] = true
		out = append(out, path.Clean("/"+p))
		if plain, err := url.PathUnescape(p); err == nil {
			walk(strings.ReplaceAll(plain, `\`, "/"), depth-1)
		}
		walk(path.Clean("/"+p), depth-1)
	}
	for _, s := range starts {
		if host, is := strings.CutPrefix(s, "//"); is {
			if at := strings.IndexByte(host, '/'); at >= 0 {
				s = host[at:]
			}
		}
		walk(s, 4)
	}
	return out
}
