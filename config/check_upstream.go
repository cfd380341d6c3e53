package config

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	keyForm     = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)
	headerForm  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	bearerForm  = regexp.MustCompile(`^[!-~]+$`)
	secretNames = regexp.MustCompile(`(?i)key|token|secret|password|cookie|auth`)
)

const keyRule = "must start with a letter or digit, go on with letters, digits, dots, underscores and dashes, and have at most 64 characters"

func (d *decoder) checkUpstream(doc *Document, u *Upstream) {
	path := join("upstreams", u.Key)
	if !keyForm.MatchString(u.Key) {
		d.problemFor(path, keySuffix, "the key "+keyRule, "")
	}
	d.checkCommand(path, u)
	d.checkURLs(path, u)
	d.checkFormerly(doc, path, u)
	d.checkHeaders(path, u)
	d.checkCredentials(path, u)
	d.checkGrants(doc, path+".credentials", u)
	d.checkUpstreamTLS(path, u)
	if !u.Proxy.IsZero() && !d.bad(path+".proxy") && !validProxy(u.Proxy.Reveal()) {
		d.problemFor(path+".proxy", "", "must be an http, https or socks5 URL of a host, without a path", "")
	}
	if at, written := d.places[path+".proxy"]; written && !at.bad && u.Proxy.IsZero() {
		d.problemFor(path+".proxy", "", "must not be empty", "remove the key to connect directly")
	}
	d.warnTransport(doc, path, u)
	used := false
	for _, s := range doc.Servers {
		used = used || slices.Contains(s.Upstreams, u.Key)
	}
	if !used {
		d.warnFor(path, keySuffix, "no virtual server offers this upstream", "")
	}
}

func (d *decoder) checkHeaders(path string, u *Upstream) {
	first := map[string]string{}
	for _, name := range sortedKeys(u.Headers) {
		at := join(path+".headers", name)
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !headerForm.MatchString(name):
			d.problemFor(at, keySuffix, "is not a name that a header can have", "")
		case strings.EqualFold(name, "Authorization"):
			d.problemFor(at, keySuffix, "Authorization cannot be set here", "use credentials")
		case ReservedHeader(name):
			d.problemFor(at, keySuffix, "the gateway sets this header itself", "remove it")
		case first[canonical] != "":
			d.problemFor(at, keySuffix, "is the same header as "+first[canonical], "keep one of them")
		case u.Credentials.Header != nil && strings.EqualFold(u.Credentials.Header.Name, name):
			d.problemFor(at, keySuffix, "credentials.header sets this header", "keep one of them")
		}
		first[canonical] = name
		d.checkHeaderValue(at, u.Headers[name])
		if LooksSecret(name) {
			d.warnPlain(at, u.Headers[name])
		}
	}
}

// LooksSecret tells whether a header, flag or parameter of this name usually carries
// a secret. It is a guess, good enough for warnings.
func LooksSecret(name string) bool { return secretNames.MatchString(name) }

// ReservedHeader tells whether a header belongs to the protocol, to the body or to
// one hop, so that the gateway alone sets it. Case does not matter.
func ReservedHeader(name string) bool {
	name = http.CanonicalHeaderKey(name)
	for _, prefix := range []string{"Mcp-", "Content-", "Proxy-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"Host", "Accept", "Accept-Encoding", "Last-Event-Id",
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
	}, name)
}

func (d *decoder) checkHeaderValue(path string, value Secret) {
	if d.bad(path) {
		return
	}
	if strings.ContainsFunc(value.Reveal(), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		d.problemFor(path, "", "a header must not hold control characters or line ends", "")
	}
}

func (d *decoder) checkCredentials(path string, u *Upstream) {
	path += ".credentials"
	var set []string
	for _, name := range []string{"bearer", "header", "client_credentials", "exchange", "passthrough"} {
		if _, written := d.places[path+"."+name]; written {
			set = append(set, name)
		}
	}
	if len(set) > 1 {
		d.problemFor(path, keySuffix, "holds "+strings.Join(set, " and "), "keep one of them")
	}
	if at, written := d.places[path+".bearer"]; written && !at.bad {
		switch token := u.Credentials.Bearer.Reveal(); {
		case token == "":
			d.problemFor(path+".bearer", "", "must not be empty", "")
		case !bearerForm.MatchString(token):
			d.problemFor(path+".bearer", "", "a token must not hold spaces, line ends or characters beyond ASCII", "")
		}
		d.warnPlain(path+".bearer", u.Credentials.Bearer)
	}
	h := u.Credentials.Header
	if h == nil || h.Name == "" {
		return
	}
	path += ".header"
	switch {
	case d.bad(path + ".name"):
	case !headerForm.MatchString(h.Name):
		d.problemFor(path+".name", "", "is not a name that a header can have", "")
	case ReservedHeader(h.Name):
		d.problemFor(path+".name", "", "the gateway sets this header itself", "")
	}
	if at, written := d.places[path+".value"]; written && !at.bad && h.Value.IsZero() {
		d.problemFor(path+".value", "", "must not be empty", "")
	}
	d.checkHeaderValue(path+".value", h.Value)
	d.warnPlain(path+".value", h.Value)
}

func (d *decoder) checkUpstreamTLS(path string, u *Upstream) {
	if u.TLS == nil {
		return
	}
	path += ".tls"
	switch {
	case u.TLS.Cert != "" && u.TLS.Key == "":
		d.problemFor(path, "", "cert is given without key", "")
	case u.TLS.Cert == "" && u.TLS.Key != "":
		d.problemFor(path, "", "key is given without cert", "")
	}
	d.checkFile(path+".ca", u.TLS.CA)
	d.checkFile(path+".cert", u.TLS.Cert)
	d.checkFile(path+".key", u.TLS.Key)
	if strings.HasPrefix(strings.ToLower(u.URL), "http:") {
		d.warnFor(path, keySuffix, "has no effect on an http URL", "")
	}
}

func (d *decoder) warnTransport(doc *Document, path string, u *Upstream) {
	address, err := url.Parse(u.URL)
	if err != nil || u.URL == "" || d.bad(path+".url") {
		return
	}
	c := &u.Credentials
	secrets := !c.Bearer.IsZero() || c.Header != nil || c.ClientCredentials != nil || c.Exchange != nil || c.Passthrough != nil
	if address.Scheme == "http" && !loopbackHost(address.Hostname()) && secrets {
		d.warnFor(path+".url", "", "credentials travel over http in clear text", "use https")
	}
	if address.Host != doc.Listen {
		return
	}
	for _, s := range doc.Servers {
		if strings.TrimSuffix(address.Path, "/") == strings.TrimSuffix(s.Path, "/") {
			d.warnFor(path+".url", "", "is this gateway itself", "")
		}
	}
}

func validProxy(text string) bool {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) &&
		u.Hostname() != "" && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
}
