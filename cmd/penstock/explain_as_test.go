package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const hashOf = "sha256:000000000000000000000000000000000000000000000000000000000000000"

func TestExplainTellsWhatThePolicyDecidesForACaller(t *testing.T) {
	dir := shortDir(t)
	sock := filepath.Join(dir, "a.sock")
	document(t, dir, "listen: 127.0.0.1:0\nadmin: unix:"+sock+"\n"+yamlUpstreams("library", library(t), "workshop", workshop(t))+`
auth:
  jwt:
    - {issuer: "https://id.example.com", audience: a, jwks_url: "http://127.0.0.1:1/", algorithms: [RS256]}
  api_keys:
    - {name: k1, hash: "`+hashOf+`1", subject: alice, tenant: acme, scopes: [read]}
    - {name: k2, hash: "`+hashOf+`2", subject: root, scopes: [read, admin]}
policy:
  - {id: readers, who: {issuer: ["penstock:key"], scopes: [read]}, allow: {tools: ["library__*"]}}
  - {id: lenders, who: {scopes: [admin]}, allow: {tools: ["*"]}, when: 'arguments.reader != "nobody"'}
  - {id: staff, who: {claims: {groups: staff}, tenant: [acme]}, allow: {tools: ["workshop__*"]}}
  - {id: no-single-books, deny: {tools: ["*__get_book"]}}
  - {id: guarded, deny: {tools: ["library__lend_book"]}, when: 'arguments.id == "b1"'}
`)
	p := run(t, dir, "serve")
	p.endpoint()
	for _, c := range []struct {
		args []string
		code int
		has  []string
	}{
		{[]string{"library__search_books", "--as", "alice"}, 0, []string{
			"  policy:  allowed by rule readers\n", "  judged:  library__search_books\n",
			"    readers (allow): decides\n", "    lenders (allow): does not match: scopes\n", "    no-single-books (deny): does not match: name\n",
		}},
		{[]string{"library__lend_book", "--as", "alice"}, 0, []string{
			"  policy:  listed; a call may be refused for its arguments\n",
			"    guarded (deny): matches, depending on the arguments: unknown does not hide\n",
		}},
		{[]string{"library__get_book", "--as", "alice"}, 0, []string{
			"  policy:  hidden by rule no-single-books; the caller is told that it does not exist\n",
			"    readers (allow): matches, but another rule decides\n", "    no-single-books (deny): decides\n",
		}},
		{[]string{"workshop://safety", "--as", "alice"}, 0, []string{
			"  policy:  hidden, for no rule allows it; the caller is told that it does not exist\n", "    readers (allow): does not match: kind\n",
		}},
		{[]string{"library__search_books", "--as", "bob"}, 0, []string{"  policy:  hidden, for no rule allows it", "    readers (allow): does not match: issuer\n"}},
		{[]string{"library__search_books", "--as", "bob", "--scope", "admin"}, 0, []string{
			"  policy:  listed; a call may be refused for its arguments\n", "    lenders (allow): matches, depending on the arguments\n",
		}},
		{[]string{"library__search_books", "--as", "root"}, 0, []string{"  policy:  allowed by rule readers\n"}},
		{[]string{"library__search_books", "--as", "alice", "--issuer", "https://id.example.com"}, 0, []string{"  policy:  hidden"}},
		{[]string{"library__search_books"}, 0, []string{`goes to upstream "library"`}},
		{[]string{"nothing", "--as", "alice"}, 0, []string{"goes nowhere"}},
		{[]string{"library__search_books", "--tenant", "acme"}, 2, []string{"--as"}},
		{[]string{"library__search_books", "--as", "bob", "--claim", "groups"}, 2, []string{"NAME=VALUE"}},
	} {
		checkExplained(t, dir, sock, c.args, c.code, c.has)
	}
	for claim, decision := range map[string]string{
		`groups=["ops","staff"]`: "allowed by rule staff", `groups=staff`: "allowed by rule staff", `groups="staff"`: "allowed by rule staff",
		`groups=["ops"]`: "hidden", `groups={"staff":true}`: "hidden", `team=staff`: "hidden",
	} {
		checkExplained(t, dir, sock, []string{"workshop__convert_units", "--as", "bob", "--tenant", "acme", "--claim", claim}, 0, []string{"policy:  " + decision})
	}
}

func checkExplained(t *testing.T, dir, sock string, args []string, code int, has []string) {
	t.Helper()
	got, out, problems := once(t, dir, append(append([]string{"explain"}, args...), "--admin", "unix:"+sock)...)
	if got != code {
		t.Errorf("explain %v: exit %d\n%s%s", args, got, out, problems)
	}
	for _, want := range has {
		if !strings.Contains(out+problems, want) {
			t.Errorf("explain %v lacks %q:\n%s%s", args, want, out, problems)
		}
	}
	if len(args) == 1 && strings.Contains(out, "policy:") {
		t.Errorf("explain %v tells of a policy for nobody:\n%s", args, out)
	}
}

func TestExplainKnowsWhoCannotCall(t *testing.T) {
	dir := shortDir(t)
	sock := filepath.Join(dir, "a.sock")
	document(t, dir, "listen: 127.0.0.1:0\nadmin: unix:"+sock+"\n"+yamlUpstreams("library", library(t))+
		"auth: {api_keys: [{name: k1, hash: '"+hashOf+"1', subject: alice}]}\npolicy: [{id: all, allow: {tools: ['*']}}]\n")
	run(t, dir, "serve").endpoint()
	checkExplained(t, dir, sock, []string{"library__search_books", "--as", "alice"}, 0, []string{"allowed by rule all"})
	checkExplained(t, dir, sock, []string{"library__search_books", "--as", "alcie"}, 1, []string{`no API key stands for the subject "alcie"`})
	checkExplained(t, dir, sock, []string{"library__search_books", "--as", "local"}, 0, []string{"allowed by rule all"}) // penstock stdio
}

func TestThePolicyPageShowsWhatExplainPrints(t *testing.T) {
	text := page(t, "docs/policy.md")
	doc := fenced(t, after(t, text, "### Not in production\n"), "yaml")
	listing := fenced(t, after(t, text, "## Asking why\n"), "")
	command, want, _ := strings.Cut(listing, "\n")
	args := strings.Fields(strings.TrimPrefix(command, "$ penstock "))
	if len(args) < 4 || args[0] != "explain" {
		t.Fatalf("the listing begins with %q", command)
	}
	dir := shortDir(t)
	doc = regexp.MustCompile(`http://127\.0\.0\.1:3001/mcp`).ReplaceAllString(doc, offering(t, "query", "migrate"))
	document(t, dir, "listen: 127.0.0.1:0\n"+doc)
	run(t, dir, "serve").endpoint()
	if code, out, problems := once(t, dir, args...); code != 0 || out != want {
		t.Errorf("exit %d, it prints\n%s%sand the page has\n%s", code, out, problems, want)
	}
}

func TestThePolicyPageShowsWhatValidatePrints(t *testing.T) {
	text := after(t, page(t, "docs/policy.md"), "`penstock validate` finds rules")
	dir := t.TempDir()
	document(t, dir, fenced(t, text, "yaml"))
	want := fenced(t, after(t, text, "it says:\n"), "")
	code, out, problems := once(t, dir, "validate")
	if code != 0 || problems+out != want {
		t.Errorf("exit %d, it prints\n%s%sand the page has\n%s", code, problems, out, want)
	}
}
