package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

// Digest is a SHA-256.
type Digest [sha256.Size]byte

const digestPrefix = "sha256:"

// Sum is the digest of bytes as they are.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// SumJSON is the digest of a JSON value in its canonical form.
func SumJSON(value []byte) (Digest, error) {
	c, err := Canonical(value)
	if err != nil {
		return Digest{}, err
	}
	return Sum(c), nil
}

// IsZero tells whether no bit is set.
func (d Digest) IsZero() bool { return d == Digest{} }

// String is sha256: and 64 lower-case hexadecimal digits.
func (d Digest) String() string { return digestPrefix + hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Upper-case digits are
// taken, and written in lower case again.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDigest(string(b))
	return err
}

var errDigest = errors.New("a digest is sha256: and 64 hexadecimal digits")

// ParseDigest reads the text form of a digest.
func ParseDigest(s string) (d Digest, err error) {
	digits, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(digits) != 2*len(d) {
		return d, errDigest
	}
	if _, err := hex.Decode(d[:], []byte(digits)); err != nil {
		return Digest{}, errDigest
	}
	return d, nil
}
