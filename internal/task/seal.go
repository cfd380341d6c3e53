package task

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
)

// Vault seals the ids that are kept at rest, for the operator's commands: what an
// id opens is its owner's alone (DESIGN section 7). It is safe for concurrent use.
type Vault struct{ keys []cipher.AEAD }

// NewVault derives keys from the ring of sealing keys; the first seals, all open.
func NewVault(ring [][]byte) (*Vault, error) {
	v := &Vault{}
	for _, secret := range ring {
		key, err := hkdf.Key(sha256.New, secret, nil, "penstock task id v1", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		v.keys = append(v.keys, aead)
	}
	if len(v.keys) == 0 {
		return nil, errors.New("task: no sealing key")
	}
	return v, nil
}

// Seal hides an id.
func (v *Vault) Seal(id string) []byte {
	h := Hash(id)
	nonce := make([]byte, 0, len(id)+v.keys[0].Overhead())
	return v.keys[0].Seal(nonce, nil, []byte(id), h[:])
}

// ErrSealed is an id that none of the keys opens.
var ErrSealed = errors.New("task: no key of the ring opens the id")

// Open shows an id that was sealed under its hash.
func (v *Vault) Open(sealed []byte, hash [32]byte) (string, error) {
	for _, k := range v.keys {
		if plain, err := k.Open(nil, nil, sealed, hash[:]); err == nil {
			return string(plain), nil
		}
	}
	return "", ErrSealed
}
