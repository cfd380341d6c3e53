package catalog

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
)

const (
	maxName  = 64 // bytes of an exposed name that every client accepts
	tailSize = 10 // characters of hash: 50 bits
)

var tailEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

// fits reports whether a name may be exposed as it is (DESIGN section 5).
func fits(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return false
		}
	}
	return true
}

// short is the short form of a name: a readable head and a hash of what it
// stands for. It depends on the member and the original name alone, so it
// stays the same whatever else is offered. salt is 0 but for the rare name
// whose short form was taken.
func (n *namer) short(member int, original string, salt uint32) string {
	h := sha256.New()
	var size [4]byte
	for _, part := range []string{n.members[member].Key, n.prefix[member], original} {
		binary.BigEndian.PutUint32(size[:], uint32(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	if salt > 0 {
		binary.BigEndian.PutUint32(size[:], salt)
		h.Write(size[:])
	}
	tail := tailEncoding.EncodeToString(h.Sum(nil))[:tailSize]

	var b strings.Builder
	b.Grow(maxName)
	for _, r := range n.prefix[member] + original {
		if b.Len() == maxName-tailSize-1 {
			break
		}
		if r < 0x80 && nameByte(byte(r)) {
			b.WriteByte(byte(r))
		} else {
			b.WriteByte('_')
		}
	}
	b.WriteByte('_')
	b.WriteString(tail)
	return b.String()
}

// looksShort reports whether a name has the form that short produces.
func looksShort(name string) bool {
	if !fits(name) || len(name) < tailSize+1 || name[len(name)-tailSize-1] != '_' {
		return false
	}
	for i := len(name) - tailSize; i < len(name); i++ {
		if c := name[i]; !('a' <= c && c <= 'z' || '2' <= c && c <= '7') {
			return false
		}
	}
	return true
}
