package wire

import (
	"hash/maphash"

	"github.com/go-json-experiment/json/jsontext"
)

// decodeName returns what the quoted name of a member means, in scratch when it
// has escapes. It is strict: a name decides, even where values are skipped.
func decodeName(quoted, scratch []byte) (name, grown []byte, err error) {
	name = quoted[1 : len(quoted)-1]
	for _, c := range name {
		if c < 0x20 || c >= 0x80 || c == '\\' {
			scratch, err = jsontext.AppendUnquote(scratch[:0], quoted)
			return scratch, scratch, err
		}
	}
	return name, scratch, nil
}

// maxScratch is the room for decoded names that idle state keeps.
const maxScratch = 4 << 10

// maxMembers bounds an object whose names are remembered. It bounds the memory
// that one answer can take, far beyond any real one.
const maxMembers = 1 << 16

// nameSet finds duplicate names at one level. It holds hashes, as a name may
// have left the window by the time it comes again; two names of one hash, in
// 2^64, would be refused as duplicates.
type nameSet struct {
	n    int
	few  [24]uint64
	many map[uint64]struct{} // all of them, once few is full
}

var nameSeed = maphash.MakeSeed()

func (s *nameSet) reset() {
	s.n = 0
	s.many = nil
}

// add returns false when the name is there, or the set is full.
func (s *nameSet) add(name []byte) bool {
	h := maphash.Bytes(nameSeed, name)
	if s.many != nil {
		if _, dup := s.many[h]; dup || s.n == maxMembers {
			return false
		}
		s.many[h] = struct{}{}
		s.n++
		return true
	}
	for _, o := range s.few[:s.n] {
		if o == h {
			return false
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = h
		s.n++
		return true
	}
	s.many = make(map[uint64]struct{}, 4*len(s.few))
	for _, o := range s.few {
		s.many[o] = struct{}{}
	}
	s.many[h] = struct{}{}
	s.n++
	return true
}
