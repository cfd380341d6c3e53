package policy

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
)

func TestCallersThatNothingTellsApartShareAnID(t *testing.T) {
	p := must(
		t,
		Rule{Subject: []string{"a*"}, Allow: allow("*")},
		Rule{Tenant: []string{"acme"}, Allow: allow("x"), When: `principal.claims.team == arguments.team && principal.tenant != ""`},
	)
	with := func(change func(c *Caller)) uint64 {
		c := *alice
		c.Claims = map[string]any{"team": "red", "exp": float64(1)}
		change(&c)
		return p.For(&c).ID()
	}
	base := with(func(*Caller) {})
	for name, change := range map[string]func(c *Caller){
		"another subject that fits": func(c *Caller) { c.Subject = "adam" },
		"another claim":             func(c *Caller) { c.Claims["exp"] = float64(2) },
		"another scope":             func(c *Caller) { c.Scopes = nil },
	} {
		if with(change) != base {
			t.Errorf("%s: another id", name)
		}
	}
	ids := map[uint64]string{base: "base", 0: "nil"}
	for name, change := range map[string]func(c *Caller){
		"a subject that does not fit": func(c *Caller) { c.Subject = "bob" },
		"another tenant":              func(c *Caller) { c.Tenant = "other" },
		"another team":                func(c *Caller) { c.Claims["team"] = "blue" },
		"a team that is a number":     func(c *Caller) { c.Claims["team"] = float64(1) },
		"a team that is an int":       func(c *Caller) { c.Claims["team"] = int64(1) },
		"a team that is a Number":     func(c *Caller) { c.Claims["team"] = json.Number("1") },
		"a team that is a list":       func(c *Caller) { c.Claims["team"] = []any{"red"} },
		"a team that is an object":    func(c *Caller) { c.Claims["team"] = map[string]any{"red": nil} },
		"a team that is null":         func(c *Caller) { c.Claims["team"] = nil },
		"no team":                     func(c *Caller) { delete(c.Claims, "team") },
		"a team that is no JSON":      func(c *Caller) { c.Claims["team"] = struct{}{} },
	} {
		id := with(change)
		if other, ok := ids[id]; ok {
			t.Errorf("%s has the id of %s", name, other)
		}
		ids[id] = name
	}
	one, other := must(t, Rule{Allow: allow("*")}), must(t, Rule{Allow: allow("*")})
	if one.For(alice).ID() == other.For(alice).ID() {
		t.Error("two policies share an id")
	}
}

func TestWhatAConditionMentionsTellsCallersApart(t *testing.T) {
	one := &Caller{Issuer: "i", Subject: "a", Tenant: "t", Scopes: []string{"s"}, Claims: map[string]any{"a": "1", "b": "1"}}
	for when, apart := range map[string][4]bool{ // subject, scopes, claim a, claim b
		`true`:                                                    {},
		`principal.subject == "a"`:                                {true, false, false, false},
		`"s" in principal.scopes`:                                 {false, true, false, false},
		`principal.claims.a == "1"`:                               {false, false, true, false},
		`has(principal.claims.a)`:                                 {false, false, true, false},
		`principal.claims["b"] == "1"`:                            {false, false, false, true},
		`"b" in principal.claims`:                                 {false, false, false, true},
		`principal.claims[name] == "1"`:                           {false, false, true, true},
		`principal.claims.exists(c, c == "a")`:                    {false, false, true, true},
		`principal == principal`:                                  {true, true, true, true},
		`dyn(principal).subject == "a"`:                           {true, true, true, true},
		`.principal.subject == "a"`:                               {true, false, false, false},
		`[1].exists(x, x == 1 && principal.subject == "a")`:       {true, false, false, false},
		`[principal.claims].exists(c, c.b == "1")`:                {false, false, true, true},
		`principal.issuer == "i" && principal.subject.size() > 0`: {true, false, false, false},
	} {
		p := must(t, Rule{Allow: allow("*"), When: when})
		base := p.For(one).ID()
		for i, change := range []func(c *Caller){
			func(c *Caller) { c.Subject = "b" },
			func(c *Caller) { c.Scopes = []string{"t"} },
			func(c *Caller) { c.Claims = map[string]any{"a": "2", "b": "1"} },
			func(c *Caller) { c.Claims = map[string]any{"a": "1", "b": "2"} },
		} {
			c := *one
			change(&c)
			if got := p.For(&c).ID() != base; got != apart[i] {
				t.Errorf("%s: change %d tells apart: %v", when, i, got)
			}
		}
	}
}

func TestAMillionCallersDoNotStay(t *testing.T) {
	p := must(t, Rule{Allow: allow("*"), When: `principal.subject == arguments.owner`})
	first := p.For(&Caller{Subject: "0"})
	for i := range 2 * maxViews {
		p.For(&Caller{Subject: fmt.Sprint(i + 1)})
	}
	if n := len(p.table.byKey); n != maxViews || p.table.recent.Len() != n {
		t.Errorf("%d views are kept", n)
	}
	// A view that is no longer shared goes on to decide.
	if d := first.Decide(t.Context(), tool("t"), []byte(`{"owner":"0"}`)); !d.Allowed {
		t.Errorf("decided %+v", d)
	}
	if again := p.For(&Caller{Subject: "0"}); again.ID() == first.ID() {
		t.Error("an id that was dropped came back")
	}
}

func TestAViewRemembersABoundedNumberOfUpstreams(t *testing.T) {
	v := must(t, Rule{Upstream: "*7", Allow: allow("*")}).For(alice)
	for i := range maxLanes + 100 {
		target := tool("t")
		target.Upstream = fmt.Sprint(i)
		if v.Sees(target) != (i%10 == 7) {
			t.Errorf("upstream %d", i)
		}
	}
	if n := len(*v.lanes.Load()); n != maxLanes {
		t.Errorf("%d are remembered", n)
	}
}

