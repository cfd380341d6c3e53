package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// The bounds of one request to an identity provider.
const (
	fetchTimeout = 10 * time.Second
	maxDocument  = 1 << 20
	maxRedirects = 5
)

// ownClient is the client for identity providers: no proxy of the environment,
// and no connection kept for an hour between two requests.
func ownClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    fetchTimeout,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// homebound returns a copy of the client that follows redirects only within an
// origin: what is trusted is what answers there.
func homebound(c *http.Client) *http.Client {
	own := *c
	own.Jar = nil
	if own.Transport == nil {
		own.Transport = ownClient().Transport // the default one reads proxy variables
	}
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		if origin(req.URL) != origin(via[0].URL) {
			return errors.New("redirected to another origin")
		}
		return nil
	}
	return &own
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// checkAddress tells what is wrong with an address of an identity provider. Keys
// that come without TLS are whoever's, except from the machine itself.
func checkAddress(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a URL: %w", err)
	case u.Host == "" || u.Hostname() == "":
		return nil, fmt.Errorf("%q is not an absolute URL", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("%q holds credentials; a key set is public", u.Redacted())
	case u.Fragment != "":
		return nil, fmt.Errorf("%q has a fragment", u.Redacted())
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	default:
		return nil, fmt.Errorf("%q is not https, which only loopback addresses may do without", u.Redacted())
	}
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// get reads a document, whole and bounded.
func get(ctx context.Context, c *http.Client, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, err // names method and address
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %q: status %d", address, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", address, err)
	}
	if len(body) > maxDocument {
		return nil, fmt.Errorf("get %q: more than %d bytes", address, maxDocument)
	}
	return body, nil
}

// discover finds where an issuer publishes its keys, by OpenID Connect Discovery
// and RFC 8414, in both places where they put the path of the issuer.
func discover(ctx context.Context, c *http.Client, issuer string) (string, error) {
	u, err := checkAddress(issuer)
	if err != nil {
		return "", err
	}
	var failed []error
	for _, place := range places(u) {
		raw, err := get(ctx, c, place)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		address, err := keysOf(raw, issuer)
		if err != nil {
			failed = append(failed, fmt.Errorf("%q: %w", place, err))
			continue
		}
		return address, nil
	}
	return "", errors.Join(failed...)
}

// places lists where an issuer's metadata may be, without repetition.
func places(issuer *url.URL) []string {
	root := issuer.Scheme + "://" + issuer.Host
	path := strings.TrimRight(issuer.EscapedPath(), "/")
	list := []string{
		root + path + "/.well-known/openid-configuration",
		root + "/.well-known/oauth-authorization-server" + path,
	}
	if path != "" {
		list = append(list,
			root+"/.well-known/openid-configuration"+path,
			root+path+"/.well-known/oauth-authorization-server")
	}
	return list
}

// keysOf reads jwks_uri of the metadata of exactly that issuer.
func keysOf(raw []byte, issuer string) (string, error) {
	var doc struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return "", fmt.Errorf("the metadata is not valid JSON: %w", err)
	}
	if doc.Issuer != issuer {
		return "", fmt.Errorf("the metadata is of issuer %q, not %q", doc.Issuer, issuer)
	}
	u, err := checkAddress(doc.Keys)
	if err != nil {
		return "", fmt.Errorf("jwks_uri: %w", err)
	}
	// An issuer with TLS does not send us to where there is none.
	if u.Scheme == "http" && strings.HasPrefix(issuer, "https:") {
		return "", errors.New("jwks_uri is not https")
	}
	return doc.Keys, nil
}
