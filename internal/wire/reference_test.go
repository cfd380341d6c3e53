package wire

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// The naive twins of Scan and Rewrite, on jsontext and on messages held whole.

// refMember is a member as jsontext finds it; offsets are those of the message.
type refMember struct {
	name  string
	comma int // before the name; -1: none
	start int // of the name
	value Span
}

// refObject lists the members of the object at, and where its bracket closes.
func refObject(raw []byte, at Span) (members []refMember, closing int) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw[at.Start:at.End]))
	if _, err := d.ReadToken(); err != nil {
		panic(err) // the caller has validated raw
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			panic(err)
		}
		m := refMember{comma: -1, start: at.Start + int(d.InputOffset()) - len(name)}
		decoded, _ := jsontext.AppendUnquote(nil, name)
		m.name = string(decoded)
		if i := bytes.LastIndexAny(raw[:m.start], ",{"); raw[i] == ',' {
			m.comma = i
		}
		v, err := d.ReadValue()
		if err != nil {
			panic(err)
		}
		m.value.End = at.Start + int(d.InputOffset())
		m.value.Start = m.value.End - len(v)
		members = append(members, m)
	}
	return members, at.End - 1
}

func refElements(raw []byte, at Span) (out []Span) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw[at.Start:at.End]))
	if _, err := d.ReadToken(); err != nil {
		panic(err)
	}
	for d.PeekKind() != ']' {
		v, err := d.ReadValue()
		if err != nil {
			panic(err)
		}
		end := at.Start + int(d.InputOffset())
		out = append(out, Span{end - len(v), end})
	}
	return out
}

var errRef = errors.New("the reference refuses the message")

// refEnvelope validates raw as Scan does where jsontext would accept it.
func refEnvelope(raw []byte) (map[string]Span, error) {
	if !jsontext.Value(raw).IsValid() {
		return nil, errRef
	}
	trimmed := bytes.Trim(raw, " \r\n\t")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, errRef
	}
	start := bytes.IndexByte(raw, '{')
	env := map[string]Span{}
	members, _ := refObject(raw, Span{start, start + len(trimmed)})
	for _, m := range members {
		env[m.name] = m.value
	}
	version, err := jsontext.AppendUnquote(nil, env["jsonrpc"].Of(raw))
	if err != nil || string(version) != "2.0" {
		return nil, errRef
	}
	result, failure, method := env["result"], env["error"], env["method"]
	if result.Ok() && raw[result.Start] != '{' || failure.Ok() && raw[failure.Start] != '{' {
		return nil, errRef
	}
	n := 0
	for _, s := range []Span{result, failure, method} {
		if s.Ok() {
			n++
		}
	}
	if n != 1 {
		return nil, errRef
	}
	return env, nil
}

// refSpans is what Scan must find in raw.
func refSpans(raw []byte) (map[string]Span, error) {
	env, err := refEnvelope(raw)
	if err != nil {
		return nil, err
	}
	spans := map[string]Span{}
	for _, name := range []string{"id", "method", "params", "result", "error"} {
		if s, ok := env[name]; ok {
			spans[name] = s
		}
	}
	add := func(at Span, prefix string) {
		if !at.Ok() || raw[at.Start] != '{' {
			return
		}
		members, _ := refObject(raw, at)
		for _, m := range members {
			if slices.Contains(scannedNames, prefix+m.name) {
				spans[prefix+m.name] = m.value
			}
		}
	}
	add(env["result"], "result.")
	add(env["params"], "params.")
	add(env["error"], "error.")
	add(spans["result._meta"], "result._meta.")
	if env["error"].Ok() {
		code := spans["error.code"].Of(raw)
		delete(spans, "error.code")
		if bytes.ContainsAny(code, ".eE") {
			return nil, errRef
		}
		if _, err := strconv.ParseInt(string(code), 10, 64); err != nil {
			return nil, errRef
		}
	}
	return spans, nil
}

var scannedNames = []string{
	"result.resultType", "result._meta", "result.ttlMs", "result.cacheScope", "result.nextCursor", "result.taskId", "result.task",
	"result.requestState", "result.inputRequests", "result.isError", "result.structuredContent", "result.content", "result.contents",
	"result.messages", "result.protocolVersion", "result.supportedVersions", "result.capabilities", "result.serverInfo",
	"result.instructions", "result._meta.io.modelcontextprotocol/serverInfo", "params.progressToken", "params.requestId",
	"params._meta", "error.code", "error.message", "error.data",
}

// foundSpans is what Scan did find.
func foundSpans(a *Answer) map[string]Span {
	spans := map[string]Span{
		"id": a.ID, "method": a.Method, "params": a.Params, "result": a.Result, "error": a.Error,
		"result.resultType": a.ResultType, "result._meta": a.Meta, "result.ttlMs": a.TTL, "result.cacheScope": a.CacheScope,
		"result.nextCursor": a.NextCursor, "result.taskId": a.TaskID, "result.task": a.Task, "result.requestState": a.RequestState,
		"result.inputRequests": a.InputRequests, "result.isError": a.IsError, "result.structuredContent": a.StructuredContent,
		"result.content": a.Content, "result.contents": a.Contents, "result.messages": a.Messages,
		"result.protocolVersion": a.ProtocolVersion, "result.supportedVersions": a.SupportedVersions,
		"result.capabilities": a.Capabilities, "result.serverInfo": a.ServerInfo, "result.instructions": a.Instructions,
		"result._meta.io.modelcontextprotocol/serverInfo": a.MetaServerInfo, "params.progressToken": a.ProgressToken,
		"params.requestId": a.RequestID, "params._meta": a.ParamsMeta, "error.message": a.ErrorMessage, "error.data": a.ErrorData,
	}
	for k, s := range spans {
		if !s.Ok() {
			delete(spans, k)
		}
	}
	return spans
}

