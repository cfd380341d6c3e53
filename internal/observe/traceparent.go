package observe

import "encoding/hex"

// The form of a traceparent of version 00: version-traceid-parentid-flags.
const (
	parentSize = 2 + 1 + 32 + 1 + 16 + 1 + 2
	sampledBit = 1
	maxParent  = 512 // of a later version, whose form may be longer
)

// remote is an incoming traceparent, taken apart.
type remote struct {
	trace [16]byte
	span  [8]byte
	flags byte
}

// ParseTraceparent reports whether s is a traceparent as W3C Trace Context has
// it: of version 00 exactly, of a later version as far as 00 goes, with anything
// visible but quotes and backslashes behind another "-". Version ff, ids of only zeros and upper case are not. It allocates nothing.
func ParseTraceparent(s string) (ok bool) {
	_, ok = parseTraceparent(s)
	return ok
}

func parseTraceparent(s string) (r remote, ok bool) {
	if len(s) < parentSize || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return remote{}, false
	}
	var version [1]byte
	if !unhex(version[:], s[:2]) || version[0] == 0xff {
		return remote{}, false
	}
	if len(s) > parentSize && (version[0] == 0 || len(s) > maxParent || s[parentSize] != '-' || !visible(s[parentSize:])) {
		return remote{}, false
	}
	var flags [1]byte
	if !unhex(r.trace[:], s[3:35]) || !unhex(r.span[:], s[36:52]) || !unhex(flags[:], s[53:55]) {
		return remote{}, false
	}
	if r.trace == [16]byte{} || r.span == [8]byte{} {
		return remote{}, false
	}
	r.flags = flags[0]
	if version[0] != 0 {
		r.flags &= sampledBit // what else a later version may mean is not known
	}
	return r, true
}

// unhex decodes lower case only, which encoding/hex does not insist on.
func unhex(dst []byte, s string) bool {
	for i := range dst {
		hi, lo := nibbles[s[2*i]], nibbles[s[2*i+1]]
		if hi|lo > 15 {
			return false
		}
		dst[i] = hi<<4 | lo
	}
	return true
}

// nibbles has the value of each lower-case digit, and 255 for every other byte.
var nibbles = func() (t [256]byte) {
	for c := range t {
		t[c] = 0xff
	}
	for v, c := range []byte("0123456789abcdef") {
		t[c] = byte(v)
	}
	return t
}()

// visible holds what goes south unchanged to what may stand in a header and in a
// JSON string as it is.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}

func appendTraceparent(dst []byte, trace [16]byte, span [8]byte, flags byte) []byte {
	dst = append(dst, "00-"...)
	dst = hex.AppendEncode(dst, trace[:])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, span[:])
	dst = append(dst, '-')
	return hex.AppendEncode(dst, []byte{flags})
}
