package policy

import (
	"fmt"
	"strings"
)

// Rule is one rule as the document states it. A field that is absent (nil, or
// "" for Server, Upstream and When) restricts nothing. The fields of "who" are
// all required at once; of several globs in one field, one has to fit.
type Rule struct {
	ID string // required and unique

	// Who is asking. Scopes are exact, and the caller has to have all of them.
	// Claims maps a claim's name to a glob over its value: the plain text of a
	// string, number or boolean, and of any element of an array.
	Issuer, Subject, Tenant []string
	Scopes                  []string
	Claims                  map[string]string

	Server, Upstream string // globs

	Allow, Deny *Names

	When string // a CEL expression that yields a bool
}

// Names are globs over the names of things, by kind. Resources are named by
// their URIs, templates by their URI templates. A kind without a glob is not
// concerned.
type Names struct {
	Tools, Prompts, Resources []string
}

// RuleError is one fault of one rule.
type RuleError struct {
	Index int    // of the rule, from 0
	ID    string // of the rule, where it has one
	Field string // as in the document: "when", "allow", "who.subject"

	// Line and Column are the place within the condition, from 1 and in
	// characters; 0 where the fault is not in a condition.
	Line, Column int

	Message string // without the place
}

// Error names the rule, the field and the place.
func (e *RuleError) Error() string {
	var b strings.Builder
	if e.ID != "" {
		fmt.Fprintf(&b, "rule %q: ", e.ID)
	} else {
		fmt.Fprintf(&b, "rule %d: ", e.Index+1)
	}
	b.WriteString(e.Field)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	b.WriteString(e.Message)
	return b.String()
}
