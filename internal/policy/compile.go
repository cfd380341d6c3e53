package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Policy is a compiled policy. A nil *Policy allows everything; one without
// rules allows nothing.
type Policy struct {
	rules []rule // immutable
	table table
}

// rule is a compiled rule.
type rule struct {
	index            int
	id               string
	who              who
	server, upstream pattern
	allow, deny      [numKinds][]pattern // by kind
	cond             *condition          // nil: always
}

// The kinds that a policy tells apart. Templates are resources.
const (
	tools = iota
	prompts
	resources
	numKinds
)

// kindNames are what a condition reads as kind.
var kindNames = [numKinds]string{"tool", "prompt", "resource"}

func kindOf(k mcp.Kind) int {
	switch k {
	case mcp.Tools:
		return tools
	case mcp.Prompts:
		return prompts
	}
	return resources
}

func (n *Names) of(kind int) []string {
	if n == nil {
		return nil
	}
	return [numKinds][]string{n.Tools, n.Prompts, n.Resources}[kind]
}

// Compile compiles the rules. The error joins a *RuleError for every fault of
// every rule. No rules at all (nil) are no policy: a nil *Policy.
func Compile(rules []Rule) (*Policy, error) {
	if rules == nil {
		return nil, nil
	}
	p := &Policy{rules: make([]rule, len(rules))}
	var faults []error
	first := map[string]int{}
	for i := range rules {
		source := &rules[i]
		report := func(field string, line, column int, format string, args ...any) {
			faults = append(faults, &RuleError{
				Index: i, ID: source.ID, Field: field, Line: line, Column: column,
				Message: fmt.Sprintf(format, args...),
			})
		}
		if source.ID == "" {
			report("id", 0, 0, "a rule needs an id")
		} else if at, ok := first[source.ID]; ok {
			report("id", 0, 0, "policy[%d] has this id already", at)
		} else {
			first[source.ID] = i
		}
		source.checkGlobs(func(field, message string) { report(field, 0, 0, "%s", message) })
		p.rules[i] = source.compile(i)
		if source.When == "" {
			continue
		}
		cond, bad := compile(source.When)
		for _, f := range bad {
			report("when", f.line, f.column, "%s", f.message)
		}
		p.rules[i].cond = cond
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return p, nil
}

func (r *Rule) compile(index int) rule {
	out := rule{
		index: index,
		id:    r.ID,
		who: who{
			issuer:  newPatterns(r.Issuer),
			subject: newPatterns(r.Subject),
			tenant:  newPatterns(r.Tenant),
			scopes:  slices.Clone(r.Scopes),
		},
		server:   newPattern(orAll(r.Server)),
		upstream: newPattern(orAll(r.Upstream)),
	}
	for _, name := range slices.Sorted(maps.Keys(r.Claims)) {
		out.who.claims = append(out.who.claims, claim{name, newPattern(r.Claims[name])})
	}
	for kind := range numKinds {
		out.allow[kind] = newPatterns(r.Allow.of(kind))
		out.deny[kind] = newPatterns(r.Deny.of(kind))
	}
	return out
}

func orAll(glob string) string {
	if glob == "" {
		return "*"
	}
	return glob
}

// checkGlobs reports lists that nothing can fit, and globs that are too long.
func (r *Rule) checkGlobs(report func(field, message string)) {
	for _, f := range []struct {
		field string
		globs []string
	}{{"who.issuer", r.Issuer}, {"who.subject", r.Subject}, {"who.tenant", r.Tenant}} {
		if f.globs != nil && len(f.globs) == 0 {
			report(f.field, "an empty list fits nobody: leave it out to fit everybody")
		}
		checkGlobs(f.field, f.globs, report)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Claims)) {
		checkGlobs("who.claims."+name, []string{r.Claims[name]}, report)
	}
	if slices.Contains(r.Scopes, "") {
		report("who.scopes", "an empty scope")
	}
	checkGlobs("server", []string{r.Server}, report)
	checkGlobs("upstream", []string{r.Upstream}, report)
	for _, effect := range []struct {
		field string
		names *Names
	}{{"allow", r.Allow}, {"deny", r.Deny}} {
		for kind := range numKinds {
			field := effect.field + "." + kindNames[kind] + "s"
			globs := effect.names.of(kind)
			if slices.Contains(globs, "") {
				report(field, "an empty glob fits no name")
			}
			checkGlobs(field, globs, report)
		}
	}
}

func checkGlobs(field string, globs []string, report func(field, message string)) {
	for _, glob := range globs {
		if len(glob) > maxGlob {
			report(field, fmt.Sprintf("a glob of %d bytes, the limit is %d", len(glob), maxGlob))
		}
	}
}
