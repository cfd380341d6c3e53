package mcp

// ProjectItem appends one list item (a tool, prompt, resource or template) to
// dst in the shape that a client of revision rev expects (checklist 6.2, 6.5).
// Whatever is kept, keeps its bytes; an item that needs no change, or that
// cannot be read as an object, is appended as it is.
//
// A tool without inputSchema, or with null, gets the empty object schema: the
// protocol requires one, and clients crash without.
func ProjectItem(kind Kind, rev Revision, dst, item []byte) []byte {
	var mbuf [16]member
	var ebuf [16]edit
	ms, err := members(item, mbuf[:0])
	if err != nil {
		return append(dst, item...)
	}
	p := itemProjection{kind: kind, rev: rev, item: item, ms: ms}
	edits, changed := ebuf[:0], false
	for i := range ms {
		e := p.member(i)
		changed = changed || e.drop || e.value != nil
		edits = append(edits, e)
	}
	var add []byte
	if kind == Tools && p.index("inputSchema") < 0 {
		add, changed = []byte(`"inputSchema":{"type":"object"}`), true
	}
	if !changed {
		return append(dst, item...)
	}
	return splice(dst, item, ms, edits, add)
}

// itemProjection is the projection of one item while it is decided.
type itemProjection struct {
	kind Kind
	rev  Revision
	item []byte
	ms   []member
}

func (p *itemProjection) index(name string) int {
	for i := range p.ms {
		if string(p.ms[i].name) == name {
			return i
		}
	}
	return -1
}

// member decides what becomes of the i-th member.
func (p *itemProjection) member(i int) edit {
	m := &p.ms[i]
	value := m.raw(p.item)
	switch string(m.name) {
	case "execution":
		// It invites to tasks of 2025-11-25, which no other client knows (checklist
		// 6.2). Whether its upstream makes any is the catalog's to look at.
		return edit{drop: p.kind == Tools && p.rev != V20251125}
	case "inputSchema":
		if p.kind == Tools && isNull(value) {
			return edit{value: []byte(`{"type":"object"}`)}
		}
	case "outputSchema":
		return edit{drop: p.kind == Tools && !p.keepsOutputSchema(value)}
	case "icons":
		return edit{drop: p.rev <= V20250618}
	case "_meta":
		return edit{drop: p.rev <= V20250326}
	case "title":
		return p.title(i, value)
	case "annotations":
		return p.annotations(value)
	case "arguments":
		if p.kind == Prompts && p.rev <= V20250326 {
			return p.arguments(value)
		}
	}
	return edit{}
}

func (p *itemProjection) keepsOutputSchema(schema []byte) bool {
	switch {
	case p.rev.Era() == Modern:
		return true
	case p.rev <= V20250326:
		return false
	}
	return string(find(schema, "type")) == `"object"`
}

// title leaves the item for 2025-03-26, which knows it for tools only, as
// annotations.title. It goes into the annotations that are there, or its member
// becomes them.
func (p *itemProjection) title(i int, title []byte) edit {
	if p.rev > V20250326 {
		return edit{}
	}
	if p.kind != Tools || p.index("annotations") >= 0 || p.index("title") != i || isNull(title) {
		return edit{drop: true}
	}
	return edit{renamed: "annotations", value: titled(nil, title)}
}

func (p *itemProjection) annotations(value []byte) edit {
	at := p.index("title")
	if p.rev > V20250326 || p.kind != Tools || at < 0 {
		return edit{}
	}
	title := p.ms[at].raw(p.item)
	if isNull(title) {
		return edit{}
	}
	if isNull(value) {
		return edit{value: titled(nil, title)}
	}
	if !isObject(value) || find(value, "title") != nil {
		return edit{}
	}
	var mbuf [8]member
	ms, err := members(value, mbuf[:0])
	if err != nil {
		return edit{}
	}
	add := append([]byte(`"title":`), title...)
	return edit{value: splice(nil, value, ms, make([]edit, len(ms)), add)}
}

func titled(dst, title []byte) []byte {
	dst = append(dst, `{"title":`...)
	dst = append(dst, title...)
	return append(dst, '}')
}

// arguments takes the titles of a prompt's arguments away.
func (p *itemProjection) arguments(value []byte) edit {
	out, changed, err := eachElement(value, func(dst, arg []byte) []byte {
		return without(dst, arg, func(name []byte) bool { return string(name) == "title" })
	})
	if err != nil || !changed {
		return edit{}
	}
	return edit{value: out}
}
