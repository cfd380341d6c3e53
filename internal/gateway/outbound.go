package gateway

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// outbound is one request on its way to an upstream: the client's own bytes,
// with the few changes that DESIGN section 3 names.
type outbound struct {
	g    *Gateway
	x    *north.Exchange
	v    *server
	t    *catalog.Target
	link *south.Link
	name wire.Span // of the identifier in the client's message
	next *round    // what a legacy client's call is sent again with; or nil

	elicited map[string]bool // ids of questions at a URL that the client got in this call
	talk     dialogue        // of a legacy client with a modern upstream

	origin  *catalog.Target // of the answer, where it is not what the request names; or nil
	longest time.Duration   // how long the upstream may be silent; 0: as long as in any call

	id     []byte // raw JSON-RPC id of ours, in idBuf
	idBuf  [32]byte
	token  bool // our id is the progress token, too
	tasks  bool // the upstream may make a task of the call
	driven bool // it is the gateway's to drive
	// withheld says that it may not, although the client can have one, for the store
	// cannot commit.
	withheld bool
	trace    []byte // traceparent of this call; nil: there is none
	body     []byte
	params   []south.Param
	edits    []wire.Edit
	space    [12]wire.Edit // backs edits
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= 128<<10 {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

var outbounds = sync.Pool{New: func() any { return new(outbound) }}

// free ends the use of o: its call has ended, and no event can come any more.
func (o *outbound) free() {
	*o = outbound{}
	outbounds.Put(o)
}

// build writes the southern message to dst.
func (o *outbound) build(dst []byte) error {
	m := &o.x.Msg
	o.id, o.params = o.link.NextID(o.idBuf[:0]), nil
	o.edits = append(o.space[:0], wire.Edit{Span: m.ID, With: o.id})
	if o.t.ID != o.exposedInMessage() {
		o.replace(o.name, wire.AppendString(nil, o.t.ID))
	}
	if m.ProgressToken.Ok() {
		o.token = true
		o.replace(m.ProgressToken, o.id)
	}
	if o.trace != nil && m.Traceparent.Ok() {
		o.replace(m.Traceparent, wire.AppendString(nil, string(o.trace)))
	}
	var err error
	switch {
	case o.x.Era == mcp.Modern && o.link.Era == mcp.Modern:
		err = o.modernToModern()
	case o.x.Era == mcp.Modern:
		err = o.modernToLegacy()
	case o.link.Era == mcp.Modern:
		err = o.legacyToModern()
	default:
		err = o.legacyToLegacy()
	}
	if err != nil {
		return err
	}
	if o.link.Era == mcp.Modern && !o.link.Child() {
		if err := o.mirror(); err != nil {
			return err
		}
	}
	slices.SortStableFunc(o.edits, func(a, b wire.Edit) int { return cmp.Or(a.Start-b.Start, a.End-b.End) })
	o.body = wire.Splice(dst, m.Raw, o.edits...)
	return nil
}

func (o *outbound) replace(s wire.Span, with []byte) {
	o.edits = append(o.edits, wire.Edit{Span: s, With: with})
}

// exposedInMessage is the identifier as the client sent it.
func (o *outbound) exposedInMessage() string {
	s, err := wire.String(o.name.Of(o.x.Msg.Raw))
	if err != nil {
		return ""
	}
	return s
}

func (o *outbound) headerName() string {
	if o.x.Method.Header == mcp.NoName {
		return ""
	}
	return mcp.EncodeHeader(o.t.ID)
}

// modernToModern passes the caller's capabilities on, and the tasks extension only
// where a task could be found again; and opens the state of a question that is
// being answered.
func (o *outbound) modernToModern() error {
	m := &o.x.Msg
	if m.MetaServerInfo.Ok() || m.MetaSubscription.Ok() {
		edits, err := wire.DropMembers(o.edits, m.Raw, m.Meta, func(n []byte) bool {
			return string(n) == mcp.MetaServerInfo || string(n) == mcp.MetaSubscriptionID
		})
		if err != nil {
			return err
		}
		o.edits = edits
	}
	raw := m.MetaCaps.Of(m.Raw)
	if o.driven {
		o.replace(m.MetaCaps, withTasks(o.g.caps.filter(raw)))
	} else if kept := o.g.caps.filter(raw); len(kept) != len(raw) && !o.tasks {
		o.replace(m.MetaCaps, kept)
	}
	if m.RequestState.Ok() {
		sealed, err := wire.String(m.RequestState.Of(m.Raw))
		if err == nil {
			var state string
			if state, err = o.g.sealer.Open(sealed, o.binding()); err == nil {
				o.replace(m.RequestState, wire.AppendString(nil, state))
			}
		}
		if err != nil {
			return fault.Wrap(err, fault.InvalidParams, "params.requestState is not valid for this request").WithHint("call again without it")
		}
	}
	if r := m.InputResponses.Of(m.Raw); r != nil && !validResponses(r) {
		return fault.New(fault.InvalidParams, "params.inputResponses is not an object of objects")
	}
	return nil
}

func (o *outbound) binding() relay.Binding {
	return relay.Binding{
		Principal: o.x.Principal.Key, Server: o.v.name, Method: o.x.Method.Name,
		Name: o.exposedInMessage(), Upstream: o.t.Upstream,
	}
}

func validResponses(raw []byte) bool {
	if raw[0] != '{' {
		return false
	}
	ok := true
	err := wire.Members(raw, func(_, v []byte) bool {
		ok = ok && len(v) > 0 && v[0] == '{'
		return ok
	})
	return ok && err == nil
}

// modernToLegacy takes out what a legacy upstream does not know.
func (o *outbound) modernToLegacy() error {
	m := &o.x.Msg
	var err error
	if m.RequestState.Ok() || m.InputResponses.Ok() || m.Task.Ok() {
		o.edits, err = wire.DropMembers(o.edits, m.Raw, m.Params, func(n []byte) bool {
			return string(n) == "requestState" || string(n) == "inputResponses" || string(n) == "task"
		})
	}
	if err == nil {
		o.edits, err = wire.DropMembers(o.edits, m.Raw, m.Meta, reserved)
	}
	if err == nil && o.tasks {
		at := m.Params.End - 1 // behind the last member: a call names something
		o.replace(wire.Span{Start: at, End: at}, append([]byte(`,"task":`), o.g.taskWish()...))
	}
	return err
}

// reserved reports whether a _meta member belongs to one hop (checklist 157).
func reserved(name []byte) bool {
	switch string(name) {
	case mcp.MetaProtocolVersion, mcp.MetaClientCapabilities, mcp.MetaClientInfo, mcp.MetaLogLevel, mcp.MetaServerInfo, mcp.MetaSubscriptionID:
		return true
	}
	return false
}

// legacyToModern declares, per request, what the session declared once.
func (o *outbound) legacyToModern() error {
	m := &o.x.Msg
	add := o.g.declared.of(o.x.Session, o.g.self[mcp.LatestModern], o.x.TakesQuestions(), o.driven)
	if level := o.x.Session.LogLevel; level != "" {
		add = append(add[:len(add):len(add)], `,"`+mcp.MetaLogLevel+`":`...)
		add = wire.AppendString(add, level)
	}
	if err := o.dropOwn(); err != nil {
		return err
	}
	meta := m.Meta.Of(m.Raw)
	if len(meta) == 0 {
		at := m.Params.Start + 1
		with := append(append([]byte(`"_meta":{`), add...), '}')
		if empty(m.Params.Of(m.Raw)) {
			o.replace(wire.Span{Start: at, End: at}, with)
		} else {
			o.replace(wire.Span{Start: at, End: at}, append(with, ','))
		}
		return nil
	}
	if meta[0] != '{' {
		o.replace(m.Meta, append(append([]byte{'{'}, add...), '}'))
		return nil
	}
	// What a legacy client sends under a reserved name is not its to say.
	kept := false
	edits, err := wire.DropMembers(o.edits, m.Raw, m.Meta, func(n []byte) bool {
		drop := reserved(n)
		kept = kept || !drop
		return drop
	})
	if err != nil {
		return err
	}
	at := m.Meta.Start + 1
	if !kept && len(edits) > len(o.edits) {
		o.replace(m.Meta, append(append([]byte{'{'}, add...), '}'))
		return nil
	}
	o.edits = edits
	if !kept {
		o.replace(wire.Span{Start: at, End: at}, add)
		return nil
	}
	o.replace(wire.Span{Start: at, End: at}, append(add[:len(add):len(add)], ','))
	return nil
}

// dropOwn takes out of params what a legacy client's request does not have, and
// puts in what the next round of questions needs.
func (o *outbound) dropOwn() (err error) {
	m := &o.x.Msg
	if m.Task.Ok() || m.RequestState.Ok() || m.InputResponses.Ok() {
		o.edits, err = wire.DropMembers(o.edits, m.Raw, m.Params, func(n []byte) bool {
			return string(n) == "task" || string(n) == "requestState" || string(n) == "inputResponses"
		})
	}
	if err != nil || o.next == nil {
		return err
	}
	var add []byte
	if o.next.responses != nil {
		add = append(append(add, `,"inputResponses":`...), o.next.responses...)
	}
	if o.next.state != nil {
		add = append(append(add, `,"requestState":`...), o.next.state...)
	}
	at := m.Params.End - 1 // behind the last member: a call names something
	o.replace(wire.Span{Start: at, End: at}, add)
	return nil
}

// empty reports whether a raw object has no members.
func empty(obj []byte) bool {
	inner := bytes.TrimLeft(obj[1:], " \t\r\n")
	return len(inner) > 0 && inner[0] == '}'
}

// legacyToLegacy takes out what is not this client's to say.
func (o *outbound) legacyToLegacy() error {
	m := &o.x.Msg
	if m.MetaCaps.Ok() || m.MetaClientInfo.Ok() || m.MetaLogLevel.Ok() || m.MetaServerInfo.Ok() || m.MetaSubscription.Ok() {
		edits, err := wire.DropMembers(o.edits, m.Raw, m.Meta, reserved)
		if err != nil {
			return err
		}
		o.edits = edits
	}
	return o.dropTask()
}

// dropTask takes out params.task, unless the upstream is to make a task of the call:
// who does not makes nothing of the parameter (checklist 102).
func (o *outbound) dropTask() (err error) {
	m := &o.x.Msg
	if m.Task.Ok() && !o.tasks {
		o.edits, err = wire.DropMembers(o.edits, m.Raw, m.Params, func(n []byte) bool { return string(n) == "task" })
	}
	return err
}

// mirror makes the Mcp-Param headers: those of the tool's annotations from the
// southern arguments, and unknown ones as the client sent them (checklist 109, 149).
func (o *outbound) mirror() error {
	args := o.x.Msg.Arguments.Of(o.x.Msg.Raw)
	for i := range o.t.Params {
		p := &o.t.Params[i]
		value, ok, err := mcp.ParamHeader(at(args, p.Path))
		if err != nil {
			return fault.Wrap(err, fault.InvalidParams, "params.arguments.%s cannot go into header %s%s", strings.Join(p.Path, "."), mcp.HeaderParamPrefix, p.Header)
		}
		if ok {
			o.params = append(o.params, south.Param{Name: mcp.HeaderParamPrefix + p.Header, Value: value})
		}
	}
	if o.x.Era != mcp.Modern {
		return nil
	}
	for name, values := range o.x.Header {
		if !strings.HasPrefix(name, mcp.HeaderParamPrefix) || len(values) != 1 || declared(o.t.Params, name) {
			continue
		}
		o.params = append(o.params, south.Param{Name: name, Value: values[0]})
	}
	return nil
}

func declared(params []catalog.HeaderParam, header string) bool {
	for i := range params {
		if strings.EqualFold(header[len(mcp.HeaderParamPrefix):], params[i].Header) {
			return true
		}
	}
	return false
}

// isName compares a member's raw name, as wire.Members gives it, with a name.
// Escapes are decoded, for an upstream would decode them too.
func isName(raw []byte, name string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == name
	}
	s, err := wire.String(append(append([]byte{'"'}, raw...), '"'))
	return err == nil && s == name
}

// at returns the raw value at a path of property names, or nil.
func at(obj []byte, path []string) []byte {
	for _, name := range path {
		if len(obj) == 0 || obj[0] != '{' {
			return nil
		}
		var found []byte
		if err := wire.Members(obj, func(n, v []byte) bool {
			if isName(n, name) {
				found = v
				return false
			}
			return true
		}); err != nil {
			return nil
		}
		obj = found
	}
	return bytes.TrimSpace(obj)
}
