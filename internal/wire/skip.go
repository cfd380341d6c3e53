package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// skipper passes over one JSON value by its string ends and brackets alone. It
// can stop at any byte and go on in the next piece, so that one engine serves
// whole bodies and streams. It does not tell `[` from `{`: what is wrong within
// a skipped value stays where it is.
type skipper struct {
	depth int  // open brackets
	str   bool // within a string
	esc   bool // the byte before was an unescaped backslash within a string

	lines bool // look for raw line ends within strings
	bad   bool // there was one
}

// What a skipper begins within: its first byte, quote or bracket, has been read.
const (
	inString  = true
	inBracket = false
)

func (s *skipper) begin(str bool) {
	*s = skipper{str: str, lines: s.lines}
	if !str {
		s.depth = 1
	}
}

// skip goes on at b[i] and returns the offset behind the value, or len(b) and
// false when b ends first.
func (s *skipper) skip(b []byte, i int) (int, bool) {
	if s.depth > 0 {
		return s.brackets(b, i)
	}
	end, esc, ok := stringEnd(b, i, s.esc)
	s.esc = esc
	s.bad = s.bad || s.lines && hasEOL(b[i:end])
	return end, ok
}

// brackets is skip within an object or array. Eight bytes at a time, and without
// a branch for each, it finds the quotes that no backslash escapes, from them
// which bytes lie in strings, and counts the brackets that do not. A backslash
// outside of strings, which JSON does not have, escapes like one within.
func (s *skipper) brackets(b []byte, i int) (end int, done bool) {
	var carry, inside uint64
	if s.esc {
		carry = 0x80
	}
	if s.str {
		inside = tops
	}
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		q := zeroBytes(w ^ quotes)
		slant := zeroBytes(w ^ slants)
		if slant|carry != 0 {
			hidden := slant<<8 | carry
			if slant&hidden == 0 {
				carry = slant >> 63 << 7
			} else {
				hidden, carry = hiddenBytes(slant, carry)
			}
			q &^= hidden
		}
		if q == 0 && inside != 0 { // amid a long string, where no bracket counts
			end, esc, ok := stringEnd(b, i+8, carry != 0)
			s.bad = s.bad || s.lines && hasEOL(b[i:end])
			if !ok {
				s.esc, s.str = esc, true
				return end, false
			}
			i, carry, inside = end, 0, 0
			continue
		}
		in := q ^ q<<8 // a byte lies in a string behind an odd number of quotes
		in ^= in << 16
		in ^= in << 32
		in ^= inside
		inside = -(in >> 63) & tops
		if s.lines && (zeroBytes(w^feeds)|zeroBytes(w^returns))&in != 0 {
			s.bad = true
		}
		// Bit 5 is all that [ differs in from {, and ] from }.
		opens := zeroBytes((w|fives)^braces) &^ in
		closes := zeroBytes((w|fives)^unbraces) &^ in
		if n := bits.OnesCount64(closes); s.depth > n {
			s.depth += bits.OnesCount64(opens) - n
			i += 8
			continue
		}
		for m := opens | closes; m != 0; m &= m - 1 {
			if m&-m&closes == 0 {
				s.depth++
			} else if s.depth--; s.depth == 0 {
				return i + bits.TrailingZeros64(m)>>3 + 1, true
			}
		}
		i += 8
	}
	s.esc, s.str = carry != 0, inside != 0
	return s.bracketsTail(b, i)
}

