// Package relay is what flows back from upstreams to clients. It seals the state
// of a question to a modern client, and parks the call of a legacy upstream while
// the question is with the client; what flows back within a request is on the
// request's own way, in gateway and north.
package relay

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// ErrState is a requestState that this gateway did not seal for that caller and
// request, or that has expired. What exactly is wrong is not told.
var ErrState = errors.New("relay: requestState is not valid here")

// MaxState bounds an upstream's own state (checklist 7.2).
const MaxState = 256 << 10

// Sealer seals requestState before it goes north (DESIGN section 8): it is
// encrypted, and bound to the principal, the virtual server, the method, the
// name, the upstream and a time. It is safe for concurrent use.
type Sealer struct {
	keys []cipher.AEAD // all open, the first seals
	life time.Duration
	now  func() time.Time
}

// NewSealer derives keys from the ring; the first seals.
func NewSealer(ring [][]byte, life time.Duration, now func() time.Time) (*Sealer, error) {
	s := &Sealer{life: life, now: now}
	for _, secret := range ring {
		key, err := hkdf.Key(sha256.New, secret, nil, "penstock request state v1", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// Binding is what a sealed state is good for.
type Binding struct {
	Principal                      [32]byte
	Server, Method, Name, Upstream string
}

func (b Binding) bytes() []byte {
	out := append([]byte("v1"), b.Principal[:]...)
	for _, s := range [...]string{b.Server, b.Method, b.Name, b.Upstream} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(s)))
		out = append(out, s...)
	}
	return out
}

// Seal returns an upstream's own state as base64url text.
func (s *Sealer) Seal(state string, b Binding) string {
	return s.seal([]byte(state), b.bytes())
}

// Open returns the upstream's own state, or ErrState.
func (s *Sealer) Open(sealed string, b Binding) (string, error) {
	plain, err := s.open(sealed, b.bytes())
	return string(plain), err
}

func (s *Sealer) seal(content, bound []byte) string {
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(content)), uint64(s.now().Add(s.life).Unix()))
	plain = append(plain, content...)
	aead := s.keys[0]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	_, _ = rand.Read(nonce) // crypto/rand.Read never fails
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, bound))
}

// maxSealed is the text of the largest state.
const maxSealed = (MaxState + 64) * 4 / 3

func (s *Sealer) open(sealed string, bound []byte) ([]byte, error) {
	if len(sealed) > maxSealed {
		return nil, ErrState
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return nil, ErrState
	}
	for _, aead := range s.keys {
		n := aead.NonceSize()
		if len(raw) < n {
			return nil, ErrState
		}
		plain, err := aead.Open(nil, raw[:n], raw[n:], bound)
		if err != nil {
			continue
		}
		if len(plain) < 8 || s.now().Unix() > int64(binary.BigEndian.Uint64(plain)) {
			return nil, ErrState
		}
		return plain[8:], nil
	}
	return nil, ErrState
}
