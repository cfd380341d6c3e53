package wire

// action is what happens to one member.
type action struct {
	below         place  // where its value stands
	with          []byte // replaces the value
	drop          bool
	dropNonObject bool
	forbidden     bool
	require       []byte // what the value must be
	defaults      uint64 // the plan's defaults that are not needed if the member stays
}

// decide looks a member up in the plan.
func (r *rewriter) decide(p place, name []byte) action {
	switch p {
	case atEnvelope:
		return r.decideEnvelope(name)
	case atResult:
		return r.decideResult(name)
	case atMeta:
		return r.decideMeta(name)
	}
	if r.plan.MapURI == nil {
		return action{}
	}
	switch n := string(name); {
	case p == atError && n == "data":
		return action{below: atErrorData}
	case p == atMessage && n == "content":
		return action{below: atContent}
	case p == atContentItem && n == "resource":
		return action{below: atResource}
	case p == atMetaUI && n == "resourceUri",
		n == "uri" && (p == atContentsItem || p == atContentItem || p == atResource || p == atErrorData):
		return action{below: atURI}
	}
	return action{}
}

func (r *rewriter) decideEnvelope(name []byte) action {
	w := &r.walk
	switch string(name) {
	case "jsonrpc":
		return action{below: atVersion}
	case "id":
		w.id = true
		return action{with: r.plan.ID, require: r.plan.WantID}
	case "method":
		w.method = true
	case "result":
		w.result = true
		return action{below: atResult}
	case "error":
		w.failure = true
		return action{below: atError}
	}
	return action{}
}

func (r *rewriter) decideResult(name []byte) action {
	w, p := &r.walk, r.plan
	if contains(p.Forbid, name) {
		return action{forbidden: true}
	}
	var require []byte
	if i := indexMember(p.Require, name); i >= 0 {
		require = p.Require[i].Value
	}
	if i := indexMember(p.Set, name); i >= 0 {
		w.set |= 1 << i
		w.meta = w.meta || string(name) == "_meta"
		return action{with: p.Set[i].Value, require: require}
	}
	if contains(p.Drop, name) {
		return action{drop: true, require: require}
	}
	a := action{dropNonObject: contains(p.DropNonObject, name), require: require}
	if i := indexMember(p.Default, name); i >= 0 {
		a.defaults = 1 << i
	}
	switch string(name) {
	case "_meta":
		a.below = atMeta
	case "contents":
		a.below = atContents
	case "content":
		a.below = atContent
	case "messages":
		a.below = atMessages
	}
	if a.below != atMeta && p.MapURI == nil {
		a.below = elsewhere
	}
	return a
}

func (r *rewriter) decideMeta(name []byte) action {
	w, p := &r.walk, r.plan
	if i := indexMember(p.SetMeta, name); i >= 0 {
		w.setMeta |= 1 << i
		return action{with: p.SetMeta[i].Value}
	}
	if contains(p.DropMeta, name) {
		return action{drop: true}
	}
	if p.MapURI != nil {
		switch string(name) {
		case "ui":
			return action{below: atMetaUI}
		case "ui/resourceUri":
			return action{below: atURI}
		}
	}
	return action{}
}
