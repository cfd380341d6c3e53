package mcp

// edit is what becomes of one member of an object.
type edit struct {
	drop    bool
	value   []byte // replaces the value, when not nil
	renamed string // replaces the name; goes with value
}

// splice appends src, the object whose members are ms, with edits[i] applied to
// ms[i] and the raw members of add put behind the last. All other bytes are
// copied as they are, white space included (DESIGN section 3).
func splice(dst, src []byte, ms []member, edits []edit, add []byte) []byte {
	if len(ms) == 0 {
		if len(add) == 0 {
			return append(dst, src...)
		}
		open := skipSpace(src, 0) + 1
		dst = append(dst, src[:open]...)
		dst = append(dst, add...)
		return append(dst, src[open:]...)
	}
	dst = append(dst, src[:ms[0].start]...)
	kept := false
	for i := range ms {
		e := &edits[i]
		if e.drop {
			continue
		}
		if kept {
			dst = append(dst, src[ms[i-1].end:ms[i].start]...)
		}
		kept = true
		switch {
		case e.value == nil:
			dst = append(dst, src[ms[i].start:ms[i].end]...)
			continue
		case e.renamed == "":
			dst = append(dst, src[ms[i].start:ms[i].value]...)
		default:
			dst = append(dst, '"')
			dst = append(dst, e.renamed...)
			dst = append(dst, '"', ':')
		}
		dst = append(dst, e.value...)
	}
	if len(add) > 0 {
		if kept {
			dst = append(dst, ',')
		}
		dst = append(dst, add...)
	}
	return append(dst, src[ms[len(ms)-1].end:]...)
}

// without appends the object src less the members that drop names. An object
// that holds none of them, or that cannot be read, is appended as it is.
func without(dst, src []byte, drop func(name []byte) bool) []byte {
	var mbuf [16]member
	var ebuf [16]edit
	ms, err := members(src, mbuf[:0])
	if err != nil {
		return append(dst, src...)
	}
	edits, changed := ebuf[:0], false
	for i := range ms {
		d := drop(ms[i].name)
		changed = changed || d
		edits = append(edits, edit{drop: d})
	}
	if !changed {
		return append(dst, src...)
	}
	return splice(dst, src, ms, edits, nil)
}
