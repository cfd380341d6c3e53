package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// level is an object of a message whose members we decide on.
type level uint8

const (
	noLevel level = iota
	envelopeLevel
	paramsLevel
	metaLevel
	refLevel
	errorLevel
)

// decided lists, by level, the names that no other name may equal but for case:
// some servers read such names alike (DESIGN section 3).
var decided = [...][]string{
	envelopeLevel: {"jsonrpc", "id", "method", "params", "result", "error"},
	paramsLevel: {
		"name", "uri", "cursor", "taskId", "task", "arguments", "_meta", "requestState", "inputResponses", "level",
		"protocolVersion", "capabilities", "clientInfo", "requestId", "reason", "ref", "progressToken",
	},
	metaLevel: {
		"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities",
		"io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/logLevel",
		"io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/subscriptionId", "progressToken", "traceparent",
	},
	refLevel:   {"type", "name", "uri"},
	errorLevel: {"code", "message"},
}

var levelNames = [...]string{envelopeLevel: "the message", paramsLevel: "params", metaLevel: "params._meta", refLevel: "params.ref", errorLevel: "error"}

// methodNames spares the common methods an allocation.
var methodNames = func() map[string]string {
	m := map[string]string{}
	for _, s := range []string{
		"initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get",
		"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"completion/complete", "logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
		"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed",
	} {
		m[s] = s
	}
	return m
}()

// parser is the state of one Parse. It is pooled, as a decoder's own state is
// a dozen allocations.
type parser struct {
	in      bytes.Buffer
	dec     jsontext.Decoder
	m       *Message
	refused *fault.Error // the first fault that is JSON-RPC's, not JSON's
	scratch []byte       // a name with escapes, decoded

	version, code, text Span // jsonrpc, error.code, error.message
}

var parsers = sync.Pool{New: func() any { return new(parser) }}

var nothing = bytes.NewReader(nil) // what an idle decoder reads, so that it pins no message

// Parse reads one JSON-RPC message strictly, in one pass (DESIGN section 3;
// checklist 13, 14). It refuses duplicate names at any depth, invalid UTF-8,
// data behind the message, and at the decided levels (the envelope, params,
// params._meta, params.ref, error) a name that equals a decided one but for its case.
//
// The id is a string or an integer of any size, written without fraction or
// exponent; params, when there, an object; a response has one of result and
// error, and an error an integer code and a string message.
//
// The error is a *fault.Error: fault.Parse when raw is not such JSON,
// fault.InvalidRequest when it is not such JSON-RPC, fault.InvalidParams when
// params._meta is neither an object nor null. m is overwritten and aliases raw;
// on an error only Raw and ID mean something, and ID is filled when there was one to read.
func Parse(raw []byte, m *Message) error {
	*m = Message{Raw: raw}
	p := parsers.Get().(*parser)
	p.in = *bytes.NewBuffer(raw)
	p.dec.Reset(&p.in)
	p.m = m
	err := p.message()
	p.dec.Reset(nothing)
	p.in, p.m, p.refused = bytes.Buffer{}, nil, nil
	p.version, p.code, p.text = Span{}, Span{}, Span{}
	if cap(p.scratch) > maxScratch {
		p.scratch = nil
	}
	parsers.Put(p)
	if err == nil {
		return nil
	}
	*m = Message{Raw: raw, ID: looseID(raw)}
	return err
}

func (p *parser) message() error {
	if p.dec.PeekKind() != '{' {
		v, err := p.dec.ReadValue()
		if err != nil {
			return p.syntax(err)
		}
		return fault.New(fault.InvalidRequest, "a JSON-RPC message is an object, not %s", kindName(v))
	}
	if _, err := p.object(envelopeLevel); err != nil {
		return p.syntax(err)
	}
	switch _, err := p.dec.ReadToken(); {
	case err == nil:
		return fault.New(fault.Parse, "there is data behind the message at byte %d", p.dec.InputOffset())
	case !errors.Is(err, io.EOF):
		return p.syntax(err)
	}
	if p.refused != nil {
		return p.refused
	}
	return p.check()
}

// object reads an object whose members are decided on at lv.
func (p *parser) object(lv level) (Span, error) {
	if _, err := p.dec.ReadToken(); err != nil {
		return Span{}, err
	}
	start := int(p.dec.InputOffset()) - 1
	for p.dec.PeekKind() != '}' {
		name, err := p.dec.ReadValue()
		if err != nil {
			return Span{}, err
		}
		field, below := p.field(lv, name)
		kind := p.dec.PeekKind()
		var at Span
		if below != noLevel && kind == '{' {
			at, err = p.object(below)
		} else {
			at, err = p.value()
		}
		if err != nil {
			return Span{}, err
		}
		if field != nil {
			*field = at
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return Span{}, err
	}
	return Span{start, int(p.dec.InputOffset())}, nil
}

func (p *parser) value() (Span, error) {
	v, err := p.dec.ReadValue()
	end := int(p.dec.InputOffset())
	return Span{end - len(v), end}, err
}

// field says where the span of a member goes and whether its value is a level
// of its own. It notes a name that equals a decided one but for case.
func (p *parser) field(lv level, quoted []byte) (field *Span, below level) {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		p.scratch, _ = jsontext.AppendUnquote(p.scratch[:0], quoted) // the decoder has found it valid
		name = p.scratch
	}
	m := p.m
	switch lv {
	case envelopeLevel:
		switch string(name) {
		case "jsonrpc":
			return &p.version, noLevel
		case "id":
			return &m.ID, noLevel
		case "method":
			return &m.MethodSpan, noLevel
		case "params":
			return &m.Params, paramsLevel
		case "result":
			return &m.Result, noLevel
		case "error":
			return &m.Error, errorLevel
		}
	case paramsLevel:
		field = m.param(name)
		switch field {
		case &m.Meta:
			below = metaLevel
		case &m.Ref:
			below = refLevel
		}
	case metaLevel:
		field = m.meta(name)
	case refLevel:
		field = m.ref(name)
	case errorLevel:
		switch string(name) {
		case "code":
			return &p.code, noLevel
		case "message":
			return &p.text, noLevel
		}
	}
	if field == nil && p.refused == nil {
		if twin := foldTwin(lv, name); twin != "" {
			p.refused = fault.New(fault.InvalidRequest, "a member of %s at byte %d equals %q but for its case",
				levelNames[lv], int(p.dec.InputOffset())-len(quoted), twin)
		}
	}
	return field, below
}

