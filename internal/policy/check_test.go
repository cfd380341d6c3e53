package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

var known = Known{
	Servers:         []string{"default", "ops"},
	Upstreams:       []string{"github", "jobs"},
	ServerUpstreams: map[string][]string{"default": {"github"}, "ops": {"jobs"}},
	Issuers:         []string{"https://id.example"},
	JWT:             true,
}

func TestRulesThatNeverDecideAreFound(t *testing.T) {
	keys := known
	keys.JWT = false
	keys.Keys = []KeyFacts{
		{Subject: "ci", Tenant: "acme", Scopes: []string{"mcp"}},
		{Subject: "bot", Tenant: "other", Scopes: []string{"mcp", "admin"}},
	}
	all := Rule{ID: "all", Allow: allow("*")}
	for name, c := range map[string]struct {
		rules []Rule
		known Known
		want  []string // "index field: part of the message"
	}{
		"nothing wrong": {[]Rule{
			{ID: "a", Issuer: []string{"https://*"}, Server: "def*", Upstream: "git*", Allow: allow("*")},
			{ID: "b", Subject: []string{"x"}, Deny: allow("*"), When: `arguments.a == 1`},
		}, known, nil},
		"no policy":           {nil, known, nil},
		"an empty policy":     {[]Rule{}, known, []string{"-1 allow: nothing will ever be allowed"}},
		"only denies":         {[]Rule{{Deny: allow("x")}}, known, []string{"-1 allow: nothing will ever"}},
		"no names":            {[]Rule{all, {Deny: &Names{}}}, known, []string{"1 : names nothing"}},
		"no such server":      {[]Rule{{Server: "x*", Allow: allow("*")}}, known, []string{`0 server: named like "x*"`}},
		"no such upstream":    {[]Rule{{Upstream: "x", Allow: allow("*")}}, known, []string{`0 upstream: named like "x"`}},
		"not on that server":  {[]Rule{{Server: "ops", Upstream: "github", Allow: allow("*")}}, known, []string{`0 upstream: no server named like "ops" has`}},
		"no such issuer":      {[]Rule{{Issuer: []string{"https://other"}, Allow: allow("*")}}, known, []string{"0 who.issuer: nobody vouches"}},
		"always false":        {[]Rule{{Allow: allow("*"), When: `false && arguments.a == 1`}}, known, []string{"0 when: always false"}},
		"false for everybody": {[]Rule{{Allow: allow("*"), When: `arguments.a == 1 && "x" in ["y"]`}}, known, []string{"0 when: always false"}},
		"an allow that fails": {[]Rule{{Allow: allow("*"), When: `1 / 0 == 1`}}, known, []string{"0 when: never allows"}},
		"a deny that fails":   {[]Rule{all, {Deny: allow("*"), When: `1 / 0 == 1`}}, known, []string{"1 when: always denies"}},
		"a key's subject":     {[]Rule{{Subject: []string{"x"}, Allow: allow("*")}}, keys, []string{"0 who.subject: no API key"}},
		"a token's subject":   {[]Rule{{Subject: []string{"x"}, Allow: allow("*")}}, known, nil},
		"a key's tenant":      {[]Rule{{Tenant: []string{"x"}, Allow: allow("*")}}, keys, []string{"0 who.tenant: no API key"}},
		"a key's scopes":      {[]Rule{{Scopes: []string{"root"}, Allow: allow("*")}}, keys, []string{"0 who.scopes: no API key"}},
		"a key's claims":      {[]Rule{{Claims: map[string]string{"a": "*"}, Allow: allow("*")}}, keys, []string{"0 who.claims: no claims"}},
		"no key is all of it": {[]Rule{{Subject: []string{"ci"}, Scopes: []string{"admin"}, Allow: allow("*")}}, keys, []string{"0 who: no API key has all"}},
		"a key that is all":   {[]Rule{{Subject: []string{"b*"}, Tenant: []string{"other"}, Scopes: []string{"admin"}, Allow: allow("*")}}, keys, nil},
		"denied anyhow":       {[]Rule{{Allow: allow("a__*")}, {Deny: allow("a*")}}, known, []string{`0 allow: denied by "1"`}},
		"denied by two":       {[]Rule{{Allow: allow("a", "b")}, {Deny: allow("a")}, {Deny: allow("b")}}, known, []string{`0 allow: denied by "1" and "2"`}},
		"denied in part":      {[]Rule{{Allow: allow("a*")}, {Deny: allow("ab*")}}, known, nil},
		"denied to some":      {[]Rule{{Allow: allow("a")}, {Subject: []string{"x"}, Deny: allow("a")}}, known, nil},
		"denied to who it is": {[]Rule{{Subject: []string{"xy"}, Allow: allow("a")}, {Subject: []string{"x*"}, Deny: allow("a")}}, known, []string{`0 allow: denied by "1"`}},
		"denied at times":     {[]Rule{{Allow: allow("a")}, {Deny: allow("a"), When: "arguments.a"}}, known, nil},
		"denied elsewhere":    {[]Rule{{Allow: allow("a")}, {Server: "ops", Deny: allow("a")}}, known, nil},
		"allowed before":      {[]Rule{{Allow: allow("a*")}, {Allow: allow("ab")}}, known, []string{`1 allow: allowed by "0" before`}},
		"allowed after":       {[]Rule{{Allow: allow("ab")}, {Allow: allow("a*")}}, known, nil},
		"an exact repetition": {[]Rule{all, {Deny: allow("x"), When: "arguments.a"}, {Deny: allow("x"), When: "arguments.a"}}, known, []string{`2 deny: denied by "1" before`}},
		"another condition":   {[]Rule{all, {Deny: allow("x"), When: "arguments.a"}, {Deny: allow("x"), When: "arguments.b"}}, known, nil},
		"a narrower repetition": {
			[]Rule{
				all,
				{Scopes: []string{"s"}, Claims: map[string]string{"c": "*"}, Deny: allow("x")},
				{Scopes: []string{"s", "t"}, Claims: map[string]string{"c": "d"}, Deny: allow("x")},
				{Scopes: []string{"t"}, Claims: map[string]string{"c": "d"}, Deny: allow("x")},
			},
			known,
			[]string{`2 deny: denied by "1" before`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.rules {
				if c.rules[i].ID == "" {
					c.rules[i].ID = string(rune('0' + i))
				}
			}
			if _, err := Compile(c.rules); err != nil {
				t.Fatal(err)
			}
			got := Check(c.rules, c.known)
			if len(got) != len(c.want) {
				t.Fatalf("got %+v, want %q", got, c.want)
			}
			for i, w := range got {
				place, message, _ := strings.Cut(c.want[i], ": ")
				index, field, _ := strings.Cut(place, " ")
				id := ""
				if w.Index >= 0 {
					id = c.rules[w.Index].ID
				}
				if index != string(appendInt(w.Index)) || field != w.Field || id != w.ID || !strings.Contains(w.Message, message) {
					t.Errorf("got %+v, want %q", w, c.want[i])
				}
			}
		})
	}
}