// bracketsTail is brackets for the last bytes of a piece, one at a time.
func (s *skipper) bracketsTail(b []byte, i int) (end int, done bool) {
	for ; i < len(b); i++ {
		c := b[i]
		hidden := s.esc
		s.esc = c == '\\' && !hidden
		switch {
		case c == '"':
			s.str = s.str == hidden
		case s.str:
			s.bad = s.bad || s.lines && (c == '\n' || c == '\r')
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(b), false
}

const (
	low7     = 0x7f7f7f7f7f7f7f7f
	tops     = 0x8080808080808080
	fives    = 0x2020202020202020
	quotes   = 0x2222222222222222 // "
	slants   = 0x5c5c5c5c5c5c5c5c // \
	braces   = 0x7b7b7b7b7b7b7b7b // {
	unbraces = 0x7d7d7d7d7d7d7d7d // }
	feeds    = 0x0a0a0a0a0a0a0a0a // LF
	returns  = 0x0d0d0d0d0d0d0d0d // CR
)

// zeroBytes sets the top bit of each byte of x that is zero, exactly.
func zeroBytes(x uint64) uint64 { return ^((x&low7 + low7) | x | low7) }

// calm is after how many bytes without a quote stringEnd looks for the next
// one by IndexByte, which is far faster on plain text and far slower on text
// full of quotes.
const calm = 64

// stringEnd returns the offset behind the quote that ends the string b[i] lies
// in, or false and whether the last byte escapes the one that will follow.
//
// It reads eight bytes at a time and takes the bytes that a backslash escapes
// out of the quotes found, so text dense with `\"` costs about what plain text
// does. Where no quote was seen for a while, it jumps to the next one.
func stringEnd(b []byte, i int, escaped bool) (end int, esc, ok bool) {
	var carry uint64
	if escaped {
		carry = 0x80
	}
	for leap := i + calm; i+8 <= len(b); {
		w := binary.LittleEndian.Uint64(b[i:])
		x := w ^ quotes
		raw := ^((x&low7 + low7) | x | low7)
		x = w ^ slants
		s := ^((x&low7 + low7) | x | low7)
		q := raw
		if s|carry != 0 {
			hidden := s<<8 | carry
			if s&hidden == 0 {
				carry = s >> 63 << 7
			} else {
				hidden, carry = hiddenBytes(s, carry)
			}
			q &^= hidden
		}
		if q != 0 {
			return i + bits.TrailingZeros64(q)>>3 + 1, false, true
		}
		i += 8
		if raw != 0 {
			leap = i + calm
			continue
		}
		if i < leap {
			continue
		}
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return len(b), escapes(b[i:], carry != 0), false
		}
		if !escapes(b[i:i+j], carry != 0) {
			return i + j + 1, false, true
		}
		i += j + 1
		carry, leap = 0, i+calm
	}
	escaped = carry != 0
	for ; i < len(b); i++ {
		switch {
		case escaped:
			escaped = false
		case b[i] == '\\':
			escaped = true
		case b[i] == '"':
			return i + 1, false, true
		}
	}
	return len(b), escaped, false
}

// escapes reports whether the byte that follows b, a part of a string without
// quotes, is escaped. first says that b's own first byte is.
func escapes(b []byte, first bool) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	if n == len(b) && first {
		n++ // the run began before b
	}
	return n%2 == 1
}

// hiddenBytes is the slow half of stringEnd, for backslashes that follow each
// other: which bytes are escaped, and whether the first of the next word is.
func hiddenBytes(slant, carry uint64) (hidden, next uint64) {
	escaped := carry != 0
	for bit := uint64(0x80); bit != 0; bit <<= 8 {
		switch {
		case escaped:
			hidden |= bit
			escaped = false
		case slant&bit != 0:
			escaped = true
		}
	}
	if escaped {
		next = 0x80
	}
	return hidden, next
}

// skipSpace returns the offset of the first byte from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// startsScalar reports whether c can begin a number or a literal.
func startsScalar(c byte) bool {
	return c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n'
}

// endsScalar reports whether c cannot be part of a number or a literal.
func endsScalar(c byte) bool { return scalarEnd[c] }

var scalarEnd = [256]bool{' ': true, '\n': true, '\r': true, '\t': true, ',': true, ':': true, '"': true, '{': true, '}': true, '[': true, ']': true}
