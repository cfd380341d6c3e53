package policy

import "testing"

func TestExplainTellsWhetherACallDependsOnItsArguments(t *testing.T) {
	const prod = `arguments.env == "prod"`
	for name, c := range map[string]struct {
		rules   []Rule
		depends bool
	}{
		"an allow without a condition":           {[]Rule{{Allow: allow("*")}}, false},
		"an allow of arguments":                  {[]Rule{{Allow: allow("*"), When: prod}}, true},
		"an allow of arguments, and a plain one": {[]Rule{{Allow: allow("*"), When: prod}, {Allow: allow("t")}}, false},
		"a deny of arguments":                    {[]Rule{{Allow: allow("*")}, {Deny: allow("t"), When: prod}}, true},
		"a deny of arguments of something else":  {[]Rule{{Allow: allow("*")}, {Deny: allow("u"), When: prod}}, false},
		"a deny before that of arguments":        {[]Rule{{Deny: allow("t")}, {Allow: allow("*"), When: prod}}, false},
		"a deny of arguments and no allow":       {[]Rule{{Deny: allow("t"), When: prod}}, false},
		"a condition on the caller":              {[]Rule{{Allow: allow("*"), When: `principal.subject == "alice"`}}, false},
	} {
		v := must(t, c.rules...).For(alice)
		if d, _ := v.Explain(t.Context(), tool("t"), nil, false); d.Depends != c.depends {
			t.Errorf("%s: explained %+v", name, d)
		}
		if d, _ := v.Explain(t.Context(), tool("t"), []byte(`{"env":"prod"}`), true); d.Depends {
			t.Errorf("%s: with arguments it still depends on them: %+v", name, d)
		}
	}
}
