package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"pgregory.net/rapid"
)

// The reference model: the sentence of DESIGN section 11, taken literally, over
// rules as they are written. It shares no code with what it judges: globs are
// regular expressions, conditions are Go functions.

// modelCondition is a condition with its value by arguments; nil arguments are
// unknown ones, and "?" an unknown value, "!" an error.
type modelCondition struct {
	when  string
	value func(m *modelCall) string
}

type modelCall struct {
	caller *Caller
	target *Target
	args   map[string]any // nil: unknown
	broken bool           // the arguments are no object
}

func boolean(b bool) string {
	if b {
		return "t"
	}
	return "f"
}

func onArguments(f func(m *modelCall) string) func(m *modelCall) string {
	return func(m *modelCall) string {
		switch {
		case m.args == nil:
			return "?"
		case m.broken:
			return "!"
		}
		return f(m)
	}
}

var modelConditions = []modelCondition{
	{"", func(*modelCall) string { return "t" }},
	{"true", func(*modelCall) string { return "t" }},
	{"false", func(*modelCall) string { return "f" }},
	{"1 / 0 == 1", func(*modelCall) string { return "!" }},
	{`arguments.a == 1`, onArguments(func(m *modelCall) string {
		a, ok := m.args["a"]
		if !ok {
			return "!"
		}
		return boolean(a == float64(1))
	})},
	{`has(arguments.a)`, onArguments(func(m *modelCall) string {
		_, ok := m.args["a"]
		return boolean(ok)
	})},
	{`name == "ab" || has(arguments.a)`, func(m *modelCall) string {
		if m.target.Name == "ab" {
			return "t"
		}
		return onArguments(func(m *modelCall) string {
			_, ok := m.args["a"]
			return boolean(ok)
		})(m)
	}},
	{`has(arguments.a) && principal.subject == "a"`, func(m *modelCall) string {
		if m.caller.Subject != "a" {
			return "f"
		}
		return onArguments(func(m *modelCall) string {
			_, ok := m.args["a"]
			return boolean(ok)
		})(m)
	}},
	{`kind == "tool" && upstream == "b"`, func(m *modelCall) string {
		return boolean(m.target.Kind == mcp.Tools && m.target.Upstream == "b")
	}},
	{`principal.claims.c == "a"`, func(m *modelCall) string {
		c, ok := m.caller.Claims["c"]
		if !ok {
			return "!"
		}
		return boolean(c == "a")
	}},
}

func modelGlob(glob, name string) bool {
	expression := regexp.QuoteMeta(glob)
	expression = strings.ReplaceAll(expression, `\*`, `.*`)
	expression = strings.ReplaceAll(expression, `\?`, `.`)
	return regexp.MustCompile(`(?s)^(?:` + expression + `)$`).MatchString(name)
}

func modelAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return modelGlob(g, name) })
}

func modelWho(r *Rule, c *Caller) bool {
	if len(r.Issuer) > 0 && !modelAny(r.Issuer, c.Issuer) ||
		len(r.Subject) > 0 && !modelAny(r.Subject, c.Subject) ||
		len(r.Tenant) > 0 && !modelAny(r.Tenant, c.Tenant) {
		return false
	}
	for _, s := range r.Scopes {
		if !slices.Contains(c.Scopes, s) {
			return false
		}
	}
	for name, glob := range r.Claims {
		value, ok := c.Claims[name]
		if !ok {
			return false
		}
		values, isList := value.([]any)
		if !isList {
			values = []any{value}
		}
		if !slices.ContainsFunc(values, func(v any) bool { return modelGlob(glob, fmt.Sprint(v)) }) {
			return false
		}
	}
	return true
}

// modelEffect is the value of one effect of a rule: "f" where it does not match.
func modelEffect(r *Rule, names *Names, m *modelCall) string {
	t := m.target
	if names == nil || !modelWho(r, m.caller) ||
		r.Server != "" && !modelGlob(r.Server, t.Server) || r.Upstream != "" && !modelGlob(r.Upstream, t.Upstream) {
		return "f"
	}
	globs := names.Tools
	switch t.Kind {
	case mcp.Prompts:
		globs = names.Prompts
	case mcp.Resources, mcp.Templates:
		globs = names.Resources
	}
	if !slices.ContainsFunc(t.Names, func(name string) bool { return modelAny(globs, name) }) {
		return "f"
	}
	at := slices.IndexFunc(modelConditions, func(c modelCondition) bool { return c.when == r.When })
	return modelConditions[at].value(m)
}

