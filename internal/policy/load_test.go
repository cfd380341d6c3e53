package policy

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// faults are the RuleErrors of an error of Compile.
func faults(t testing.TB, err error) []*RuleError {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("not joined: %v", err)
	}
	var out []*RuleError
	for _, e := range joined.Unwrap() {
		var r *RuleError
		if !errors.As(e, &r) {
			t.Fatalf("not a RuleError: %v", e)
		}
		out = append(out, r)
	}
	return out
}

func TestABadConditionIsRefusedAtItsPlace(t *testing.T) {
	for _, c := range []struct {
		when         string
		line, column int
		message      string
	}{
		{`principal.sub == "x"`, 1, 10, "undefined field 'sub'"},
		{"true &&\n  tool.nam == 'x'", 2, 7, "undefined field 'nam'"},
		{`argument.env == "x"`, 1, 1, "undeclared reference to 'argument'"},
		{`name == 1`, 1, 6, "no matching overload"},
		{`name`, 1, 1, "of type string"},
		{`1 + 1`, 1, 1, "of type int"},
		{`tool.annotations`, 1, 1, "of type map(string, dyn)"},
		{`name ==`, 1, 8, "Syntax error"},
		{`name = "x"`, 1, 6, "Syntax error"},
		{`"é" == name && nme == "x"`, 1, 16, "undeclared reference to 'nme'"},
		{` `, 1, 2, "Syntax error"},
		{`name.matches("(")`, 1, 14, "invalid matches argument"},
		{`name.matches("a{1000}")`, 1, 14, "exceeds limit"},
		{`name.matches(principal.subject)`, 1, 23, "has to be a literal"},
		{`matches(name, "a" + "b")`, 1, 19, "has to be a literal"},
		{`duration("x") > duration("1s")`, 1, 10, "invalid duration"},
		{`timestamp("x") > timestamp(0)`, 1, 11, "invalid timestamp"},
		{`penstock.Principal{subject: "x"} == principal`, 1, 19, "cannot construct"},
		{`google.protobuf.Struct{} == arguments`, 1, 23, "cannot construct"},
		{`arguments.a.all(x, x.all(y, y.all(z, z)))`, 1, 34, "nesting limit"},
		{strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), 1, 1, ""},
		{strings.Repeat("-(", 200) + "1" + strings.Repeat(")", 200) + " == 1", 1, 1, ""},
		{"name == '" + strings.Repeat("x", maxExpression) + "'", 1, 1, "the limit is 4096"},
		{
			"[" + strings.Repeat("1,", 150) + "1].map(x, [" + strings.Repeat("1,", 150) + "1].map(y, y + x).size()).size() == 151",
			1, 1, "costs at least",
		},
	} {
		shown := c.when
		if len(shown) > 60 {
			shown = shown[:60] + "…"
		}
		start := time.Now()
		p, err := Compile([]Rule{{ID: "first", Allow: allow("*")}, {ID: "bad", Allow: allow("*"), When: c.when}})
		if p != nil || err == nil {
			t.Errorf("%s: compiled", shown)
			continue
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", shown, took)
		}
		got := faults(t, err)[0]
		if got.Index != 1 || got.ID != "bad" || got.Field != "when" || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %+v", shown, got)
		}
		if c.message != "" && (got.Line != c.line || got.Column != c.column) {
			t.Errorf("%s: at %d:%d, want %d:%d (%s)", shown, got.Line, got.Column, c.line, c.column, got.Message)
		}
		if got.Line < 1 || got.Column < 1 {
			t.Errorf("%s: at %d:%d", shown, got.Line, got.Column)
		}
	}
}

