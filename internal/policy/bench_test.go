package policy

import (
	"fmt"
	"strings"
	"testing"
)

// twenty is a policy of usual size: a few rules that fit everybody, more that
// do not, and the one that decides at the end.
func twenty(t testing.TB, when string) *View {
	var rules []Rule
	for i := range 17 {
		rules = append(rules, Rule{
			ID: fmt.Sprint("r", i), Upstream: "up*",
			Allow: allow(fmt.Sprintf("team%d__*", i), "other__?x*"), Deny: allow(fmt.Sprintf("*__drop%d", i)),
		})
	}
	rules = append(
		rules,
		Rule{ID: "nobody", Subject: []string{"x"}, Deny: allow("*")},
		Rule{ID: "elsewhere", Server: "x", Deny: allow("*")},
		Rule{ID: "last", Allow: allow("*"), When: when},
	)
	return must(t, rules...).For(alice)
}

func known3() *Target {
	target := tool("up__search_the_repositories")
	target.Names = []string{"up__search_the_repositories", "search", "up__search_the_r_1a2b3c"}
	return target
}

const smallArguments = `{"query":"is:open label:bug","env":"dev","page":3,"filters":{"state":"open","labels":["a","b"]}}`

func TestDecidingWithoutConditionsDoesNotAlloc(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	v, target, args, ctx := twenty(t, ""), known3(), []byte(smallArguments), t.Context()
	hidden := tool("t")
	hidden.Upstream = "none"
	if n := testing.AllocsPerRun(100, func() {
		if !v.Sees(target) || v.Sees(&Target{Name: "x", Server: "x"}) {
			t.Error("wrong")
		}
		if d := v.Decide(ctx, target, args); !d.Allowed || d.Rule != "last" {
			t.Error("wrong")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A condition that does not ask for the arguments does not have them decoded.
func TestArgumentsThatNobodyAsksForAreNotDecoded(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	v := twenty(t, `principal.subject == "alice" || arguments.env == "dev"`)
	large := []byte(`{"l":[` + strings.Repeat(`"x",`, 10_000) + `1]}`)
	target, ctx := known3(), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if !v.Decide(ctx, target, large).Allowed {
			t.Error("refused")
		}
	}); n > 50 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSees(b *testing.B)   { benchmark(b, "", false, "") }
func BenchmarkDecide(b *testing.B) { benchmark(b, "", true, smallArguments) }

func BenchmarkSeesWithACondition(b *testing.B) {
	benchmark(b, `arguments.env != "prod"`, false, "")
}

func BenchmarkDecideOnThePrincipal(b *testing.B) {
	benchmark(b, `principal.tenant == "acme" && "admin" in principal.scopes`, true, smallArguments)
}

func BenchmarkDecideOnArguments(b *testing.B) {
	benchmark(b, `arguments.env != "prod"`, true, smallArguments)
}

func BenchmarkDecideOnSmallestArguments(b *testing.B) {
	benchmark(b, `arguments.env != "prod"`, true, `{"env":"dev"}`)
}

func BenchmarkDecideInALoop(b *testing.B) {
	benchmark(b, `arguments.filters.labels.all(l, l in ["a", "b"])`, true, smallArguments)
}

func BenchmarkDecideWithAPattern(b *testing.B) {
	benchmark(b, `arguments.query.matches("^is:(open|closed) ")`, true, smallArguments)
}

// The longest that a condition can take without its arguments being at fault.
func BenchmarkDecideToTheLimit(b *testing.B) {
	v, target, ctx := twenty(b, `arguments.l.all(x, x == 1)`), known3(), b.Context()
	args := []byte(`{"l":[` + strings.Repeat("1,", 10_000) + `1]}`)
	b.ReportAllocs()
	for b.Loop() {
		if v.Decide(ctx, target, args).Allowed {
			b.Fatal("allowed")
		}
	}
}

func benchmark(b *testing.B, when string, call bool, args string) {
	v, target, ctx, raw := twenty(b, when), known3(), b.Context(), []byte(args)
	b.ReportAllocs()
	for b.Loop() {
		if call && !v.Decide(ctx, target, raw).Allowed || !call && !v.Sees(target) {
			b.Fatal("refused")
		}
	}
}

func BenchmarkFor(b *testing.B) {
	p := twenty(b, `principal.subject == "alice"`).policy
	b.ReportAllocs()
	for b.Loop() {
		if p.For(alice) == nil {
			b.Fatal("nil")
		}
	}
}

func BenchmarkCompileACondition(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, bad := compile(`arguments.env == "prod" && !("admin" in principal.scopes)`); bad != nil {
			b.Fatal(bad)
		}
	}
}
