package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// check finds what the shapes cannot say: rules over several values, references,
// addresses, files. It reports into d and never stops at the first problem.
func (d *decoder) check(doc *Document) {
	d.checkListen(doc)
	d.checkGuard(doc)
	d.checkKeys(doc)
	if doc.TLS != nil {
		d.checkFile("tls.cert", doc.TLS.Cert)
		d.checkFile("tls.key", doc.TLS.Key)
	}
	if path, is := strings.CutPrefix(doc.Admin, "unix:"); is && len(path) > maxSocketPath {
		d.problemFor("admin", "", fmt.Sprintf("the path of a socket must be at most %d bytes", maxSocketPath), "")
	}
	for _, key := range doc.UpstreamKeys() {
		d.checkUpstream(doc, doc.Upstreams[key])
	}
	d.checkServers(doc)
	d.checkDurable(doc)
	d.checkGovernance(doc)
}

// maxSocketPath is what every supported system can bind (macOS has the least room).
const maxSocketPath = 103

func (d *decoder) checkListen(doc *Document) {
	if !d.bad("listen") && !d.bad("allow_anonymous") {
		if err := CheckListen(doc.Listen, doc.Open()); err != nil {
			var p Problem
			if !errors.As(err, &p) {
				p.Message = err.Error()
			}
			d.problemFor("listen", "", p.Message+d.shown("listen"), p.Hint)
		} else if doc.AllowAnonymous.On() && doc.Auth != nil {
			d.warnFor("allow_anonymous", "", "callers without a credential are served as anonymous", "")
		} else if doc.AllowAnonymous.On() && !loopback(doc.Listen) {
			d.warnFor("allow_anonymous", "", "everybody who can reach "+doc.Listen+" may call every upstream", "")
		}
		if doc.Auth != nil && doc.TLS == nil && !loopback(doc.Listen) && !strings.HasPrefix(doc.PublicURL, "https:") {
			d.warnFor("listen", "", "tokens and keys of callers travel over http in clear text", "set tls, or public_url where a proxy ends TLS")
		}
	}
	if doc.Observe.Listen == "" || d.bad("observe.listen") {
		return
	}
	switch {
	case !validAddress(doc.Observe.Listen):
		d.problemFor("observe.listen", "", "must be HOST:PORT"+d.shown("observe.listen"), "")
	case doc.Observe.Listen == doc.Listen && !strings.HasSuffix(doc.Listen, ":0"):
		d.problemFor("observe.listen", "", "is the address of the main listener", "choose another port")
	case !loopback(doc.Observe.Listen):
		d.warnFor("observe.listen", "", "other machines can read the state of upstreams", "")
	}
}

// Open tells whether the main listener may be reached by other machines: there is
// auth, or anonymous callers are allowed.
func (d *Document) Open() bool { return d.Auth != nil || d.AllowAnonymous.On() }

// CheckListen tells whether the main listener may use this address: HOST:PORT, and
// loopback unless it may be open (Document.Open). It is for addresses that do not
// come from the document, such as the --listen flag. The error is a Problem.
func CheckListen(address string, open bool) error {
	if !validAddress(address) {
		return Problem{Message: "must be HOST:PORT", Hint: "for example 127.0.0.1:8080"}
	}
	if !open && !loopback(address) {
		return Problem{
			Message: "must be a loopback address",
			Hint:    "set up auth, or allow_anonymous: true to serve everybody who can reach it",
		}
	}
	return nil
}

func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsAny(host, " /@?#\t\r\n") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == port
}

// loopback tells whether an address HOST:PORT is reached from this machine alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackHost(host)
}

func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (d *decoder) checkGuard(doc *Document) {
	for i, host := range doc.AllowedHosts {
		path := fmt.Sprintf("allowed_hosts[%d]", i)
		switch {
		case d.bad(path):
		case host == "" || strings.ContainsAny(host, "/@?#* \t\r\n"):
			d.problemFor(path, "", "must be a host name, with a port if it matters"+d.shown(path), "name each host; there are no wildcards")
		}
	}
	for i, origin := range doc.AllowedOrigins {
		path := fmt.Sprintf("allowed_origins[%d]", i)
		switch {
		case d.bad(path):
		case origin == "*":
			d.warnFor(path, "", `"*" lets every web page in a user's browser call`, "name the origins")
		case !validOrigin(origin):
			d.problemFor(path, "", "must be an origin such as https://app.example.com"+d.shown(path), "")
		}
	}
}

func validOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme != "" && u.Host != "" && u.User == nil && u.Path == "" &&
		!strings.ContainsAny(origin, "?#* \t\r\n")
}

func (d *decoder) checkKeys(doc *Document) {
	for i, key := range doc.Keys.Ring {
		path := fmt.Sprintf("keys.ring[%d]", i)
		switch {
		case d.bad(path):
		case key.IsZero():
			d.problemFor(path, "", "must not be empty", "")
		case len(key.Reveal()) < 32:
			d.warnFor(path, "", "a sealing key of less than 32 bytes can be guessed", "use 32 random bytes or more")
		}
		d.warnPlain(path, key)
	}
}

// warnPlain warns of a secret that stands in the file itself.
func (d *decoder) warnPlain(path string, secret Secret) {
	if at, known := d.places[path]; known && !secret.IsZero() && at.raw == secret.Reveal() {
		d.warnFor(path, "", "the secret stands in the file", "take it from the environment: ${NAME}")
	}
}

func (d *decoder) checkFile(path, name string) {
	if name == "" || d.bad(path) {
		return
	}
	info, err := os.Stat(name)
	var failed *os.PathError
	switch {
	case errors.As(err, &failed):
		d.problemFor(path, "", "cannot be read: "+failed.Err.Error()+d.named(path), "")
	case err != nil:
		d.problemFor(path, "", "cannot be read"+d.named(path), "")
	case info.IsDir():
		d.problemFor(path, "", "is a folder, not a file"+d.named(path), "")
	}
}

// ValidURL tells whether a URL is one that an upstream may have: absolute, http or
// https, with a host, without user name and fragment.
func ValidURL(text string) bool {
	if !urlForm.MatchString(text) || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return false
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.User != nil || strings.Contains(text, "#") {
		return false
	}
	if !slices.Contains([]string{"http", "https"}, u.Scheme) {
		return false
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		n, err := strconv.ParseUint(port, 10, 16)
		return err == nil && n > 0
	}
	return true
}