// foldTwin returns the decided name that name equals under case folding, or "".
func foldTwin(lv level, name []byte) string {
	ascii := true
	for _, c := range name {
		ascii = ascii && c < 0x80
	}
	for _, d := range decided[lv] {
		// Folding keeps the length of ASCII; beyond it, U+017F and U+212A fold to letters.
		if (!ascii || len(d) == len(name)) && strings.EqualFold(d, string(name)) {
			return d
		}
	}
	return ""
}

// check holds the message against JSON-RPC and tells its kind.
func (p *parser) check() error {
	m := p.m
	if v := p.version.Of(m.Raw); !equalString(v, "2.0") {
		return fault.New(fault.InvalidRequest, "jsonrpc must be \"2.0\"")
	}
	if m.ID.Ok() && !validID(m.ID.Of(m.Raw)) {
		return fault.New(fault.InvalidRequest, "id at byte %d must be a string or an integer", m.ID.Start)
	}
	if m.Params.Ok() && m.Raw[m.Params.Start] != '{' {
		return fault.New(fault.InvalidRequest, "params at byte %d must be an object, not %s", m.Params.Start, kindName(m.Params.Of(m.Raw)))
	}
	if m.Meta.Ok() && m.Raw[m.Meta.Start] != '{' && m.Raw[m.Meta.Start] != 'n' {
		return fault.New(fault.InvalidParams, "params._meta at byte %d must be an object", m.Meta.Start)
	}
	if m.MethodSpan.Ok() {
		return p.checkCall()
	}
	return p.checkResponse()
}

func (p *parser) checkCall() error {
	m := p.m
	if m.Raw[m.MethodSpan.Start] != '"' {
		return fault.New(fault.InvalidRequest, "method at byte %d must be a string", m.MethodSpan.Start)
	}
	if m.Result.Ok() || m.Error.Ok() {
		return fault.New(fault.InvalidRequest, "a message with a method has neither result nor error")
	}
	quoted := m.MethodSpan.Of(m.Raw)
	if known, ok := methodNames[string(quoted[1:len(quoted)-1])]; ok {
		m.Method = known
	} else {
		s, err := String(quoted)
		if err != nil {
			return fault.Wrap(err, fault.InvalidRequest, "method at byte %d is not a valid string", m.MethodSpan.Start)
		}
		m.Method = s
	}
	m.Kind = Notification
	if m.ID.Ok() {
		m.Kind = Request
	}
	return nil
}

func (p *parser) checkResponse() error {
	m := p.m
	switch {
	case m.Result.Ok() == m.Error.Ok():
		return fault.New(fault.InvalidRequest, "a message has a method, or exactly one of result and error")
	case !m.ID.Ok():
		return fault.New(fault.InvalidRequest, "a response has an id")
	case m.Params.Ok():
		return fault.New(fault.InvalidRequest, "a response has no params")
	case m.Error.Ok():
		if m.Raw[m.Error.Start] != '{' {
			return fault.New(fault.InvalidRequest, "error at byte %d must be an object", m.Error.Start)
		}
		if !isInteger(p.code.Of(m.Raw)) {
			return fault.New(fault.InvalidRequest, "error.code must be an integer")
		}
		if !p.text.Ok() || m.Raw[p.text.Start] != '"' {
			return fault.New(fault.InvalidRequest, "error.message must be a string")
		}
	}
	m.Kind = Response
	return nil
}

// syntax turns an error of the decoder into a fault that says what and where.
func (p *parser) syntax(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case errors.As(err, &s) && errors.Is(s.Err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fault.Wrap(err, fault.Parse, "the JSON ends early, at byte %d", len(p.m.Raw))
	case s != nil:
		return fault.Wrap(err, fault.Parse, "invalid JSON at byte %d: %v", s.ByteOffset, s.Err)
	}
	return fault.Wrap(err, fault.Parse, "invalid JSON")
}

// validID reports whether raw is an id of JSON-RPC as the protocol narrows it
// (checklist 13): a string, or an integer of any size.
func validID(raw []byte) bool {
	return len(raw) > 1 && raw[0] == '"' || isInteger(raw)
}

// isInteger reports whether raw is a JSON number without fraction and exponent.
func isInteger(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	if len(raw) == 0 || raw[0] == '0' && len(raw) > 1 {
		return false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// equalString reports whether raw is a JSON string that means s.
func equalString(raw []byte, s string) bool {
	if len(raw) == len(s)+2 && raw[0] == '"' && string(raw[1:len(raw)-1]) == s {
		return s != `\` // every other s that stands for itself needs no escape here
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return false
	}
	got, err := String(raw)
	return err == nil && got == s
}

func kindName(raw []byte) string {
	switch jsontext.Value(raw).Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	}
	return "an object"
}