func TestManyDecideAtOnce(t *testing.T) {
	p := must(
		t,
		Rule{Allow: allow("*"), When: `principal.subject == arguments.owner && arguments.l.all(x, x.matches("^a+$"))`},
		Rule{Deny: allow("x*"), When: `tool.annotations.no && name.contains("x")`},
	)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 200 {
				subject := fmt.Sprint("s", (g+i)%3)
				v := p.For(&Caller{Subject: subject})
				target := tool("t")
				target.Upstream = fmt.Sprint(i % 5)
				args := fmt.Sprintf(`{"owner":"s%d","l":["a","aa"]}`, i%3)
				want := subject == fmt.Sprint("s", i%3)
				if d := v.Decide(t.Context(), target, []byte(args)); d.Allowed != want || !d.Visible {
					t.Errorf("%s with %s: %+v", subject, args, d)
				}
				target.Name, target.Names, target.Annotations = "x", nil, []byte(`{"no":true}`)
				if v.Sees(target) {
					t.Error("sees what is denied")
				}
			}
		})
	}
	all.Wait()
}

func TestExplainTellsOfEveryRule(t *testing.T) {
	p := must(
		t,
		Rule{ID: "issuer", Issuer: []string{"x"}, Allow: allow("*")},
		Rule{ID: "subject", Subject: []string{"x"}, Allow: allow("*")},
		Rule{ID: "tenant", Tenant: []string{"x"}, Allow: allow("*")},
		Rule{ID: "scopes", Scopes: []string{"x"}, Allow: allow("*")},
		Rule{ID: "claims", Claims: map[string]string{"x": "*"}, Allow: allow("*")},
		Rule{ID: "server", Server: "x", Allow: allow("*")},
		Rule{ID: "upstream", Upstream: "x", Allow: allow("*")},
		Rule{ID: "kind", Allow: &Names{Prompts: []string{"*"}}},
		Rule{ID: "name", Allow: allow("x")},
		Rule{ID: "false", Allow: allow("*"), When: `name == "x"`},
		Rule{ID: "fails", Allow: allow("*"), When: `1 / 0 == 1`},
		Rule{ID: "nothing"},
		Rule{ID: "maybe", Allow: allow("*"), When: `arguments.a == 1`},
		Rule{ID: "yes", Allow: allow("*"), Deny: allow("x")},
		Rule{ID: "no-prod", Deny: allow("*"), When: `arguments.env == "prod"`},
		Rule{ID: "late", Deny: allow("*"), When: `has(arguments.env)`},
	)
	v := p.For(alice)
	same := []Step{
		{"issuer", "allow", "does not match: issuer"},
		{"subject", "allow", "does not match: subject"},
		{"tenant", "allow", "does not match: tenant"},
		{"scopes", "allow", "does not match: scopes"},
		{"claims", "allow", "does not match: claims"},
		{"server", "allow", "does not match: server"},
		{"upstream", "allow", "does not match: upstream"},
		{"kind", "allow", "does not match: kind"},
		{"name", "allow", "does not match: name"},
		{"false", "allow", "does not match: condition is false"},
		{"fails", "allow", "does not match: condition failed: division by zero"},
		{"nothing", "", "names nothing"},
	}
	for name, c := range map[string]struct {
		args  string
		known bool
		want  Decision
		steps []Step
	}{
		"a list": {"", false, Decision{Allowed: true, Visible: true, Depends: true, Rule: "maybe", Why: whyMay}, []Step{
			{"maybe", "allow", mayAllow},
			{"yes", "deny", "does not match: name"},
			{"yes", "allow", tooLate},
			{"no-prod", "deny", "matches, depending on the arguments: unknown does not hide"},
			{"late", "deny", "matches, depending on the arguments: unknown does not hide"},
		}},
		"a call with both": {`{"env":"dev","a":1}`, true, Decision{Visible: true, Rule: "late", Why: whyDenied}, []Step{
			{"maybe", "allow", tooLate},
			{"yes", "deny", "does not match: name"},
			{"yes", "allow", tooLate},
			{"no-prod", "deny", "does not match: condition is false"},
			{"late", "deny", decides},
		}},
		"a call that fails": {`{"a":2}`, true, Decision{Visible: true, Rule: "no-prod", Why: whyFailed}, []Step{
			{"maybe", "allow", "does not match: condition is false"},
			{"yes", "deny", "does not match: name"},
			{"yes", "allow", tooLate},
			{"no-prod", "deny", decides + ": condition failed: no such key: env"},
			{"late", "deny", "does not match: condition is false"},
		}},
		"a denied call": {`{"env":"prod"}`, true, Decision{Visible: true, Rule: "no-prod", Why: whyDenied}, []Step{
			{"maybe", "allow", "does not match: condition failed: no such key: a"},
			{"yes", "deny", "does not match: name"},
			{"yes", "allow", tooLate},
			{"no-prod", "deny", decides},
			{"late", "deny", tooLate},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, steps := v.Explain(t.Context(), tool("t"), []byte(c.args), c.known)
			if d != c.want {
				t.Errorf("decided %+v, want %+v", d, c.want)
			}
			want := append(append([]Step{}, same...), c.steps...)
			if len(steps) != len(want) {
				t.Fatalf("%d steps, want %d: %+v", len(steps), len(want), steps)
			}
			for i := range want {
				if steps[i] != want[i] {
					t.Errorf("step %+v, want %+v", steps[i], want[i])
				}
			}
		})
	}
}
