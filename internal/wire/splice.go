package wire

// Edit replaces a span of a message. Start == End inserts; With == nil removes.
type Edit struct {
	Span
	With []byte
}

// Member is a member of an object: a name, not quoted, and a raw JSON value.
type Member struct {
	Name  string
	Value []byte
}

// Splice appends raw to dst with the edits made, and every other byte as it is.
// The edits must be sorted by Start and must not overlap; dst must not alias raw.
func Splice(dst, raw []byte, edits ...Edit) []byte {
	at := 0
	for i := range edits {
		e := &edits[i]
		dst = append(dst, raw[at:e.Start]...)
		dst = append(dst, e.With...)
		at = e.End
	}
	return append(dst, raw[at:]...)
}

// InsertMembers makes the Edit that puts members in front of those an object
// already has; obj is the object's span in raw. It does not look for names that
// are there. A value that is not an object (null) is replaced by one.
// One Edit per object: two of them at one empty object would lack a comma.
func InsertMembers(raw []byte, obj Span, members ...Member) Edit {
	if raw[obj.Start] != '{' {
		return Edit{Span: obj, With: appendObject(nil, members)}
	}
	at := Span{obj.Start + 1, obj.Start + 1}
	if len(members) == 0 {
		return Edit{Span: at}
	}
	with := appendMembers(nil, members)
	if raw[skipSpace(raw, at.Start)] != '}' {
		with = append(with, ',')
	}
	return Edit{Span: at, With: with}
}

func appendObject(dst []byte, members []Member) []byte {
	dst = append(dst, '{')
	dst = appendMembers(dst, members)
	return append(dst, '}')
}

func appendMembers(dst []byte, members []Member) []byte {
	for i := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMember(dst, &members[i])
	}
	return dst
}

func appendMember(dst []byte, m *Member) []byte {
	dst = AppendString(dst, m.Name)
	dst = append(dst, ':')
	return append(dst, m.Value...)
}
