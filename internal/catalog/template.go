package catalog

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxTemplate bounds what is matched by its expressions, in bytes; a longer
// uriTemplate matches nothing but itself.
const maxTemplate = 4096

// template is an RFC 6570 template, read backwards: which URIs it may have
// expanded to.
type template struct {
	text    string
	literal string // what stands before the first expression
	compile func() *regexp.Regexp
}

func newTemplate(text string) *template {
	literal, _, _ := strings.Cut(text, "{")
	return &template{
		text:    text,
		literal: literal,
		// Lists can hold thousands of templates of which few are ever used.
		compile: sync.OnceValue(func() *regexp.Regexp { return expression(text) }),
	}
}

// match reports whether uri may be an expansion. A simple expression stands
// for any run without a slash, a reserved or path expression for any run.
func (t *template) match(uri string) bool {
	if !strings.HasPrefix(uri, t.literal) {
		return false
	}
	if len(t.text) > maxTemplate || len(t.literal) == len(t.text) {
		return uri == t.text
	}
	re := t.compile()
	return re != nil && re.MatchString(uri)
}

// expression is the regular expression of a template's expansions, nil where
// its braces do not pair. Matching takes time linear in the URI.
func expression(text string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if strings.Contains(literal, "}") {
			return nil
		}
		b.WriteString(regexp.QuoteMeta(literal))
		if !found {
			break
		}
		inner, after, closed := strings.Cut(rest, "}")
		if !closed || inner == "" || strings.Contains(inner, "{") {
			return nil
		}
		switch inner[0] {
		case '+':
			b.WriteString(`.*`)
		case '#', '/', '?', '&':
			b.WriteString(`(?:` + regexp.QuoteMeta(inner[:1]) + `.*)?`)
		case '.', ';':
			b.WriteString(`(?:` + regexp.QuoteMeta(inner[:1]) + `[^/]*)?`)
		default:
			b.WriteString(`[^/]*`)
		}
		text = after
	}
	b.WriteString(`\z`)
	re, err := regexp.Compile(b.String())
	if err != nil { // a literal that is not UTF-8
		return nil
	}
	return re
}

// templates finds the template that a URI belongs to: the longest literal
// before the first expression wins, then the order in which they were added.
type templates struct {
	lengths []int // of literals, falling
	byText  map[string][]templateRoute
}

type templateRoute struct {
	template *template
	route    *route
	node     *node
}

func (ts *templates) add(r templateRoute) {
	if ts.byText == nil {
		ts.byText = make(map[string][]templateRoute)
	}
	lit := r.template.literal
	if _, known := ts.byText[lit]; !known {
		if at, found := slices.BinarySearchFunc(ts.lengths, len(lit), func(a, b int) int { return b - a }); !found {
			ts.lengths = slices.Insert(ts.lengths, at, len(lit))
		}
	}
	ts.byText[lit] = append(ts.byText[lit], r)
}

// find calls yield with each template that uri matches, best first, until it
// returns false.
func (ts *templates) find(uri string, yield func(templateRoute) bool) {
	for _, length := range ts.lengths {
		if length > len(uri) {
			continue
		}
		for _, r := range ts.byText[uri[:length]] {
			if r.template.match(uri) && !yield(r) {
				return
			}
		}
	}
}
