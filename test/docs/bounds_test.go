package docs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/config"
)

// conditioned is a document whose one rule allows on a condition.
func conditioned(when string) string {
	return fmt.Sprintf("upstreams:\n  up: # offers echo\n    url: http://127.0.0.1:1/\npolicy:\n  - id: one\n    allow: {tools: [\"*\"]}\n    when: '%s'\n", when)
}

// The bounds of conditions in the table of policy.md.
func TestConditionsAreBoundedAsThePageSays(t *testing.T) {
	t.Parallel()
	text := section(t, page(t, "policy.md"), "## Conditions")
	for _, number := range []string{"4096 characters", "2000 nodes", "nested 64 deep", "2 within each other", "500 instructions", "10,000 units", "1 MiB", "64 KiB", "65,536 values", "nested 200 deep"} {
		if !strings.Contains(text, number) {
			t.Errorf("the page does not say %q", number)
		}
	}
	long := func(n int) string {
		const head, tail = `name == "`, `"`
		return head + strings.Repeat("a", n-len(head)-len(tail)) + tail
	}
	for name, c := range map[string]struct {
		when string
		good bool
	}{
		"4096 characters":         {long(4096), true},
		"4097 characters":         {long(4097), false},
		"2 comprehensions":        {`[1].all(a, [1].all(b, a == b))`, true},
		"3 comprehensions":        {`[1].all(a, [1].all(b, [1].all(c, a == b)))`, false},
		"a small pattern":         {`name.matches("^[a-z]{1,100}$")`, true},
		"a large pattern":         {`name.matches("^[a-z]{1,600}$")`, false},
		"a pattern of a claim":    {`name.matches(principal.subject)`, false},
		"a variable that is none": {`argument.x == 1`, false},
		"a field that is none":    {`principal.team == "x"`, false},
		"a type that does not":    {`principal.subject == 1`, false},
		"no bool":                 {`arguments.size()`, false},
	} {
		if _, err := config.Parse("p.yaml", []byte(conditioned(c.when)), nil); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}

	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct {
		when, arguments string
		allowed         bool
	}{
		"small":           {`has(arguments.a)`, `{"a":1}`, true},
		"not asked for":   {`name != ""`, `{"a":"` + strings.Repeat("x", 2<<20) + `"}`, true},
		"nearly a MiB":    {`has(arguments.a)`, `{"a":"` + strings.Repeat("x", 1<<20-100) + `"}`, true},
		"more than a MiB": {`has(arguments.a)`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, false},
		"65,000 values":   {`has(arguments.a)`, `{"a":[` + strings.Repeat("1,", 65_000) + `1]}`, true},
		"66,000 values":   {`has(arguments.a)`, `{"a":[` + strings.Repeat("1,", 66_000) + `1]}`, false},
		"199 deep":        {`has(arguments.a)`, `{"a":` + deep(199) + `}`, true},
		"202 deep":        {`has(arguments.a)`, `{"a":` + deep(202) + `}`, false},
		"cheap":           {`arguments.a.all(x, x < 2)`, `{"a":[1,1]}`, true},
		"dear":            {`arguments.a.all(x, x < 2)`, `{"a":[` + strings.Repeat("1,", 20_000) + `1]}`, false},
		"whole":           {`type(arguments.a) == int`, `{"a":7}`, true},
		"whole and large": {`type(arguments.a) == uint`, `{"a":18446744073709551615}`, true},
		"a fraction":      {`type(arguments.a) == double`, `{"a":7.0}`, true},
	} {
		r := serve(t, conditioned(c.when), nil)
		want := 0
		if !c.allowed {
			want = denied
		}
		if got := r.call("default", "", "up__echo", c.arguments); got.Error.Code != want {
			t.Errorf("%s: %.200s", name, got.body)
		}
	}
}
