package policy_test

// The conditions of the table.

// byEnv looks at an argument; where it is missing, the condition fails.
func byEnv(value string) *condition {
	return &condition{`arguments.env == "` + value + `"`, func(f *facts) truth {
		if f.args == nil {
			return unknown
		}
		got, is := f.args["env"]
		if !is {
			return failed
		}
		return sure(got == value)
	}}
}

func sure(b bool) truth {
	if b {
		return yes
	}
	return no
}

var (
	isAlice = &condition{`principal.subject == "alice"`, func(f *facts) truth { return sure(f.who.subject == "alice") }}
	isOld   = &condition{`upstream == "old"`, func(f *facts) truth { return sure(f.what.upstream == "old") }}
	isTool  = &condition{`kind == "tool"`, func(f *facts) truth { return sure(f.what.kind == "tool") }}
	isRaw   = &condition{`server == "raw"`, func(f *facts) truth { return sure(f.what.server == "raw") }}

	// Without a level among the claims it fails.
	highLevel = &condition{`principal.claims.level > 3`, func(f *facts) truth {
		n, is := f.who.claims["level"].(int)
		if !is {
			return failed
		}
		return sure(n > 3)
	}}

	// Without annotations, or with some that are not trusted, the first fails.
	destructive = &condition{`tool.annotations.destructiveHint`, func(f *facts) truth {
		if f.what.annotations == "" {
			return failed
		}
		return yes
	}}
	saidDestructive = &condition{`has(tool.annotations.destructiveHint) && tool.annotations.destructiveHint`, func(f *facts) truth {
		return sure(f.what.annotations != "")
	}}

	// What is sure without the arguments is sure with them.
	prodOrAlice = &condition{`arguments.env == "prod" || principal.subject == "alice"`, func(f *facts) truth {
		if isAlice.of(f) == yes {
			return yes
		}
		return byEnv("prod").of(f)
	}}
)

func tools(globs ...string) names     { return names{tools: globs} }
func prompts(globs ...string) names   { return names{prompts: globs} }
func resources(globs ...string) names { return names{resources: globs} }

var everything = names{[]string{"*"}, []string{"*"}, []string{"*"}}

// all allows everything, behind what denies.
var all = rule{id: "all", allow: everything}

// policies are the rules of the table, by name. short are the short forms of long
// names.
func policies(short map[string]string) map[string][]rule {
	shortLong := short["home "+long]
	only := func(r ...rule) []rule {
		for i := range r {
			if r[i].id == "" {
				r[i].id = "r" + string(rune('1'+i))
			}
		}
		return r
	}
	but := func(r ...rule) []rule { return only(append(r, all)...) }
	return map[string][]rule{
		"nothing":                           only(rule{allow: tools("nothing-is-called-so")}),
		"everything":                        only(all),
		"allow by canonical name":           only(rule{allow: names{[]string{"h__plain", "h__wipe", "h__" + long, "o__ask"}, []string{"h__greet"}, []string{"file:///public/a.txt", "ui://widget/view", "file:///data/*path*"}}}),
		"allow by alias":                    only(rule{allow: tools("clean")}),
		"allow by exposed name":             only(rule{allow: names{[]string{"home-plain", "old-marked", "ask"}, []string{"old-greet", "greet"}, []string{"home-file:///public/a.txt", "ui://home/widget/view", "home-file:///data/*path*"}}}),
		"allow by short form":               only(rule{allow: tools(shortLong)}),
		"allow by glob":                     only(rule{allow: names{[]string{"o__*", "*_wipe"}, []string{"*greet"}, []string{"*/data/*", "memo:*"}}}),
		"allow a URI of a template":         only(rule{allow: resources("file:///data/x.txt")}),
		"deny by canonical name":            but(rule{deny: names{[]string{"h__plain", "h__wipe", "h__" + long, "o__ask"}, []string{"o__greet"}, []string{"file:///public/a.txt", "ui://widget/view", "file:///data/x.txt"}}}),
		"deny by alias":                     but(rule{deny: tools("clean")}),
		"deny by exposed name":              but(rule{deny: names{[]string{"home-plain", "home-wipe", "old-ask", "ask"}, []string{"home-greet"}, []string{"old-memo://old/a", "ui://home/widget/view"}}}),
		"deny by short form":                but(rule{deny: tools(shortLong)}),
		"deny by glob":                      but(rule{deny: names{[]string{"*plain", "h__rep*"}, []string{"h__*"}, []string{"file:*"}}}),
		"deny a template":                   but(rule{deny: resources("file:///data/*path*")}),
		"deny and allow of one":             only(rule{allow: tools("h__plain", "clean")}, rule{deny: tools("h__*")}),
		"allow and deny of part":            only(rule{allow: tools("h__*", "o__*")}, rule{deny: tools("*marked")}),
		"by server":                         only(rule{server: "pre", allow: everything}, rule{server: "raw", allow: tools("h__*")}),
		"by a glob of servers":              but(rule{server: "d*", deny: everything}),
		"by upstream":                       only(rule{upstream: "old", allow: everything}),
		"deny an upstream":                  but(rule{upstream: "ho*", deny: everything}),
		"by kind":                           only(rule{allow: prompts("*")}, rule{allow: resources("memo:*")}),
		"deny a kind":                       but(rule{deny: tools("*")}),
		"who by subject":                    only(rule{subject: "alice", allow: everything}, rule{subject: "b*", allow: tools("h__*")}),
		"who by scopes":                     only(rule{scopes: []string{"mcp", "admin"}, allow: everything}, rule{scopes: []string{"mcp"}, allow: prompts("*")}),
		"who by tenant":                     only(rule{tenant: "red", allow: tools("*")}, rule{tenant: "blue", allow: resources("*")}),
		"who by claims":                     only(rule{claims: map[string]string{"dept": "op*"}, allow: everything}),
		"deny somebody":                     but(rule{subject: "bob", deny: tools("*plain", "clean")}),
		"allow when a principal":            only(rule{allow: everything, when: isAlice}),
		"deny when a principal":             but(rule{deny: everything, when: isAlice}),
		"allow when arguments":              only(rule{allow: everything, when: byEnv("dev")}),
		"deny when arguments":               but(rule{deny: everything, when: byEnv("prod")}),
		"deny when arguments, one tool":     but(rule{deny: tools("h__plain", "*ask"), when: byEnv("prod")}),
		"allow when arguments or principal": only(rule{allow: tools("*"), when: prodOrAlice}),
		"deny when arguments or principal":  but(rule{deny: tools("*"), when: prodOrAlice}),
		"deny when annotated":               but(rule{deny: tools("*"), when: saidDestructive}),
		"allow when annotated":              only(rule{allow: tools("*"), when: saidDestructive}),
		"deny when a condition fails":       but(rule{deny: tools("*marked", "*plain"), when: destructive}),
		"allow when a condition fails":      only(rule{allow: tools("*"), when: destructive}),
		"deny by a claim not there":         but(rule{deny: tools("*"), when: highLevel}),
		"allow by a claim not there":        only(rule{allow: everything, when: highLevel}),
		"when an upstream":                  only(rule{allow: everything, when: isOld}),
		"when a kind":                       but(rule{deny: everything, when: isTool}),
		"when a server":                     only(rule{allow: everything, when: isRaw}),
	}
}
