package demo

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// legacy serves an offer under the revisions with sessions.
type legacy struct {
	offer    *offer
	sessions sessions
}

// ServeHTTP answers POST and DELETE; there is nothing to push, so GET is a 405
// (checklist 82).
func (l *legacy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		l.post(w, r)
	case http.MethodDelete:
		if s, ok := l.session(w, r); ok {
			l.sessions.end(s.id)
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		w.Header().Set("Allow", "POST, DELETE")
		http.Error(w, "this server sends nothing unasked", http.StatusMethodNotAllowed)
	}
}

func (l *legacy) post(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	if jsontext.Value(body).Kind() == '[' {
		l.batch(w, r, body)
		return
	}
	msg, failure := parseMessage(body)
	if failure != nil {
		write(w, r, http.StatusBadRequest, response(nil, nil, failure), false)
		return
	}
	if msg.Method == mcp.Initialize && msg.ID != nil {
		l.initialize(w, r, msg)
		return
	}
	s, ok := l.session(w, r)
	if !ok {
		return
	}
	if msg.ID == nil || msg.Method == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	write(w, r, http.StatusOK, l.serve(s, msg), true)
}

// batch answers an array of messages, which 2025-03-26 alone knows (checklist 90).
func (l *legacy) batch(w http.ResponseWriter, r *http.Request, body []byte) {
	s, ok := l.session(w, r)
	if !ok {
		return
	}
	var raws []jsontext.Value
	if err := json.Unmarshal(body, &raws); err != nil {
		write(w, r, http.StatusBadRequest, response(nil, nil, fault.Wrap(err, fault.Parse, "the body is not valid JSON")), false)
		return
	}
	if s.rev != mcp.V20250326 || len(raws) == 0 {
		write(w, r, http.StatusBadRequest, response(nil, nil, fault.New(fault.InvalidRequest, "send one message per request")), false)
		return
	}
	out := []byte{'['}
	for _, raw := range raws {
		msg, failure := parseMessage(raw)
		var one []byte
		switch {
		case failure != nil:
			one = response(nil, nil, failure)
		case msg.ID == nil || msg.Method == "":
			continue
		case msg.Method == mcp.Initialize:
			one = response(msg.ID, nil, fault.New(fault.InvalidRequest, "initialize is never part of a batch"))
		default:
			one = l.serve(s, msg)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, one...)
	}
	if len(out) == 1 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	write(w, r, http.StatusOK, append(out, ']'), true)
}

// initialize opens a session with the revision the client asks for, or the
// latest with sessions (checklist 84).
func (l *legacy) initialize(w http.ResponseWriter, r *http.Request, msg *message) {
	result, s, failure := l.open(msg)
	if failure != nil {
		write(w, r, http.StatusOK, response(msg.ID, nil, failure), true)
		return
	}
	w.Header().Set(mcp.HeaderSession, s.id)
	write(w, r, http.StatusOK, response(msg.ID, result, nil), true)
}

// open makes the session that an initialize asks for, and its result.
func (l *legacy) open(msg *message) ([]byte, *session, *fault.Error) {
	var p struct {
		Version string `json:"protocolVersion"`
	}
	if failure := decodeParams(msg.Params, &p); failure != nil || p.Version == "" {
		return nil, nil, fault.New(fault.InvalidParams, "initialize needs a protocolVersion")
	}
	rev, ok := mcp.ParseRevision(p.Version)
	if !ok || rev.Era() != mcp.Legacy {
		rev = mcp.LatestLegacy
	}
	quoted, failure := marshal(l.offer.instructions)
	if failure != nil {
		return nil, nil, failure
	}
	result := fmt.Appendf(nil, `{"protocolVersion":"%s","capabilities":%s,"serverInfo":`, rev, capabilities)
	result = mcp.ProjectImplementation(rev, result, []byte(l.offer.info))
	result = append(append(append(result, `,"instructions":`...), quoted...), '}')
	return result, l.sessions.open(rev), nil
}

// session finds the session of a request and checks its version header. When it
// reports false it has answered (checklist 88, 89).
func (l *legacy) session(w http.ResponseWriter, r *http.Request) (*session, bool) {
	id := r.Header.Get(mcp.HeaderSession)
	if id == "" {
		write(w, r, http.StatusBadRequest, response(nil, nil, fault.New(fault.InvalidRequest, "no Mcp-Session-Id").WithHint("send initialize first")), false)
		return nil, false
	}
	s := l.sessions.get(id)
	if s == nil {
		write(w, r, http.StatusNotFound, response(nil, nil, fault.New(fault.SessionNotFound, "no such session").WithHint("send initialize again")), false)
		return nil, false
	}
	if v := r.Header.Get(mcp.HeaderProtocolVersion); v != "" {
		if rev, ok := mcp.ParseRevision(v); !ok || rev != s.rev {
			write(w, r, http.StatusBadRequest, response(nil, nil, fault.New(fault.InvalidRequest, "this session speaks %s", s.rev)), false)
			return nil, false
		}
	}
	return s, true
}

// serve answers one request of a session, in the shape of its revision.
func (l *legacy) serve(s *session, msg *message) []byte {
	if msg.Method == mcp.Ping {
		return response(msg.ID, []byte(`{}`), nil)
	}
	result, failure := l.offer.answer(s, msg.Method, msg.Params)
	if failure == nil {
		result, failure = shape(s.rev, msg.Method, result)
	}
	return response(msg.ID, result, failure)
}

// shape is the result of a method as a revision knows it (checklist 6.5).
func shape(rev mcp.Revision, method string, result []byte) ([]byte, *fault.Error) {
	if m := mcp.LookupMethod([]byte(method)); m != nil && m.List {
		var list map[string][]jsontext.Value
		if err := json.Unmarshal(result, &list); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "the list could not be read")
		}
		for _, items := range list {
			for i, item := range items {
				items[i] = mcp.ProjectItem(m.Kind, rev, nil, item)
			}
		}
		return marshal(list)
	}
	out, err := mcp.ProjectResult(method, rev, nil, result)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "the result could not be shaped for %s", rev)
	}
	return out, nil
}
