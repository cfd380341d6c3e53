package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// KeyPrefix begins every API key that NewKey makes, so that scanners of leaked
// secrets and people recognize one.
const KeyPrefix = "psk_"

// NewKey returns a random API key of 256 bits and the hash that the document
// keeps of it, as "sha256:" and lower-case hex. The key is shown once and stored
// nowhere.
func NewKey() (key, hash string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	key = KeyPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(key))
	return key, "sha256:" + hex.EncodeToString(sum[:])
}
