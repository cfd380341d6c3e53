package idp_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/test/idp"
)

// client is for what a relying party asks.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// fetch reads JSON from an endpoint.
func fetch(t *testing.T, url string, into any) {
	t.Helper()
	resp, err := client(t).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: HTTP %d %v: %s", url, resp.StatusCode, err, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("GET %s: %v: %s", url, err, raw)
	}
}

type jwk struct {
	KID string `json:"kid"`
	KTY string `json:"kty"`
	Alg string `json:"alg"`
	Use string `json:"use"`
	N   string `json:"n"`
	E   string `json:"e"`
	X   string `json:"x"`
	Y   string `json:"y"`
}

// keySet is what is published, by key id.
func keySet(t *testing.T, p *idp.Provider) map[string]jwk {
	t.Helper()
	var set struct {
		Keys []jwk `json:"keys"`
	}
	fetch(t, p.JWKSURL(), &set)
	out := map[string]jwk{}
	for _, k := range set.Keys {
		out[k.KID] = k
	}
	return out
}

// verify holds a token against the published keys, with the standard library alone.
func verify(t *testing.T, p *idp.Provider, token string) error {
	t.Helper()
	header, _, err := idp.Read(token)
	if err != nil {
		return err
	}
	k, known := keySet(t, p)[fmt.Sprint(header["kid"])]
	if !known {
		return fmt.Errorf("the key %v is not published", header["kid"])
	}
	if k.Alg != header["alg"] || k.Use != "sig" {
		return fmt.Errorf("a token of %v under a key for %s, %s", header["alg"], k.Alg, k.Use)
	}
	cut := strings.LastIndexByte(token, '.')
	sum := sha256.Sum256([]byte(token[:cut]))
	signature := decode(t, token[cut+1:])
	switch k.Alg {
	case "RS256":
		public := &rsa.PublicKey{N: number(t, k.N), E: int(number(t, k.E).Int64())}
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature)
	case "ES256":
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, decode(t, k.X), decode(t, k.Y)))
		if err != nil {
			return err
		}
		if len(signature) != 64 || !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
			return fmt.Errorf("the signature does not hold")
		}
		return nil
	}
	return fmt.Errorf("algorithm %s", k.Alg)
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func number(t *testing.T, text string) *big.Int {
	t.Helper()
	return new(big.Int).SetBytes(decode(t, text))
}