func modelVisible(rules []Rule, m *modelCall) bool {
	unknown := *m
	unknown.args = nil
	for i := range rules {
		if v := modelEffect(&rules[i], rules[i].Deny, &unknown); v == "t" || v == "!" {
			return false
		}
	}
	for i := range rules {
		if v := modelEffect(&rules[i], rules[i].Allow, &unknown); v == "t" || v == "?" {
			return true
		}
	}
	return false
}

func modelDecide(rules []Rule, m *modelCall) (allowed bool, rule string) {
	for i := range rules {
		if v := modelEffect(&rules[i], rules[i].Deny, m); v == "t" || v == "!" {
			return false, rules[i].ID
		}
	}
	for i := range rules {
		if v := modelEffect(&rules[i], rules[i].Allow, m); v == "t" {
			return true, rules[i].ID
		}
	}
	return false, ""
}

// Names over a small alphabet, so that globs fit them often.
var (
	genName = rapid.StringMatching(`[abé/]{1,3}`)
	genGlob = rapid.OneOf(rapid.Just("*"), rapid.StringMatching(`[abé/*?]{1,4}`))
	genWho  = rapid.OneOf(rapid.Just([]string(nil)), rapid.Just([]string(nil)), rapid.SliceOfN(genGlob, 1, 2))
)

func genNames(t *rapid.T, label string) *Names {
	if !rapid.Bool().Draw(t, label) {
		return nil
	}
	globs := rapid.SliceOfN(genGlob, 0, 2)
	return &Names{globs.Draw(t, "tools"), globs.Draw(t, "prompts"), globs.Draw(t, "resources")}
}

func genRules(t *rapid.T) []Rule {
	rules := make([]Rule, rapid.IntRange(0, 6).Draw(t, "rules"))
	for i := range rules {
		r := &rules[i]
		r.ID = fmt.Sprint("r", i)
		r.Issuer, r.Subject, r.Tenant = genWho.Draw(t, "issuer"), genWho.Draw(t, "subject"), genWho.Draw(t, "tenant")
		r.Scopes = rapid.SliceOfN(rapid.SampledFrom([]string{"s", "t"}), 0, 1).Draw(t, "scopes")
		if rapid.IntRange(0, 3).Draw(t, "claims") == 0 {
			r.Claims = map[string]string{"c": genGlob.Draw(t, "claim")}
		}
		r.Server = rapid.SampledFrom([]string{"", "", "*", "a", "?"}).Draw(t, "server")
		r.Upstream = rapid.SampledFrom([]string{"", "", "*", "b", "?"}).Draw(t, "upstream")
		r.Allow, r.Deny = genNames(t, "allow"), genNames(t, "deny")
		r.When = rapid.SampledFrom(modelConditions).Draw(t, "when").when
	}
	return rules
}

func genCaller(t *rapid.T) *Caller {
	c := &Caller{
		Issuer: genName.Draw(t, "issuer"), Subject: genName.Draw(t, "subject"), Tenant: genName.Draw(t, "tenant"),
		Scopes: rapid.SliceOfN(rapid.SampledFrom([]string{"s", "t", "u"}), 0, 3).Draw(t, "scopes"),
		Claims: map[string]any{},
	}
	switch rapid.IntRange(0, 3).Draw(t, "claim") {
	case 0:
		c.Claims["c"] = genName.Draw(t, "value")
	case 1:
		c.Claims["c"] = []any{genName.Draw(t, "value"), true}
	case 2:
		c.Claims["c"] = rapid.Bool().Draw(t, "value")
	}
	return c
}

func genTarget(t *rapid.T) *Target {
	out := &Target{
		Server: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "server"), Upstream: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "upstream"),
		Kind: rapid.SampledFrom([]mcp.Kind{mcp.Tools, mcp.Tools, mcp.Prompts, mcp.Resources, mcp.Templates}).Draw(t, "kind"),
		Name: genName.Draw(t, "name"),
	}
	out.Names = append(rapid.SliceOfN(genName, 0, 2).Draw(t, "names"), out.Name)
	return out
}

