package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Nothing that a condition does with what a caller sends takes long: it comes
// to an end, or is ended, and then does not allow and does deny. The bound is
// for a slow machine under the race detector; without it each takes a few
// milliseconds.
func TestAConditionEndsWhateverTheArgumentsAre(t *testing.T) {
	const bound = 3 * time.Second
	ones := "[" + strings.Repeat("1,", 60_000) + "1]"
	deep := strings.Repeat(`[[1],`, 150) + "1" + strings.Repeat("]", 150)
	long := `"` + strings.Repeat("a", 900_000) + `"`
	half := `"` + strings.Repeat("a", 400_000) + `"`
	texts := `["` + strings.Repeat(`a","`, 20_000) + `a"]`
	lists := "[" + strings.Repeat("[1,2,3],", 15_000) + "[1]]"
	for _, c := range []struct {
		name, when, args string
		ends             bool // whether it fails; else it is cheap enough to be true
	}{
		{"a loop over many", `arguments.l.all(x, x == 1)`, `{"l":` + ones + `}`, true},
		{"a loop in a loop", `arguments.l.all(x, arguments.l.exists(y, y == 2) || true)`, `{"l":` + ones + `}`, true},
		{"a loop that maps", `arguments.l.map(x, arguments.l.map(y, y + x)).size() > 0`, `{"l":` + ones + `}`, true},
		{"a loop that filters", `arguments.l.filter(x, x > 0).size() > 0`, `{"l":` + ones + `}`, true},
		{"a loop that builds texts", `arguments.t.map(x, arguments.s + x).size() > 0`, `{"t":` + texts + `,"s":` + half + `}`, true},
		{"a loop over comparisons", `arguments.l.all(x, arguments.l == arguments.m)`, `{"l":` + "[" + strings.Repeat("1,", 3000) + "1]" + `,"m":` + "[" + strings.Repeat("1,", 3000) + "1]" + `}`, true},
		{"a loop over long texts", `arguments.t.all(x, size(arguments.s) > 0)`, `{"t":` + texts + `,"s":` + half + `}`, true},
		{"a loop over equal texts", `arguments.t.all(x, arguments.s == arguments.s2)`, `{"t":` + texts + `,"s":` + half + `,"s2":` + half + `}`, true},
		{"a loop over searches", `arguments.t.all(x, !arguments.s.contains(x + "b"))`, `{"t":` + texts + `,"s":` + half + `}`, true},
		{"a loop over patterns", `arguments.t.all(x, x.matches("^(a|aa|aaa)*b?$"))`, `{"t":` + texts + `}`, true},
		{"a comparison", `arguments.a == arguments.b`, `{"a":` + "[" + strings.Repeat("1,", 30_000) + "1]" + `,"b":` + "[" + strings.Repeat("1,", 30_000) + "1]" + `}`, true},
		{"a comparison of lists", `arguments.a == arguments.a`, `{"a":` + lists + `}`, true},
		{"a comparison with itself", `arguments == arguments`, `{"a":` + deep + `,"b":` + half + `}`, false},
		{"many comparisons at once", `[arguments, arguments, arguments, arguments] == [arguments, arguments, arguments, arguments]`, `{"a":` + lists + `}`, true},
		{"a membership", `arguments.x in arguments.l || true`, `{"x":[1,2,4],"l":` + lists + `}`, true},
		{"an evil pattern", `arguments.s.matches("(a*)*b")`, `{"s":` + long + `}`, true},
		{"a large pattern", `arguments.s.matches("(a{1,20}){1,6}b")`, `{"s":` + long + `}`, true},
		{"a pattern on a short text", `arguments.s.matches("^(a+)+$")`, `{"s":"` + strings.Repeat("a", 2000) + `"}`, false},
		{"a search in a long text", `arguments.s.contains("a")`, `{"s":` + long + `}`, false},
		{"an unlucky search", `!arguments.s.contains("` + strings.Repeat("a", 500) + `b")`, `{"s":` + half + `}`, false},
		{"a sum of texts", `(arguments.s + arguments.s + arguments.s + arguments.s + arguments.s + arguments.s).size() > 0`, `{"s":` + half + `}`, true},
		{"a number in a long text", `int(arguments.s) == 1`, `{"s":"` + strings.Repeat("9", 900_000) + `"}`, true},
		{"a float in a long text", `double(arguments.s) == 1.0`, `{"s":"0.` + strings.Repeat("9", 900_000) + `"}`, false},
		{"many zones", `arguments.t.all(x, timestamp(0).getHours("Europe/Berlin") >= 0)`, `{"t":` + texts + `}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []byte(c.args)
			if len(args) > maxArguments {
				t.Fatalf("the arguments are too large: %d", len(args))
			}
			permit := must(t, Rule{Allow: allow("*"), When: c.when}).For(alice)
			deny := must(t, Rule{Allow: allow("*")}, Rule{Deny: allow("*"), When: c.when}).For(alice)
			start := time.Now()
			allowed := permit.Decide(t.Context(), tool("t"), args)
			took := time.Since(start)
			if took > bound {
				t.Errorf("took %v", took)
			}
			if allowed.Allowed == c.ends {
				_, steps := permit.Explain(t.Context(), tool("t"), args, true)
				t.Errorf("decided %+v: %+v", allowed, steps)
			}
			if d := deny.Decide(t.Context(), tool("t"), args); d.Allowed || (d.Why == whyFailed) != c.ends {
				t.Errorf("decided %+v", d)
			}
			t.Log(took)
		})
	}
}

// What an operator writes without any help of a caller is bounded as well. Where
// the arguments could end it sooner, it hides nothing.
func TestAConditionEndsWithoutArguments(t *testing.T) {
	ones := "[" + strings.Repeat("1,", 400) + "1]"
	v := must(t, Rule{
		Allow: allow("*"), When: fmt.Sprintf(`arguments.a || %s.all(x, %s.exists(y, x != 1) || true)`, ones, ones),
	}).For(alice)
	start := time.Now()
	if !v.Sees(tool("t")) {
		t.Error("hidden, although the arguments can make it true")
	}
	if !v.Decide(t.Context(), tool("t"), []byte(`{"a":true}`)).Allowed {
		t.Error("refused, although the arguments make it true")
	}
	if d := v.Decide(t.Context(), tool("t"), []byte(`{"a":false}`)); d.Allowed || !d.Visible {
		t.Errorf("decided %+v", d)
	}
	without := must(t, Rule{Allow: allow("*"), When: fmt.Sprintf(`%s.all(x, %s.exists(y, x != 1) || true)`, ones, ones)}).For(alice)
	if without.Sees(tool("t")) {
		t.Error("visible, although no call can be allowed")
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}
