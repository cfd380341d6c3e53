package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// configurationOf is the digest of what the document says of an upstream, as far as
// it decides what is reached and how. Callers are told it, so that no secret goes
// into it, not even by its digest: of those only that they are there.
func configurationOf(c *config.Upstream) (durable.Digest, error) {
	addresses := []string{}
	for _, a := range addressesOf(c) {
		addresses = append(addresses, config.DisplayURL(a))
	}
	var durable []string
	if d := c.Durable; d != nil {
		durable = []string{d.Pin, d.Session, d.Echo, d.Spelling}
	}
	return sumOf(map[string]any{
		"key": c.Key, "addresses": addresses, "command": c.Command, "dir": c.Dir, "era": c.Era,
		"headers": slices.Sorted(maps.Keys(c.Headers)), "env": slices.Sorted(maps.Keys(c.Env)),
		"credentials": credentialKind(c), "trustAnnotations": bool(c.TrustAnnotations),
		"durable": durable,
	})
}

// addressesOf are the URLs of an upstream; none of a child.
func addressesOf(c *config.Upstream) []string {
	if len(c.URLs) > 0 {
		return c.URLs
	}
	if c.URL != "" {
		return []string{c.URL}
	}
	return nil
}

// credentialKind says what an upstream is shown, and in whose name.
func credentialKind(c *config.Upstream) []string {
	switch k := &c.Credentials; {
	case !k.Bearer.IsZero():
		return []string{"bearer"}
	case k.Header != nil:
		return []string{"header", k.Header.Name}
	case k.ClientCredentials != nil:
		return []string{"client_credentials", k.ClientCredentials.TokenURL, k.ClientCredentials.ClientID}
	}
	return []string{}
}

// endpointOf is what a stateless upstream is recognized by after a restart. It is
// kept in the record, and shown to nobody.
func (s *source) endpointOf(replica int) (durable.Digest, error) {
	address := ""
	if all := addressesOf(s.doc); replica < len(all) {
		address = all[replica]
	}
	return sumOf(map[string]any{
		"address": digestText(address), "pin": s.pin, "configuration": s.configuration, "revision": mcp.LatestModern.String(),
		"credential": digestText(identity(s.doc, s.key, address)),
	})
}

func digestText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func sumOf(value any) (durable.Digest, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return durable.Digest{}, err
	}
	return durable.SumJSON(b)
}