func TestThePolicyIsTheOneOfTheDesign(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		rules := genRules(t)
		p, err := Compile(rules)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			caller := genCaller(t)
			view := p.For(caller)
			for range 5 {
				m := &modelCall{caller: caller, target: genTarget(t)}
				raw := rapid.SampledFrom([]string{"", "null", "{}", `{"a":1}`, `{"a":2}`, `{"a":null}`, `[]`, `{`}).Draw(t, "arguments")
				m.args = map[string]any{}
				if raw != "" && json.Unmarshal([]byte(raw), &m.args) != nil {
					m.broken = true
				}
				if m.args == nil {
					m.args = map[string]any{}
				}
				allowed, rule := modelDecide(rules, m)
				visible := modelVisible(rules, m)
				args := []byte(raw)
				d := view.Decide(t.Context(), m.target, args)
				if d.Allowed != allowed || d.Rule != rule || d.Visible != visible {
					t.Fatalf("decided %+v, want %v by %q, visible %v", d, allowed, rule, visible)
				}
				if got := view.Sees(m.target); got != visible {
					t.Fatalf("sees %v, want %v", got, visible)
				}
				if !bytes.Equal(args, []byte(raw)) {
					t.Fatal("the arguments were changed")
				}
				explained, steps := view.Explain(t.Context(), m.target, args, true)
				if explained != d {
					t.Fatalf("explained %+v, decided %+v", explained, d)
				}
				checkSteps(t, rules, d, steps)
				if listed, _ := view.Explain(t.Context(), m.target, nil, false); listed.Allowed != visible || listed.Visible != visible {
					t.Fatalf("explained %+v for a list, want %v", listed, visible)
				}
				seen[fmt.Sprint(allowed, visible)]++
			}
		}
	})
	for _, want := range []string{"true true", "false true", "false false"} {
		if seen[want] == 0 {
			t.Errorf("never seen: %s", want)
		}
	}
}

// checkSteps: every rule has its say, and the one that decided says so.
func checkSteps(t *rapid.T, rules []Rule, d Decision, steps []Step) {
	var order []string
	deciding := 0
	for _, s := range steps {
		if len(order) == 0 || order[len(order)-1] != s.Rule {
			order = append(order, s.Rule)
		}
		if strings.HasPrefix(s.Outcome, decides) {
			deciding++
			if s.Rule != d.Rule || (s.Effect == "allow") != d.Allowed {
				t.Fatalf("%+v decides, but %+v", s, d)
			}
		}
	}
	if (d.Rule != "") != (deciding == 1) {
		t.Fatalf("%d steps decide: %+v", deciding, steps)
	}
	if len(order) != len(rules) {
		t.Fatalf("the steps tell of %q", order)
	}
	for i := range rules {
		if order[i] != rules[i].ID {
			t.Fatalf("the steps tell of %q", order)
		}
	}
}

// Two callers with one id are decided alike, whatever the target.
func TestViewsWithOneIDDecideAlike(t *testing.T) {
	same := 0
	rapid.Check(t, func(t *rapid.T) {
		p, err := Compile(genRules(t))
		if err != nil {
			t.Fatal(err)
		}
		a, b := p.For(genCaller(t)), p.For(genCaller(t))
		if a.ID() != b.ID() {
			return
		}
		same++
		for range 10 {
			target := genTarget(t)
			args := []byte(rapid.SampledFrom([]string{"", "{}", `{"a":1}`}).Draw(t, "arguments"))
			if a.Sees(target) != b.Sees(target) || a.Decide(t.Context(), target, args) != b.Decide(t.Context(), target, args) {
				t.Fatal("they are not")
			}
		}
	})
	if same == 0 {
		t.Error("no two callers had one id")
	}
}

// Whatever the arguments are, an allow and a deny with one condition are never
// both in its favour, and what is allowed is seen.
func FuzzDecideArguments(f *testing.F) {
	for _, args := range []string{`{}`, `{"a":1}`, `{"a":[1,[2,{"b":null}]]}`, `{"a":1,"a":2}`, `[]`, `null`, `{"a":1e400}`, `{"a":"\ud800"}`, `{"a":-0}`} {
		f.Add([]byte(args))
	}
	var views [][2]*View
	for _, when := range []string{
		`arguments.a == 1`, `has(arguments.a) && arguments.a.all(x, x == arguments.b)`, `arguments == arguments`,
		`arguments.a.matches("^(a+)+$")`, `size(arguments) > 1`, `arguments.exists(k, k == "a" && arguments[k] in [1, 2.5, "x"])`,
		`int(arguments.a) > 0`, `string(arguments.a) == "1"`, `arguments.a + arguments.b == arguments.c`,
	} {
		views = append(views, [2]*View{
			must(f, Rule{Allow: allow("*"), When: when}).For(alice),
			must(f, Rule{Allow: allow("*")}, Rule{Deny: allow("*"), When: when}).For(alice),
		})
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		before := bytes.Clone(args)
		for _, v := range views {
			permit, deny := v[0].Decide(t.Context(), tool("t"), args), v[1].Decide(t.Context(), tool("t"), args)
			if permit.Allowed && deny.Allowed {
				t.Error("the condition is true and false")
			}
			if !permit.Visible || !deny.Visible {
				t.Error("hidden because of the arguments")
			}
			if len(args) > 0 && !json.Valid(args) && (permit.Allowed || deny.Allowed) {
				t.Error("allowed with invalid arguments")
			}
		}
		if !bytes.Equal(args, before) {
			t.Error("the arguments were changed")
		}
	})
}
