package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// key is a key pair. It is what the provider signs with; published is what it shows. A key does not change once made.
type key struct {
	KID     string                  `json:"kid"`
	Alg     jose.SignatureAlgorithm `json:"alg"`
	Private string                  `json:"private"` // PKCS #8, PEM

	signer crypto.Signer
}

var _ op.SigningKey = (*key)(nil)

// newKey makes a key pair for an algorithm.
func newKey(alg jose.SignatureAlgorithm) (*key, error) {
	var signer crypto.Signer
	var err error
	switch family(alg) {
	case "rsa":
		signer, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ec":
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		err = fmt.Errorf("no keys for the algorithm %q", alg)
	}
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return nil, err
	}
	return &key{
		KID: strings.ToLower(rand.Text()), Alg: alg, signer: signer,
		Private: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}, nil
}

// load completes a key that was read from the state's file.
func (k *key) load() error {
	block, _ := pem.Decode([]byte(k.Private))
	if block == nil {
		return errors.New("a key in the state is no PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return fmt.Errorf("a key in the state is a %T", parsed)
	}
	k.signer = signer
	return nil
}

// family is the kind of key that an algorithm uses; "" is none that this provider has.
func family(alg jose.SignatureAlgorithm) string {
	switch alg {
	case jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512:
		return "rsa"
	case jose.ES256:
		return "ec"
	}
	return ""
}

// SignatureAlgorithm implements op.SigningKey.
func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return k.Alg }

// Key implements op.SigningKey.
func (k *key) Key() any { return k.signer }

// ID implements op.SigningKey.
func (k *key) ID() string { return k.KID }

// publicPEM is the public key as an attacker would download it.
func (k *key) publicPEM() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(k.signer.Public())
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}

func (k *key) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.signer.Public(), KeyID: k.KID, Algorithm: string(k.Alg), Use: "sig"}
}

// published is the public half of a key, as the key set shows it.
type published struct{ *key }

var _ op.Key = published{}

// Algorithm implements op.Key.
func (p published) Algorithm() jose.SignatureAlgorithm { return p.Alg }

// Use implements op.Key.
func (p published) Use() string { return "sig" }

// Key implements op.Key.
func (p published) Key() any { return p.signer.Public() }
