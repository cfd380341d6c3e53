package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// FromUpstreams is the document of `--upstream NAME=URL` alone: a single upstream
// is served passthrough, several are namespaced. The error is Problems.
func FromUpstreams(args []string) (*Document, error) {
	doc := &Document{}
	documentShape().fill(target(doc))
	doc.complete()
	if len(args) == 1 {
		doc.Servers[DefaultServer].Naming = NamingPassthrough
		doc.Servers[DefaultServer].Separator = ""
	}
	if err := doc.AddUpstreams(args); err != nil {
		return nil, err
	}
	return doc, nil
}

// AddUpstreams adds the upstreams of `--upstream NAME=URL` flags (or
// `NAME='command args'`, split into words as a shell does it) to every server
// that offers all of them, and checks the document again. With an error, which is
// Problems, the document is unusable. It must not run beside readers of d.
func (d *Document) AddUpstreams(args []string) error {
	c := &decoder{places: map[string]place{}}
	if d.Upstreams == nil {
		d.Upstreams = map[string]*Upstream{}
	}
	for _, arg := range args {
		name, address, found := strings.Cut(arg, "=")
		at := "--upstream " + name
		switch {
		case !found || name == "" || address == "":
			c.flagProblem("--upstream", "must be NAME=URL or NAME='command args'")
		case !keyForm.MatchString(name):
			c.flagProblem("--upstream", "the name "+keyRule)
		case d.Upstreams[name] != nil:
			c.flagProblem(at, "there is an upstream of that name already")
		case strings.HasPrefix(address, "http://"), strings.HasPrefix(address, "https://"):
			if !ValidURL(address) {
				c.flagProblem(at, "must be an absolute http or https URL without user name and fragment")
				continue
			}
			u := &Upstream{URL: address}
			upstreamShape().fill(reflect.ValueOf(u).Elem())
			d.Upstreams[name] = u
		case otherScheme.MatchString(address):
			c.flagProblem(at, "must be an http or https URL, or a command")
		default:
			argv, err := splitWords(address)
			if err != nil || len(argv) == 0 {
				c.flagProblem(at, "the command "+err.Error())
				continue
			}
			u := &Upstream{Command: argv}
			upstreamShape().fill(reflect.ValueOf(u).Elem())
			d.Upstreams[name] = u
		}
	}
	if len(c.problems) > 0 {
		return c.problems
	}
	d.complete()
	c.check(d)
	if len(c.problems) > 0 {
		return c.problems
	}
	d.Warnings = slices.DeleteFunc(d.Warnings, func(w Problem) bool { return w.Message == nothingOffered })
	for _, w := range c.warnings {
		known := func(old Problem) bool { return old.Path == w.Path && old.Message == w.Message }
		if !slices.ContainsFunc(d.Warnings, known) {
			d.Warnings = append(d.Warnings, w)
		}
	}
	return nil
}

// otherScheme is the beginning of a URL.
var otherScheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*://`)

func (d *decoder) flagProblem(path, message string) {
	d.problems = append(d.problems, Problem{Path: path, Message: message})
}

func upstreamShape() *shape {
	for _, f := range documentShape().fields {
		if f.name == "upstreams" {
			return f.shape.elem
		}
	}
	panic("config: the document has no upstreams")
}
