package wire

// DropMembers appends to dst the Edits that remove the members of an object
// whose names drop reports true for, each with its comma. obj is the object's
// span in raw; a value that is no object has no members. Names are decoded.
func DropMembers(dst []Edit, raw []byte, obj Span, drop func(name []byte) bool) ([]Edit, error) {
	if !obj.Ok() || raw[obj.Start] != '{' {
		return dst, nil
	}
	s := scanners.Get().(*scanner)
	defer s.release()
	s.b, s.i = raw[:obj.End], obj.Start
	var (
		kept    bool
		lastEnd int  // end of the last kept value
		open    *int // end of an Edit at the object's beginning, to be moved up to the next name
	)
	for first := true; ; first = false {
		before := s.i
		quoted, err := s.name(first)
		if err != nil || quoted == nil {
			return dst, err
		}
		start := nameStart(raw, before, first)
		if open != nil {
			*open, open = start, nil
		}
		name, err := s.decode(quoted)
		if err != nil {
			return dst, err
		}
		value, err := s.value()
		if err != nil {
			return dst, err
		}
		switch {
		case !drop(name):
			kept, lastEnd = true, value.End
		case kept:
			dst = append(dst, Edit{Span: Span{lastEnd, value.End}})
			lastEnd = value.End
		default:
			dst = append(dst, Edit{Span: Span{start, value.End}})
			open = &dst[len(dst)-1].End
		}
	}
}

// nameStart finds the quote of a name that the scanner has just passed.
func nameStart(raw []byte, i int, first bool) int {
	if first {
		i++
	}
	for raw[i] != '"' {
		i++
	}
	return i
}
