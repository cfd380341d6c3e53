package auth

import "strings"

// maxBearer bounds a token, in bytes.
const maxBearer = 16 << 10

// bearer returns the token of the values of the Authorization field: exactly one
// value, the scheme Bearer in any case, one token of RFC 6750's characters. Two
// values are refused even if one of them is good: which of them another hop reads
// is not known. It allocates nothing.
func bearer(values []string) (string, *Refusal) {
	switch len(values) {
	case 0:
		return "", refusedMissing
	case 1:
	default:
		return "", refusedTwice
	}
	v := values[0]
	if len(v) > maxBearer+len("Bearer ") {
		return "", refusedHugeness
	}
	scheme, rest, found := strings.Cut(v, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		if isScheme(scheme) {
			return "", refusedScheme
		}
		return "", refusedForm
	}
	rest = strings.TrimLeft(rest, " ")
	if !found || !isToken68(rest) {
		return "", refusedForm
	}
	return rest, nil
}

// isScheme tells whether s can name an authorization scheme (RFC 9110, token).
func isScheme(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// inToken68 is the characters of a b64token but =. A table, for this runs over
// every byte of every token.
var inToken68 = func() (in [256]bool) {
	for c := range 256 {
		in[c] = isAlphanumeric(byte(c)) || strings.IndexByte("-._~+/", byte(c)) >= 0
	}
	return in
}()

// isToken68 tells whether s is a b64token: some characters, then any number of =.
func isToken68(s string) bool {
	s = strings.TrimRight(s, "=")
	for i := range len(s) {
		if !inToken68[s[i]] {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
