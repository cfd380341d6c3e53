package demo

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// modern serves an offer under 2026-07-28: no sessions, every request complete
// in itself.
type modern struct{ offer *offer }

// cacheable are the methods whose results carry caching hints (checklist 42).
var cacheable = map[string]bool{
	mcp.Discover: true, mcp.ToolsList: true, mcp.PromptsList: true,
	mcp.ResourcesList: true, mcp.ResourcesTemplates: true, mcp.ResourcesRead: true,
}

// ServeHTTP answers one POST in the order of checklist T1.
func (m *modern) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "this server has no sessions and no streams to get", http.StatusMethodNotAllowed)
		return
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	msg, failure := parseMessage(body)
	if failure != nil {
		write(w, r, http.StatusBadRequest, response(nil, nil, failure), false)
		return
	}
	if msg.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result, failure := m.serve(r, msg)
	if failure != nil {
		status := http.StatusOK
		if e, known := fault.Lookup(failure.Code); known {
			status = e.HTTP
		}
		if errors.Is(failure, errIncompleteMeta) {
			status = http.StatusBadRequest
		}
		write(w, r, status, response(msg.ID, nil, failure), false)
		return
	}
	write(w, r, http.StatusOK, response(msg.ID, result, nil), false)
}

func (m *modern) serve(r *http.Request, msg *message) ([]byte, *fault.Error) {
	if msg.Method == "" {
		return nil, fault.New(fault.InvalidRequest, "a client posts requests and notifications only")
	}
	if failure := checkMeta(r, msg); failure != nil {
		return nil, failure
	}
	known := mcp.LookupMethod([]byte(msg.Method))
	if known == nil || !known.Modern {
		return nil, fault.New(fault.MethodNotFound, "unknown method %q", msg.Method)
	}
	if failure := checkNames(r, msg, known); failure != nil {
		return nil, failure
	}
	if msg.Method == mcp.Discover {
		return m.complete(msg.Method, m.discover()), nil
	}
	result, failure := m.offer.answer(nil, msg.Method, msg.Params)
	if failure != nil {
		if failure.Code == fault.ResourceNotFound { // a legacy code (checklist 47)
			return nil, fault.New(fault.InvalidParams, "%s", failure.Message).WithData(failure.Data)
		}
		return nil, failure
	}
	return m.complete(msg.Method, result), nil
}

// errIncompleteMeta marks the one -32602 that is a 400 (checklist 16).
var errIncompleteMeta = errors.New("incomplete _meta")

// checkMeta holds the version and capabilities that every request carries
// against each other (checklist 16 to 19).
func checkMeta(r *http.Request, msg *message) *fault.Error {
	var p struct {
		Meta struct {
			Version      string         `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
	if failure := decodeParams(msg.Params, &p); failure != nil {
		return failure
	}
	header := r.Header.Values(mcp.HeaderProtocolVersion)
	if msg.Method == mcp.Initialize && p.Meta.Version == "" {
		return unsupported("")
	}
	if p.Meta.Version == "" || p.Meta.Capabilities.Kind() != '{' {
		return fault.Wrap(errIncompleteMeta, fault.InvalidParams, "_meta must hold %s and %s", mcp.MetaProtocolVersion, mcp.MetaClientCapabilities)
	}
	if len(header) != 1 || header[0] != p.Meta.Version {
		return fault.New(fault.HeaderMismatch, "the header MCP-Protocol-Version must be the version in _meta")
	}
	if p.Meta.Version != mcp.LatestModern.String() {
		return unsupported(p.Meta.Version)
	}
	return nil
}

func unsupported(requested string) *fault.Error {
	data, failure := marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{[]string{mcp.LatestModern.String()}, requested})
	if failure != nil {
		return failure
	}
	return fault.New(fault.UnsupportedVersion, "this server speaks %s only", mcp.LatestModern).WithData(data)
}

// checkNames holds Mcp-Method and Mcp-Name against the body (checklist 21, 22).
func checkNames(r *http.Request, msg *message, known *mcp.Method) *fault.Error {
	if v := r.Header.Values(mcp.HeaderMethod); len(v) != 1 || v[0] != msg.Method {
		return fault.New(fault.HeaderMismatch, "the header Mcp-Method must be %q", msg.Method)
	}
	var p struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	want := ""
	switch known.Header {
	case mcp.FromName, mcp.FromURI:
		if failure := decodeParams(msg.Params, &p); failure != nil {
			return failure
		}
		if want = p.Name; known.Header == mcp.FromURI {
			want = p.URI
		}
	default:
		return nil
	}
	v := r.Header.Values(mcp.HeaderName)
	if len(v) != 1 {
		return fault.New(fault.HeaderMismatch, "one Mcp-Name header must name what %s is about", msg.Method)
	}
	if got, err := mcp.DecodeHeader(v[0]); err != nil || got != want {
		return fault.New(fault.HeaderMismatch, "the header Mcp-Name differs from the body")
	}
	return nil
}

func (m *modern) discover() []byte {
	out := fmt.Appendf(nil, `{"supportedVersions":["%s"],"capabilities":%s,"instructions":`, mcp.LatestModern, capabilities)
	quoted, failure := marshal(m.offer.instructions)
	if failure != nil {
		quoted = []byte(`""`)
	}
	return append(append(out, quoted...), '}')
}

// complete puts in front of a result what every modern result has (checklist 31,
// 32, 42). Everything offered is the same for all, so lists are public.
func (m *modern) complete(method string, result []byte) []byte {
	out := []byte(`{"resultType":"complete",`)
	switch {
	case method == mcp.ResourcesRead:
		out = append(out, `"ttlMs":0,"cacheScope":"public",`...) // what is lent changes
	case cacheable[method]:
		out = append(out, `"ttlMs":60000,"cacheScope":"public",`...)
	}
	out = fmt.Appendf(out, `"_meta":{"%s":%s}`, mcp.MetaServerInfo, m.offer.info)
	if len(result) > len(`{}`) {
		out = append(out, ',')
	}
	return append(out, result[1:]...)
}