func appendInt(i int) []byte {
	if i < 0 {
		return []byte("-1")
	}
	return []byte{byte('0' + i)}
}

func TestABadConditionIsNotWarnedOf(t *testing.T) {
	if got := Check([]Rule{{ID: "a", Allow: allow("*"), When: "nonsense("}}, known); got != nil {
		t.Error(cmp.Diff([]Warning(nil), got))
	}
}

// A glob that covers another matches whatever the other matches.
func TestCoveringIsNeverClaimedWrongly(t *testing.T) {
	globs := rapid.StringMatching(`[abé*?]{0,6}`)
	covered := 0
	rapid.Check(t, func(t *rapid.T) {
		wide, narrow := globs.Draw(t, "wide"), globs.Draw(t, "narrow")
		if !covers(wide, narrow) {
			return
		}
		covered++
		// A name that the narrow glob matches: each wildcard filled in.
		var name strings.Builder
		for _, r := range narrow {
			switch r {
			case '*':
				name.WriteString(rapid.StringMatching(`[abcé*?]{0,4}`).Draw(t, "run"))
			case '?':
				name.WriteString(rapid.StringMatching(`[abcé*?]`).Draw(t, "one"))
			default:
				name.WriteRune(r)
			}
		}
		if !mcp.Glob(narrow, name.String()) {
			t.Fatalf("%q does not match %q", narrow, name.String())
		}
		if !mcp.Glob(wide, name.String()) {
			t.Fatalf("%q covers %q, and does not match %q", wide, narrow, name.String())
		}
	})
	if covered == 0 {
		t.Error("nothing was covered")
	}
	for _, pair := range [][2]string{{"*", "a*b?"}, {"a*", "ab*"}, {"?", "é"}, {"?*", "a*"}, {"a?c", "a?c"}, {"*b*", "abc"}} {
		if !covers(pair[0], pair[1]) {
			t.Errorf("%q does not cover %q", pair[0], pair[1])
		}
	}
	if i := slices.IndexFunc([]string{"?", "a", "?*?", "*a"}, func(g string) bool { return covers(g, "*") }); i >= 0 {
		t.Error("something else covers *")
	}
}
