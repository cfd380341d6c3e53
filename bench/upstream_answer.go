package main

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// request is what the upstream reads of a request. Duplicate names are refused.
type request struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Params  struct {
		Name            string `json:"name"`
		TaskID          string `json:"taskId"`
		ProtocolVersion string `json:"protocolVersion"`
		Arguments       struct {
			Size int `json:"size"`
		} `json:"arguments"`
		Meta struct {
			ProtocolVersion string         `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities    jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
			ProgressToken   jsontext.Value `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

const (
	sessionPrefix = "bench-session-"
	payloadLimit  = 32 << 20
)

// answer sends the answer to one POST.
func (u *upstream) answer(conn net.Conn, out *outgoing, at place, h *head, body []byte) error {
	var m request
	if err := json.Unmarshal(body, &m); err != nil || m.Version != "2.0" || m.Method == "" {
		return out.status(conn, "400 Bad Request")
	}
	if len(m.ID) == 0 {
		return out.status(conn, "202 Accepted")
	}
	if status, code, message := u.refuse(at, h, &m); status != "" {
		out.begin(m.ID, "error")
		out.body = fmt.Appendf(out.body, `{"code":%d,"message":%q}}`, code, message)
		return out.send(conn, status, "", nil)
	}
	session := ""
	out.begin(m.ID, "result")
	if at.form == tasks && u.task(out, at, &m) {
		return out.send(conn, "200 OK", "", nil)
	}
	if at.era == modern {
		out.add(`{"resultType":"complete",`)
	} else {
		out.add(`{`)
	}
	switch m.Method {
	case "initialize":
		session = sessionPrefix + strconv.FormatInt(u.sessions.Add(1), 10)
		out.add(`"protocolVersion":"`, legacy.revision(), `","capabilities":{"tools":{}},"serverInfo":{"name":"bench-upstream","version":"1"}}}`)
	case "server/discover":
		extensions := ""
		if at.form == tasks {
			extensions = `,"extensions":{"` + extension + `":{}}`
		}
		out.add(`"supportedVersions":["`, modern.revision(), `"],"capabilities":{"tools":{}`, extensions, `},"ttlMs":3600000,"cacheScope":"public",`,
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench-upstream","version":"1"}}}}`)
	case "tools/list":
		if at.era == modern {
			out.add(`"ttlMs":3600000,"cacheScope":"public",`)
		}
		out.body = append(out.body, u.list(at)...)
		out.add(`}}`)
	case "tools/call":
		p := payloadOf(at.form, m.Params.Arguments.Size)
		out.add(`"content":[{"type":"text","text":"`)
		if at.form == events {
			out.body = append(out.body, p.raw...)
			out.add(`"}]}}`)
			return out.stream(conn, m.Params.Meta.ProgressToken)
		}
		return out.send(conn, "200 OK", "", p.raw, `"}]}}`)
	default: // ping, which is legacy
		out.add(`}}`)
	}
	return out.send(conn, "200 OK", session, nil)
}

// refuse says why a strict server of that era would not serve m, as HTTP
// status, code and message; an empty status means that it would.
func (u *upstream) refuse(at place, h *head, m *request) (status string, code int, message string) {
	const bad = "400 Bad Request"
	version := string(h.get(headerVersion))
	if at.era == legacy {
		switch {
		case m.Method == "initialize":
		case version == modern.revision():
			return bad, -32000, "a session is required"
		case !u.knows(h.get(headerSession)):
			return "404 Not Found", -32001, "no such session"
		case m.Method == "server/discover":
			return "200 OK", -32601, "method not found"
		}
	} else {
		switch {
		case version != modern.revision() || m.Params.Meta.ProtocolVersion != version:
			return bad, -32022, "only " + modern.revision() + " is spoken here"
		case m.Params.Meta.Capabilities.Kind() != '{':
			return bad, -32602, "clientCapabilities are missing"
		case string(h.get(headerMethod)) != m.Method || string(h.get(headerName)) != m.Params.Name+m.Params.TaskID:
			return bad, -32020, "headers and body differ"
		case m.Method == "initialize" || m.Method == "ping":
			return "404 Not Found", -32601, "method not found"
		}
	}
	switch m.Method {
	case "initialize", "ping", "server/discover", "tools/list":
		return "", 0, ""
	case "tasks/get":
		switch {
		case at.form != tasks:
		case !declares(m):
			return bad, -32021, "the extension for tasks is not declared"
		case !u.has(at, m.Params.TaskID):
			return "200 OK", -32602, "no such task"
		default:
			return "", 0, ""
		}
	case "tools/call":
		size := m.Params.Arguments.Size
		if !offers(at, m.Params.Name) || size < 0 || size > payloadLimit {
			return "200 OK", -32602, "no such tool, or not that size"
		}
		return "", 0, ""
	}
	if at.era == modern {
		return "404 Not Found", -32601, "method not found"
	}
	return "200 OK", -32601, "method not found"
}

// knows reports whether the session is one that was begun here.
func (u *upstream) knows(session []byte) bool {
	digits, found := bytes.CutPrefix(session, []byte(sessionPrefix))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	return found && err == nil && n > 0 && n <= u.sessions.Load()
}

const toolPrefix = "gauge_"

// toolName is the name of an upstream's i-th tool. All of them do the same.
func toolName(i int) string { return toolPrefix + strconv.Itoa(i) }

func offers(at place, name string) bool {
	digits, found := strings.CutPrefix(name, toolPrefix)
	n, err := strconv.Atoi(digits)
	return found && err == nil && n >= 0 && n < at.tools && toolName(n) == name
}

// list returns the member `tools` of a tools/list result, with descriptions and
// schemas of a usual size: about 700 bytes a tool.
func (u *upstream) list(at place) []byte {
	if made, ok := u.lists.Load(at.tools); ok {
		return made.([]byte)
	}
	b := []byte(`"tools":[`)
	for i := range at.tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"name":%q,"title":"Gauge %d","description":"Reads gauge %d of the works: looks up the readings of the given period, `+
			`keeps those that match the filter and returns them as text, oldest first. Use it when somebody asks how high the water stood, `+
			`or whether a gate was open.","inputSchema":{"type":"object","properties":{"size":{"type":"integer","minimum":0,"description":"how many bytes to return"},`+
			`"from":{"type":"string","description":"begin of the period, as a date"},"to":{"type":"string","description":"end of the period, as a date"},`+
			`"filter":{"type":"string","description":"an expression that readings must meet"}},"required":["size"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
			toolName(i), i, i)
	}
	b = append(b, ']')
	kept, _ := u.lists.LoadOrStore(at.tools, b)
	return kept.([]byte)
}