func TestEveryFaultOfEveryRuleIsReported(t *testing.T) {
	_, err := Compile([]Rule{
		{ID: "a", Allow: allow("*"), When: "nme == 'x' || principal.sub == 'y'"},
		{Allow: allow(""), Issuer: []string{}, Scopes: []string{""}},
		{ID: "a", Server: strings.Repeat("x", maxGlob+1), Claims: map[string]string{"c": strings.Repeat("x", maxGlob+1)}},
	})
	want := []string{
		`rule "a": when:1:1: undeclared reference to 'nme' (did you mean 'name'?)`,
		`rule "a": when:1:24: undefined field 'sub'`,
		`rule 2: id: a rule needs an id`,
		`rule 2: who.issuer: an empty list fits nobody: leave it out to fit everybody`,
		`rule 2: who.scopes: an empty scope`,
		`rule 2: allow.tools: an empty glob fits no name`,
		`rule "a": id: policy[0] has this id already`,
		`rule "a": who.claims.c: a glob of 1025 bytes, the limit is 1024`,
		`rule "a": server: a glob of 1025 bytes, the limit is 1024`,
	}
	got := faults(t, err)
	for i, f := range got {
		if i >= len(want) || f.Error() != want[i] {
			t.Errorf("fault %d: %s", i, f)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d faults, want %d", len(got), len(want))
	}
}

// Text that is hard to parse is refused, or compiled, soon.
func TestNoConditionTakesLongToCompile(t *testing.T) {
	fill := func(part string) string { return strings.Repeat(part, maxExpression/len(part)) }
	for _, when := range []string{
		fill("("), fill("["), fill("{"), fill("[[1,"), fill("{a:"), fill("a?"), fill("a?a:"), fill("!"), fill("-"), fill("."), fill("a."),
		fill("a["), fill("a("), fill("a.b("), fill("has("), fill("'"), fill("\\"), fill("1+") + "1 == 1", fill("a&&"), fill("true||") + "true",
		fill("(a)"), fill("a<"), fill("[].all(x,"), fill("\"\"\""), fill("a{b:"), fill("1 in [") + "1", fill("\n"), fill("//"), fill("\x00"), fill("é"),
		"name.matches('" + fill("(a|")[:4000] + "')", "name.matches('" + strings.Repeat("(", 900) + strings.Repeat("){9}", 600) + "')",
	} {
		start := time.Now()
		_, bad := compile(when)
		took := time.Since(start)
		if took > 5*time.Second {
			t.Errorf("%.20q: took %v", when, took)
		}
		t.Logf("%.20q: %v, %d faults", when, took, len(bad))
	}
}

// Conditions are only parsed, checked and estimated: whatever they are, they
// compile or are refused, in bounded time.
func FuzzCompileWhen(f *testing.F) {
	for _, when := range []string{
		`arguments.env == "prod"`, `principal.sub`, `[1,2].exists(x, x == arguments.n)`, `name.matches("(a*)*b")`,
		`((((((((((`, `a?b:c?d:e`, `{"a": [1, {2: 3}]}["a"][0] == 1`, "'\\u00e9' == \"\"\"x\"\"\"", `has(tool.annotations.x)`,
		`-----1 == 1`, "`a`", `.name == name`, `b'x' == b"y"`, `timestamp("2020-01-01T00:00:00Z").getHours("Europe/Berlin") > 1`,
	} {
		f.Add(when)
	}
	v := tool("up__t")
	f.Fuzz(func(t *testing.T, when string) {
		start := time.Now()
		c, bad := compile(when)
		if (c == nil) == (len(bad) == 0) {
			t.Fatal("neither compiled nor refused")
		}
		for _, f := range bad {
			if f.line < 1 || f.column < 1 || f.message == "" {
				t.Errorf("a fault without a place: %+v", f)
			}
		}
		if c != nil {
			view := must(t, Rule{Allow: allow("*"), When: when}).For(alice)
			allowed, sees := view.Decide(t.Context(), v, []byte(`{"a":[1,2,{"b":"c"}]}`)).Allowed, view.Sees(v)
			if allowed && !sees {
				t.Error("allowed and not visible")
			}
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