// refRewriter collects the edits of a plan.
type refRewriter struct {
	raw   []byte
	plan  *Plan
	edits []Edit
}

func refRewrite(plan *Plan, raw []byte) ([]byte, error) {
	env, err := refEnvelope(raw)
	if err != nil {
		return nil, err
	}
	r := &refRewriter{raw: raw, plan: plan}
	if plan.ID != nil {
		if !env["id"].Ok() {
			return nil, errRef
		}
		r.edits = append(r.edits, Edit{env["id"], plan.ID})
	}
	if at := env["result"]; at.Ok() {
		r.result(at)
	}
	if at := env["error"]; at.Ok() {
		r.uris(r.member(at, "data"), "uri")
	}
	slices.SortStableFunc(r.edits, func(a, b Edit) int { return a.Start - b.Start })
	out := Splice(nil, raw, r.edits...)
	if plan.LineSafe {
		str := false
		for i := 0; i < len(out); i++ {
			switch c := out[i]; {
			case c == '\\':
				i++
			case c == '"':
				str = !str
			case (c == '\n' || c == '\r') && !str:
				out[i] = ' '
			}
		}
	}
	return out, nil
}

// object makes the edits of one level. setNames always stay.
func (r *refRewriter) object(at Span, set, defaults []Member, drop func(name string, value []byte) bool, extra *Member) (stay []refMember) {
	members, closing := refObject(r.raw, at)
	present := map[string]bool{}
	for _, m := range members {
		i := slices.IndexFunc(set, func(s Member) bool { return s.Name == m.name })
		if i < 0 && drop(m.name, m.value.Of(r.raw)) {
			from := m.start
			if len(present) > 0 {
				from = m.comma
			} else if m.comma >= 0 {
				r.edits = append(r.edits, Edit{Span: Span{m.comma, m.comma + 1}})
			}
			r.edits = append(r.edits, Edit{Span: Span{from, m.value.End}})
			continue
		}
		if len(present) == 0 && m.comma >= 0 {
			r.edits = append(r.edits, Edit{Span: Span{m.comma, m.comma + 1}})
		}
		present[m.name] = true
		if i >= 0 {
			r.edits = append(r.edits, Edit{m.value, set[i].Value})
		} else {
			stay = append(stay, m)
		}
	}
	add := append(slices.Clone(set), defaults...)
	if extra != nil {
		add = append(add, *extra)
	}
	var with []byte
	for _, s := range add {
		if present[s.Name] {
			continue
		}
		if len(present) > 0 {
			with = append(with, ',')
		}
		present[s.Name] = true
		quoted, _ := jsontext.AppendQuote(nil, s.Name)
		with = append(append(append(with, quoted...), ':'), s.Value...)
	}
	r.edits = append(r.edits, Edit{Span{closing, closing}, with})
	return stay
}

func (r *refRewriter) result(at Span) {
	p := r.plan
	var extra *Member
	if len(p.SetMeta) > 0 {
		var members []string
		for _, m := range p.SetMeta {
			members = append(members, strconv.Quote(m.Name)+":"+string(m.Value))
		}
		extra = &Member{"_meta", []byte("{" + joinStrings(members) + "}")}
	}
	stay := r.object(at, p.Set, p.Default, func(name string, value []byte) bool {
		return slices.Contains(p.Drop, name) || slices.Contains(p.DropNonObject, name) && value[0] != '{'
	}, extra)
	for _, m := range stay {
		switch m.name {
		case "_meta":
			if r.raw[m.value.Start] == '{' {
				r.meta(m.value)
			} else if extra != nil {
				r.edits = append(r.edits, Edit{m.value, extra.Value})
			}
		case "contents":
			for _, e := range r.elements(m.value) {
				r.uris(e, "uri")
			}
		case "content":
			r.content(m.value)
		case "messages":
			for _, e := range r.elements(m.value) {
				r.content(r.member(e, "content"))
			}
		}
	}
}

func joinStrings(s []string) string {
	out := ""
	for i := range s {
		if i > 0 {
			out += ","
		}
		out += s[i]
	}
	return out
}

func (r *refRewriter) meta(at Span) {
	stay := r.object(at, r.plan.SetMeta, nil, func(name string, _ []byte) bool { return slices.Contains(r.plan.DropMeta, name) }, nil)
	for _, m := range stay {
		switch m.name {
		case "ui":
			r.uris(m.value, "resourceUri")
		case "ui/resourceUri":
			r.uri(m.value)
		}
	}
}

func (r *refRewriter) content(at Span) {
	for _, e := range append(r.elements(at), at) {
		r.uris(e, "uri")
		r.uris(r.member(e, "resource"), "uri")
	}
}

func (r *refRewriter) elements(at Span) []Span {
	if at.Ok() && r.raw[at.Start] == '[' {
		return refElements(r.raw, at)
	}
	return nil
}

func (r *refRewriter) member(at Span, name string) Span {
	if at.Ok() && r.raw[at.Start] == '{' {
		members, _ := refObject(r.raw, at)
		for _, m := range members {
			if m.name == name {
				return m.value
			}
		}
	}
	return Span{}
}

func (r *refRewriter) uris(at Span, name string) { r.uri(r.member(at, name)) }

func (r *refRewriter) uri(at Span) {
	if !at.Ok() || r.raw[at.Start] != '"' || r.plan.MapURI == nil {
		return
	}
	decoded, _ := jsontext.AppendUnquote(nil, at.Of(r.raw))
	if mapped, changed := r.plan.MapURI(nil, string(decoded)); changed {
		quoted, _ := jsontext.AppendQuote(nil, mapped)
		r.edits = append(r.edits, Edit{at, quoted})
	}
}
