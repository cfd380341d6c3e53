package wire

import (
	"github.com/penstock-mcp/penstock/internal/fault"
)

// Members calls yield with each member of the object obj, in order, until yield
// returns false: the name as it stands between its quotes, escapes not decoded,
// and the raw value. Values are skipped, not read. Both alias obj. Duplicate
// names are the caller's concern.
//
// The error is a *fault.Error of fault.InvalidAnswer: obj is not an object,
// with or without white space around it, and nothing else.
func Members(obj []byte, yield func(name, value []byte) bool) error {
	return MemberSpans(obj, func(name []byte, at Span) bool { return yield(name, at.Of(obj)) })
}

// MemberSpans is Members that tells where in obj each value stands.
func MemberSpans(obj []byte, yield func(name []byte, at Span) bool) error {
	s := scanner{b: obj}
	s.space()
	if s.peek() != '{' {
		return s.broken("an object is expected")
	}
	for first := true; ; first = false {
		quoted, err := s.name(first)
		if err != nil {
			return err
		}
		if quoted == nil {
			return s.end()
		}
		at, err := s.value()
		if err != nil {
			return err
		}
		if !yield(quoted[1:len(quoted)-1], at) {
			return nil
		}
	}
}

// Elements is Members for the values of an array.
func Elements(arr []byte, yield func(value []byte) bool) error {
	s := scanner{b: arr}
	s.space()
	if s.peek() != '[' {
		return s.broken("an array is expected")
	}
	s.i++
	for first := true; ; first = false {
		s.space()
		if s.peek() == ']' {
			s.i++
			return s.end()
		}
		if !first {
			if s.peek() != ',' {
				return s.broken("a comma or ] is expected")
			}
			s.i++
			s.space()
		}
		at, err := s.value()
		if err != nil {
			return err
		}
		if !yield(at.Of(arr)) {
			return nil
		}
	}
}

// object walks the members of the object at s.i. member is called at the first
// byte of each value and must pass it. names, when not nil, refuses duplicates.
func (s *scanner) object(names *nameSet, member func(name []byte) error) error {
	if names != nil {
		names.reset()
	}
	for first := true; ; first = false {
		quoted, err := s.name(first)
		if err != nil || quoted == nil {
			return err
		}
		name, err := s.decode(quoted)
		if err != nil {
			return err
		}
		if names != nil && !names.add(name) {
			return s.broken("a member name comes twice, or there are too many")
		}
		if err := member(name); err != nil {
			return err
		}
	}
}

// name reads the next name of an object and stops at its value; nil when the
// object ends. With first, s.i is at the opening bracket.
func (s *scanner) name(first bool) ([]byte, error) {
	if first {
		s.i++
	}
	s.space()
	c := s.peek()
	if c == '}' {
		s.i++
		return nil, nil
	}
	if !first {
		if c != ',' {
			return nil, s.broken("a comma or } is expected")
		}
		s.i++
		s.space()
		c = s.peek()
	}
	if c != '"' {
		return nil, s.broken("a member name is expected")
	}
	start := s.i
	end, _, ok := stringEnd(s.b, s.i+1, false)
	if !ok {
		return nil, s.broken("the message ends within a name")
	}
	s.i = end
	s.space()
	if s.peek() != ':' {
		return nil, s.broken("a colon is expected")
	}
	s.i++
	s.space()
	return s.b[start:end], nil
}

// decode returns what a quoted name means, until the next call.
func (s *scanner) decode(quoted []byte) (name []byte, err error) {
	if name, s.scratch, err = decodeName(quoted, s.scratch); err != nil {
		return nil, fault.Wrap(err, fault.InvalidAnswer, "a member name before byte %d of the message is invalid", s.i)
	}
	return name, nil
}

// value passes over the value at s.i and returns its span.
func (s *scanner) value() (Span, error) {
	start := s.i
	switch c := s.peek(); {
	case c == '"':
		end, _, ok := stringEnd(s.b, s.i+1, false)
		if !ok {
			return Span{}, s.broken("the message ends within a string")
		}
		s.i = end
	case c == '{' || c == '[':
		var k skipper
		k.begin(inBracket)
		end, ok := k.skip(s.b, s.i+1)
		if !ok {
			return Span{}, s.broken("the message ends within a value")
		}
		s.i = end
	case startsScalar(c):
		for s.i < len(s.b) && !endsScalar(s.b[s.i]) {
			s.i++
		}
	default:
		return Span{}, s.broken("a value is expected")
	}
	return Span{start, s.i}, nil
}

// peek returns the next byte, or 0 at the end; a 0 is valid nowhere in JSON.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() { s.i = skipSpace(s.b, s.i) }

func (s *scanner) end() error {
	if s.space(); s.i != len(s.b) {
		return s.broken("there is data behind the value")
	}
	return nil
}

func (s *scanner) broken(what string) error {
	return fault.New(fault.InvalidAnswer, "the message is not valid JSON at byte %d: %s", s.i, what)
}
