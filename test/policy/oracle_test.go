package policy_test

import (
	"slices"
	"strings"
)

// The oracle: the sentences of DESIGN section 11 on rules, written anew.

// truth is what a condition says. Unknown is what depends on arguments that are
// not known.
type truth int

const (
	no truth = iota
	yes
	unknown
	failed
)

// condition is one in CEL and what it means.
type condition struct {
	text string
	of   func(f *facts) truth
}

// facts are what a condition may look at.
type facts struct {
	who  *caller
	what *target
	args map[string]any // nil: not known
}

// names are the globs of a rule, by kind.
type names struct{ tools, prompts, resources []string }

// rule is one of a policy. Empty fields restrict nothing.
type rule struct {
	id               string
	subject, tenant  string
	scopes           []string
	claims           map[string]string
	server, upstream string
	allow, deny      names
	when             *condition
}

// verdict is what a policy says of a target.
type verdict struct{ visible, allowed bool }

// judge decides what a caller sees and may call. args nil is a call without any.
func judge(rules []rule, who *caller, what *target, args map[string]any) verdict {
	if args == nil {
		args = map[string]any{}
	}
	seen := matching(rules, who, what, nil)
	// Unknown never hides; what no rule could allow is hidden.
	v := verdict{visible: !seen.denies(yes, failed) && seen.allows(yes, unknown)}
	called := matching(rules, who, what, args)
	// An error in a deny condition denies, an error in an allow condition does not
	// allow. Any deny that matches wins.
	v.allowed = v.visible && !called.denies(yes, failed) && called.allows(yes)
	return v
}

// outcomes are what the conditions of the rules that concern a target say.
type outcomes struct{ deny, allow []truth }

func (o outcomes) denies(any ...truth) bool {
	return slices.ContainsFunc(o.deny, func(t truth) bool { return slices.Contains(any, t) })
}

func (o outcomes) allows(any ...truth) bool {
	return slices.ContainsFunc(o.allow, func(t truth) bool { return slices.Contains(any, t) })
}

func matching(rules []rule, who *caller, what *target, args map[string]any) (o outcomes) {
	for _, r := range rules {
		if !r.concerns(who, what) {
			continue
		}
		t := yes
		if r.when != nil {
			t = r.when.of(&facts{who, what, args})
		}
		if what.named(r.deny) {
			o.deny = append(o.deny, t)
		}
		if what.named(r.allow) {
			o.allow = append(o.allow, t)
		}
	}
	return o
}

func (r *rule) concerns(who *caller, what *target) bool {
	for _, pair := range [][2]string{{r.subject, who.subject}, {r.tenant, who.tenant}, {r.server, what.server}, {r.upstream, what.upstream}} {
		if pair[0] != "" && !like(pair[0], pair[1]) {
			return false
		}
	}
	for _, s := range r.scopes {
		if !slices.Contains(who.scopes, s) {
			return false
		}
	}
	for name, glob := range r.claims {
		value, is := who.claims[name].(string)
		if !is || !like(glob, value) {
			return false
		}
	}
	return true
}

// named tells whether a glob fits any of a target's names.
func (t *target) named(n names) bool {
	globs := map[string][]string{"tool": n.tools, "prompt": n.prompts, "resource": n.resources}[t.kind]
	return slices.ContainsFunc(globs, func(g string) bool {
		return slices.ContainsFunc(t.names, func(name string) bool { return like(g, name) })
	})
}

// like matches a glob with *, letter by letter.
func like(glob, s string) bool {
	head, rest, star := strings.Cut(glob, "*")
	if !star {
		return glob == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	for s = s[len(head):]; ; s = s[1:] {
		if like(rest, s) {
			return true
		}
		if s == "" {
			return false
		}
	}
}

func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quote(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func (n names) yaml() string {
	return "{tools: " + quoted(n.tools) + ", prompts: " + quoted(n.prompts) + ", resources: " + quoted(n.resources) + "}"
}

func (n names) empty() bool { return len(n.tools)+len(n.prompts)+len(n.resources) == 0 }

// section is the policy as a document states it.
func section(rules []rule) string {
	var b strings.Builder
	b.WriteString("policy:\n")
	for _, r := range rules {
		b.WriteString("  - id: " + quote(r.id) + "\n")
		var who []string
		if r.subject != "" {
			who = append(who, "subject: "+quoted([]string{r.subject}))
		}
		if r.tenant != "" {
			who = append(who, "tenant: "+quoted([]string{r.tenant}))
		}
		if r.scopes != nil {
			who = append(who, "scopes: "+quoted(r.scopes))
		}
		for name, glob := range r.claims {
			who = append(who, "claims: {"+name+": "+quote(glob)+"}")
		}
		for key, value := range map[string]string{"who": strings.Join(who, ", "), "server": r.server, "upstream": r.upstream} {
			switch {
			case value == "":
			case key == "who":
				b.WriteString("    who: {" + value + "}\n")
			default:
				b.WriteString("    " + key + ": " + quote(value) + "\n")
			}
		}
		if !r.allow.empty() {
			b.WriteString("    allow: " + r.allow.yaml() + "\n")
		}
		if !r.deny.empty() {
			b.WriteString("    deny: " + r.deny.yaml() + "\n")
		}
		if r.when != nil {
			b.WriteString("    when: " + quote(r.when.text) + "\n")
		}
	}
	return b.String()
}
