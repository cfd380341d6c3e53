package grant

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

const (
	maxHeader = 64 << 10 // bytes of an answer's header
	maxConns  = 32       // requests at once; the others wait within their deadline
)

var errNotLoopback = errors.New("the token endpoint is reached without TLS, and its name is not one of loopback")

// endpoint is one token endpoint as one upstream asks it. It is safe for
// concurrent use and keeps no connection: a request that a dying connection
// swallowed must not be sent again, as it may have been served.
type endpoint struct {
	kind, upstream string
	url            *url.URL
	auth           Secret     // the header Authorization; empty: none
	form           url.Values // what every request holds; read only
	t              http.RoundTripper
}

func newEndpoint(kind string, u *url.URL, o *Options) *endpoint {
	e := &endpoint{kind: kind, upstream: o.Upstream, url: u, form: url.Values{}}
	if kind == kindExchange {
		e.form.Set("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
		e.form.Set("subject_token_type", accessTokenType)
		e.form.Set("requested_token_type", accessTokenType)
	} else {
		e.form.Set("grant_type", "client_credentials")
	}
	for name, value := range map[string]string{"audience": o.Audience, "resource": o.Resource, "scope": strings.Join(o.Scopes, " ")} {
		if value != "" {
			e.form.Set(name, value)
		}
	}
	if secret := o.ClientSecret.Reveal(); secret != "" {
		pair := url.QueryEscape(o.ClientID) + ":" + url.QueryEscape(secret) // RFC 6749 2.3.1
		e.auth = NewSecret("Basic " + base64.StdEncoding.EncodeToString([]byte(pair)))
	} else {
		e.form.Set("client_id", o.ClientID)
	}
	dialer := &net.Dialer{Timeout: o.Timeout}
	if u.Scheme == "http" {
		dialer.Control = onlyLoopback
	}
	e.t = &http.Transport{ // without Proxy: the environment is not read
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    o.Timeout,
		DisableKeepAlives:      true,
		DisableCompression:     true, // the bound is on what is read
		MaxConnsPerHost:        maxConns,
		MaxResponseHeaderBytes: maxHeader,
	}
	return e
}

// onlyLoopback refuses to dial an address that is not this machine's: what the
// name localhost means is for the resolver to say.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	if host, _, err := net.SplitHostPort(address); err != nil || host == "localhost" || !loopback(host) {
		return errNotLoopback
	}
	return nil
}

// ask sends one request, and no second. The deadline is that of ctx. subject is
// the caller's token, for an exchange.
func (e *endpoint) ask(ctx context.Context, subject string) (answer, *failure) {
	resp, err := e.t.RoundTrip(e.request(ctx, subject)) // a bare round trip follows no redirect
	if err != nil {
		return answer{}, e.unavailable(reason(err))
	}
	defer func() { _ = resp.Body.Close() }()
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return e.granted(resp.Body, subject)
	case code >= 300 && code < 400:
		return answer{}, e.redirected(code)
	case code == http.StatusBadRequest, code == http.StatusUnauthorized, code == http.StatusForbidden:
		body, _ := read(resp.Body)
		return answer{}, e.refused(code, parseRefusal(body))
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return answer{}, e.unavailable(fmt.Errorf("the token endpoint answered %d", code))
	default:
		return answer{}, e.unusable(fmt.Errorf("the token endpoint answered %d", code))
	}
}

func (e *endpoint) request(ctx context.Context, subject string) *http.Request {
	form := make(url.Values, len(e.form)+1)
	for name, values := range e.form {
		form[name] = values
	}
	if e.kind == kindExchange {
		form.Set("subject_token", subject)
	}
	body := form.Encode()
	r := (&http.Request{
		Method: http.MethodPost, URL: e.url, Host: e.url.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"},
			"Accept":       {"application/json"},
			"User-Agent":   {"penstock"},
		},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
	}).WithContext(ctx)
	if auth := e.auth.Reveal(); auth != "" {
		r.Header.Set("Authorization", auth)
	}
	return r
}

// granted reads the body of a 200.
func (e *endpoint) granted(from io.Reader, subject string) (answer, *failure) {
	body, err := read(from)
	switch {
	case errors.Is(err, errTooLarge):
		return answer{}, e.unusable(err)
	case err != nil:
		return answer{}, e.unavailable(reason(err))
	}
	a, err := parseAnswer(body)
	switch {
	case err != nil:
		return answer{}, e.unusable(fmt.Errorf("the token endpoint's answer: %w", err))
	case e.kind == kindExchange && a.token == subject:
		return answer{}, e.passedBack()
	}
	return a, nil
}

var errTooLarge = fmt.Errorf("the token endpoint's answer is longer than %d bytes", maxAnswer)

// read reads a body up to the bound.
func read(from io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(from, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		return nil, errTooLarge
	}
	return body, err
}
