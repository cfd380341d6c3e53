package policy

import (
	"context"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// must compiles rules that are expected to be good.
func must(t testing.TB, rules ...Rule) *Policy {
	t.Helper()
	for i := range rules {
		if rules[i].ID == "" {
			rules[i].ID = string(rune('a' + i))
		}
	}
	if rules == nil {
		rules = []Rule{}
	}
	p, err := Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func allow(globs ...string) *Names { return &Names{Tools: globs} }

var alice = &Caller{
	Issuer: "https://id.example", Subject: "alice", Tenant: "acme", Scopes: []string{"mcp", "admin"},
	Claims: map[string]any{
		"team": "red", "level": float64(1700000000), "staff": true, "groups": []any{"dev", "ops", float64(7)},
		"none": nil, "deep": map[string]any{"a": "b"},
	},
}

func tool(name string) *Target {
	return &Target{
		Server: "default", Upstream: "up", Kind: mcp.Tools,
		Name: name, Original: strings.TrimPrefix(name, "up__"), Names: []string{name},
	}
}

func TestRulesDecide(t *testing.T) {
	everything := &Names{Tools: []string{"*"}, Prompts: []string{"*"}, Resources: []string{"*"}}
	for name, c := range map[string]struct {
		rules   []Rule
		target  *Target
		allowed bool
		rule    string
	}{
		"no rule allows nothing":            {nil, tool("t"), false, ""},
		"an allow allows":                   {[]Rule{{Allow: allow("t")}}, tool("t"), true, "a"},
		"an allow of others does not":       {[]Rule{{Allow: allow("u")}}, tool("t"), false, ""},
		"the first allow decides":           {[]Rule{{Allow: allow("u")}, {Allow: allow("t")}, {Allow: allow("*")}}, tool("t"), true, "b"},
		"a deny wins over an earlier allow": {[]Rule{{Allow: allow("*")}, {Deny: allow("t")}}, tool("t"), false, "b"},
		"one rule can do both":              {[]Rule{{Allow: allow("*"), Deny: allow("t*")}}, tool("t"), false, "a"},
		"a deny of another kind does not":   {[]Rule{{Allow: everything}, {Deny: &Names{Prompts: []string{"*"}}}}, tool("t"), true, "a"},
		"templates are resources": {
			[]Rule{{Allow: &Names{Resources: []string{"file:///*"}}}},
			&Target{Kind: mcp.Templates, Name: "file:///{path}"}, true, "a",
		},
		"any name is enough for an allow": {
			[]Rule{{Allow: allow("alias")}},
			&Target{Name: "short", Names: []string{"up__long", "alias", "short"}}, true, "a",
		},
		"no alias escapes a deny": {
			[]Rule{{Allow: allow("*")}, {Deny: allow("up__*")}},
			&Target{Name: "short", Names: []string{"up__long", "alias", "short"}}, false, "b",
		},
		"server":                     {[]Rule{{Server: "def*", Allow: allow("*")}}, tool("t"), true, "a"},
		"another server":             {[]Rule{{Server: "x", Allow: allow("*")}}, tool("t"), false, ""},
		"upstream":                   {[]Rule{{Upstream: "u?", Allow: allow("*")}}, tool("t"), true, "a"},
		"another upstream":           {[]Rule{{Upstream: "u", Allow: allow("*")}}, tool("t"), false, ""},
		"issuer":                     {[]Rule{{Issuer: []string{"x", "https://id.*"}, Allow: allow("*")}}, tool("t"), true, "a"},
		"another issuer":             {[]Rule{{Issuer: []string{"x"}, Allow: allow("*")}}, tool("t"), false, ""},
		"subject and tenant":         {[]Rule{{Subject: []string{"a*"}, Tenant: []string{"acme"}, Allow: allow("*")}}, tool("t"), true, "a"},
		"subject but another tenant": {[]Rule{{Subject: []string{"a*"}, Tenant: []string{"acm"}, Allow: allow("*")}}, tool("t"), false, ""},
		"all scopes":                 {[]Rule{{Scopes: []string{"mcp", "admin"}, Allow: allow("*")}}, tool("t"), true, "a"},
		"not all scopes":             {[]Rule{{Scopes: []string{"mcp", "root"}, Allow: allow("*")}}, tool("t"), false, ""},
		"scopes are no globs":        {[]Rule{{Scopes: []string{"*"}, Allow: allow("*")}}, tool("t"), false, ""},
		"a claim":                    {[]Rule{{Claims: map[string]string{"team": "r*"}, Allow: allow("*")}}, tool("t"), true, "a"},
		"a claim that is a number":   {[]Rule{{Claims: map[string]string{"level": "1700000000"}, Allow: allow("*")}}, tool("t"), true, "a"},
		"a claim that is a bool":     {[]Rule{{Claims: map[string]string{"staff": "true"}, Allow: allow("*")}}, tool("t"), true, "a"},
		"a claim that is an array":   {[]Rule{{Claims: map[string]string{"groups": "o?s"}, Allow: allow("*")}}, tool("t"), true, "a"},
		"all claims are required":    {[]Rule{{Claims: map[string]string{"groups": "7", "team": "blue"}, Allow: allow("*")}}, tool("t"), false, ""},
		"a claim that is absent":     {[]Rule{{Claims: map[string]string{"x": "*"}, Allow: allow("*")}}, tool("t"), false, ""},
		"a claim that is null":       {[]Rule{{Claims: map[string]string{"none": "*"}, Allow: allow("*")}}, tool("t"), false, ""},
		"a claim that is an object":  {[]Rule{{Claims: map[string]string{"deep": "*"}, Allow: allow("*")}}, tool("t"), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := must(t, c.rules...).For(alice)
			d := v.Decide(t.Context(), c.target, nil)
			if d.Allowed != c.allowed || d.Rule != c.rule || d.Visible != c.allowed || d.Why == "" {
				t.Errorf("decided %+v", d)
			}
			if got := v.Sees(c.target); got != c.allowed {
				t.Errorf("sees: %v", got)
			}
		})
	}
}

func TestNoPolicyAllowsEverything(t *testing.T) {
	p, err := Compile(nil)
	if p != nil || err != nil {
		t.Fatal(p, err)
	}
	v := p.For(alice)
	if v != nil || v.ID() != 0 || !v.Sees(tool("t")) {
		t.Error("a nil view hides")
	}
	if d := v.Decide(t.Context(), tool("t"), nil); !d.Allowed || !d.Visible {
		t.Errorf("a nil view decided %+v", d)
	}
	if d, steps := v.Explain(t.Context(), tool("t"), nil, true); !d.Allowed || steps != nil {
		t.Error("a nil view explains a refusal")
	}
}

func TestAnUnknownCallerIsNobody(t *testing.T) {
	p := must(t, Rule{Subject: []string{"a*"}, Allow: allow("*")}, Rule{Allow: allow("open"), When: `principal.claims.size() == 0 && principal.subject == ""`})
	v := p.For(nil)
	if v.Sees(tool("t")) || !v.Sees(tool("open")) {
		t.Error("wrong")
	}
}

// The truth table of conditions: for each, what it makes of a deny and of an
// allow, in a list and in a call.
func TestConditionsHaveThreeValues(t *testing.T) {
	type want struct{ denySees, denyCall, allowSees, allowCall bool }
	const (
		yes = true
		no  = false
	)
	target := tool("up__t")
	target.Annotations = []byte(`{"readOnlyHint":true,"title":"T"}`)
	for _, c := range []struct {
		when, args string
		want       want
	}{
		{`true`, `{}`, want{no, no, yes, yes}},
		{`false`, `{}`, want{yes, yes, no, no}},
		{`1 / 0 == 1`, `{}`, want{no, no, no, no}},
		{`arguments.env == "prod"`, `{"env":"prod"}`, want{yes, no, yes, yes}},
		{`arguments.env == "prod"`, `{"env":"dev"}`, want{yes, yes, yes, no}},
		{`arguments.env == "prod"`, `{}`, want{yes, no, yes, no}}, // no such key: an error
		{`arguments.env == "prod"`, ``, want{yes, no, yes, no}},
		{`has(arguments.env) && arguments.env == "prod"`, ``, want{yes, yes, yes, no}},
		{`has(arguments.env)`, `{"env":null}`, want{yes, no, yes, yes}},
		{`"env" in arguments`, `{"env":1}`, want{yes, no, yes, yes}},
		{`size(arguments) == 0`, `null`, want{yes, no, yes, yes}},
		{`arguments.env`, `{"env":true}`, want{yes, no, yes, yes}},
		{`arguments.env`, `{"env":"true"}`, want{yes, no, yes, no}}, // not a bool: an error

		// What is certain without the arguments decides without them.
		{`name == "up__t" || arguments.env == "prod"`, ``, want{no, no, yes, yes}},
		{`arguments.env == "prod" || name == "up__t"`, ``, want{no, no, yes, yes}},
		{`name == "x" && arguments.env == "prod"`, `{"env":"prod"}`, want{yes, yes, no, no}},
		{`arguments.env == "prod" && name == "x"`, ``, want{yes, yes, no, no}},
		{`arguments.env == "prod" && 1 / 0 == 1`, `{"env":"dev"}`, want{yes, yes, yes, no}},
		{`arguments.env == "prod" || 1 / 0 == 1`, `{"env":"dev"}`, want{yes, no, yes, no}},
		{`arguments.env == "prod" ? true : false`, `{"env":"prod"}`, want{yes, no, yes, yes}},
		{`[1, 2].exists(x, x == arguments.n)`, `{"n":2}`, want{yes, no, yes, yes}},
		{`arguments.l.exists(x, x == 2)`, `{"l":[1,2]}`, want{yes, no, yes, yes}},
		{`arguments.l.all(x, x > 0)`, `{"l":[1,-2]}`, want{yes, yes, yes, no}},
		{`{"a": 1}[arguments.k] == 1`, `{"k":"a"}`, want{yes, no, yes, yes}},
		{`(name == "x" ? tool.annotations : arguments).a == 1`, `{"a":1}`, want{yes, no, yes, yes}},
		{`[1].all(arguments, arguments == 1)`, ``, want{no, no, yes, yes}}, // a variable of the same name

		// The other variables.
		{`server == "default" && upstream == "up" && kind == "tool"`, ``, want{no, no, yes, yes}},
		{`tool.name == "t" && tool.annotations.readOnlyHint`, ``, want{no, no, yes, yes}},
		{`has(tool.annotations.destructiveHint)`, ``, want{yes, yes, no, no}},
		{`tool.annotations.destructiveHint`, ``, want{no, no, no, no}}, // absent: an error
		{`principal.subject == "alice" && principal.issuer.startsWith("https:")`, ``, want{no, no, yes, yes}},
		{`principal.tenant == "acme" && "admin" in principal.scopes`, ``, want{no, no, yes, yes}},
		{`principal.claims.team == "red" && "ops" in principal.claims.groups`, ``, want{no, no, yes, yes}},
		{`principal.claims["deep"].a == "b" && principal.claims.none == null`, ``, want{no, no, yes, yes}},
		{`dyn(principal).subject == "alice"`, ``, want{no, no, yes, yes}},
		{`dyn(principal).sub == "alice"`, ``, want{no, no, no, no}},
		{`arguments.owner == principal.subject`, `{"owner":"alice"}`, want{yes, no, yes, yes}},

		// Numbers are exact.
		{`arguments.n == 9007199254740993`, `{"n":9007199254740993}`, want{yes, no, yes, yes}},
		{`arguments.n == 9007199254740993`, `{"n":9007199254740992}`, want{yes, yes, yes, no}},
		{`arguments.n == 18446744073709551615u`, `{"n":18446744073709551615}`, want{yes, no, yes, yes}},
		{`arguments.n == 2`, `{"n":2.0}`, want{yes, no, yes, yes}},
		{`arguments.n > 1`, `{"n":1.5}`, want{yes, no, yes, yes}},
		{`arguments.n > 1`, `{"n":1e999}`, want{yes, no, yes, no}},
		{`arguments.n > 1`, `{"n":"2"}`, want{yes, no, yes, no}},

		// So is a member that some servers would take for the one that is asked for.
		{`arguments.env == "prod"`, `{"env":"dev","Env":"prod"}`, want{yes, no, yes, no}},
		{`arguments.env == "prod"`, `{"ENV":"prod","env":"dev"}`, want{yes, no, yes, no}},
		{`has(arguments.env) && arguments.env == "prod"`, `{"Env":"prod"}`, want{yes, no, yes, no}},
		{`"env" in arguments`, `{"eNv":1}`, want{yes, no, yes, no}},
		{`arguments["task"] == "x"`, `{"task":"x","tasK":"y"}`, want{yes, no, yes, no}},
		{`arguments.a.env == "prod"`, `{"a":{"env":"dev","ENV":"prod"}}`, want{yes, no, yes, no}},
		{`arguments.env == "dev"`, `{"env":"dev","a":1,"A":2,"environment":"prod"}`, want{yes, no, yes, yes}},
		{`principal.claims.team == "red"`, ``, want{no, no, yes, yes}},

		// Arguments that are none are an error.
		{`arguments.env != "prod"`, `[1]`, want{yes, no, yes, no}},
		{`arguments.env != "prod"`, `{"env":"dev"`, want{yes, no, yes, no}},
		{`arguments.env != "prod"`, `{"env":"dev"} {}`, want{yes, no, yes, no}},
		{`arguments.env != "prod"`, `{"env":"dev","env":"prod"}`, want{yes, no, yes, no}},
		{`arguments.env != "prod"`, "{\"env\":\"\xff\"}", want{yes, no, yes, no}},
		{`arguments.env != "prod"`, `{"env":"dev","a":"` + strings.Repeat("x", maxArguments) + `"}`, want{yes, no, yes, no}},
		{`arguments.env != "prod"`, `{"env":"dev","a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, want{yes, no, yes, no}},
		{`arguments.env != "prod"`, `{"env":"dev","a":[` + strings.Repeat("1,", maxValues) + `1]}`, want{yes, no, yes, no}},
		{`name == "up__t" || arguments.env != "prod"`, `[1]`, want{no, no, yes, yes}},
		{`name != "up__t"`, `[1]`, want{yes, yes, no, no}}, // not asked for: not looked at
	} {
		var args []byte
		if c.args != "" {
			args = []byte(c.args)
		}
		shown := c.args
		if len(shown) > 50 {
			shown = shown[:50]
		}
		deny := must(t, Rule{Allow: allow("*")}, Rule{Deny: allow("*"), When: c.when}).For(alice)
		permit := must(t, Rule{Allow: allow("*"), When: c.when}).For(alice)
		got := want{
			deny.Sees(target), deny.Decide(t.Context(), target, args).Allowed,
			permit.Sees(target), permit.Decide(t.Context(), target, args).Allowed,
		}
		if got != c.want {
			t.Errorf("%s with %s:\n got %+v\nwant %+v", c.when, shown, got, c.want)
		}
		for _, v := range []*View{deny, permit} {
			d := v.Decide(t.Context(), target, args)
			if sees := v.Sees(target); !d.Allowed && d.Visible != sees || d.Allowed && !sees {
				t.Errorf("%s with %s: decided %+v, sees %v", c.when, shown, d, sees)
			}
			explained, steps := v.Explain(t.Context(), target, args, true)
			if explained != d || len(steps) == 0 {
				t.Errorf("%s with %s: decided %+v, explained %+v", c.when, shown, d, explained)
			}
		}
	}
}

func TestAFailedDenyIsNamed(t *testing.T) {
	v := must(t, Rule{Allow: allow("*")}, Rule{ID: "no-prod", Deny: allow("*"), When: `arguments.env == "prod"`}).For(alice)
	d := v.Decide(t.Context(), tool("t"), nil)
	if want := (Decision{Visible: true, Rule: "no-prod", Why: whyFailed}); d != want {
		t.Errorf("decided %+v", d)
	}
	d = v.Decide(t.Context(), tool("t"), []byte(`{"env":"prod"}`))
	if want := (Decision{Visible: true, Rule: "no-prod", Why: whyDenied}); d != want {
		t.Errorf("decided %+v", d)
	}
}

func TestACancelledCallIsNotAllowed(t *testing.T) {
	v := must(t, Rule{Allow: allow("*"), When: `arguments.l.all(x, x < 1000)`}).For(alice)
	args := []byte(`{"l":[` + strings.Repeat("1,", 900) + `1]}`)
	if d := v.Decide(t.Context(), tool("t"), args); !d.Allowed {
		t.Fatalf("decided %+v", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d := v.Decide(ctx, tool("t"), args); d.Allowed || !d.Visible {
		t.Errorf("decided %+v", d)
	}
}
