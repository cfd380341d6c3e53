package config

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSingleUpstreamFlagIsPassthroughAndSeveralAreNamespaced(t *testing.T) {
	one, err := FromUpstreams([]string{"docs=http://127.0.0.1:3001/mcp?a=b"})
	if err != nil {
		t.Fatal(err)
	}
	two, err := FromUpstreams([]string{"docs=http://127.0.0.1:3001/mcp", "a.b=https://h/"})
	if err != nil {
		t.Fatal(err)
	}
	s, u := one.Servers["default"], one.Upstreams["docs"]
	got := []any{s.Naming, s.Separator, s.Upstreams, s.Path, s.PageSize, u.Key, u.Namespace, u.URL, u.Timeout, u.Era, two.Servers["default"].Naming, two.Servers["default"].Upstreams}
	want := []any{"passthrough", "", []string{"docs"}, "/mcp", 200, "docs", "docs", "http://127.0.0.1:3001/mcp?a=b", one.Limits.CallTimeout, "auto", "namespaced", []string{"a.b", "docs"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	if len(one.Warnings)+len(two.Warnings) > 0 {
		t.Errorf("warnings: %v %v", one.Warnings, two.Warnings)
	}
}

func TestUpstreamFlagsJoinServersThatOfferAll(t *testing.T) {
	doc := mustParse(t, "upstreams: {a: {url: 'http://h/'}}\nservers: {all: {}, some: {upstreams: [a]}}")
	if err := doc.AddUpstreams([]string{"b=http://i/"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"a", "b"}, {"a"}}, [][]string{doc.Servers["all"].Upstreams, doc.Servers["some"].Upstreams}); diff != "" {
		t.Errorf("upstreams (-want +got):\n%s", diff)
	}
	empty := mustParse(t, "")
	if err := empty.AddUpstreams([]string{"b=http://i/"}); err != nil || len(empty.Warnings) > 0 {
		t.Errorf("error %v, warnings %v", err, empty.Warnings)
	}
}

func TestBadUpstreamFlagsAreAllReported(t *testing.T) {
	_, err := FromUpstreams([]string{"x", "=http://h/", "a=", "a b=http://h/", "a=./server '--stdio", "e= ", "b=ws://h/", "c=http://u:hunter2@h/", "d=http://h/", "d=http://h/"})
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	const urlOrCommand = "--upstream: must be NAME=URL or NAME='command args'"
	want := []string{
		urlOrCommand, urlOrCommand, urlOrCommand,
		"--upstream: the name " + keyRule,
		"--upstream a: the command has a quote that is not closed",
		"--upstream e: the command is empty",
		"--upstream b: must be an http or https URL, or a command",
		"--upstream c: must be an absolute http or https URL without user name and fragment",
		"--upstream d: there is an upstream of that name already",
	}
	if diff := cmp.Diff(want, lines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestAnUpstreamFlagTakesACommand(t *testing.T) {
	doc, err := FromUpstreams([]string{`files=npx -y "my server" --root '/a b' --url http://h/`})
	if err != nil {
		t.Fatal(err)
	}
	u := doc.Upstreams["files"]
	if diff := cmp.Diff([]string{"npx", "-y", "my server", "--root", "/a b", "--url", "http://h/"}, u.Command); diff != "" {
		t.Error(diff)
	}
	if u.URL != "" || u.Restart == nil || time.Duration(u.Restart.Backoff) != time.Second || time.Duration(u.Restart.Max) != 30*time.Second {
		t.Errorf("upstream %+v", u)
	}
}

func TestWordsAreSplitAsAShellDoesAndNothingIsExpanded(t *testing.T) {
	for line, want := range map[string][]string{
		`a`:                         {"a"},
		"  a\tb\n c  ":              {"a", "b", "c"},
		`a 'b c' "d e"`:             {"a", "b c", "d e"},
		`a'b'"c"\\d`:                {`abc\d`},
		`a "" ''`:                   {"a", "", ""},
		`a\ b`:                      {"a b"},
		`"a\"b" 'a\b' "a\nb" "\\$"`: {`a"b`, `a\b`, `a\nb`, `\$`},
		`$HOME ~ *.go | rm; & >x`:   {"$HOME", "~", "*.go", "|", "rm;", "&", ">x"},
	} {
		got, err := splitWords(line)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", line, err, diff)
		}
	}
	for _, line := range []string{"", "  ", `"a`, `a 'b`, `a\`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestUpstreamFlagsAreHeldAgainstTheDocument(t *testing.T) {
	doc := mustParse(t, "upstreams: {a: {url: 'http://h/'}}\nservers: {default: {naming: passthrough}}")
	err := doc.AddUpstreams([]string{"b=http://i/"})
	if err == nil || err.Error() != "servers.default.naming: passthrough needs exactly one upstream, and this server has 2; name one under upstreams, or choose namespaced" {
		t.Errorf("error: %v", err)
	}
}

func TestListenFlagFollowsTheRuleOfTheDocument(t *testing.T) {
	for address, want := range map[string][2]bool{
		"127.0.0.1:0": {true, true}, "localhost:80": {true, true}, "[::1]:80": {true, true}, "127.9.9.9:1": {true, true}, "[::ffff:127.0.0.1]:1": {true, true},
		"0.0.0.0:80": {false, true}, ":80": {false, true}, "[::]:80": {false, true}, "h.example:80": {false, true}, "localhost.example:80": {false, true},
		"80": {false, false}, "127.0.0.1": {false, false}, "127.0.0.1:x": {false, false}, "127.0.0.1:70000": {false, false}, "": {false, false}, "a b:1": {false, false},
	} {
		for i, anonymous := range []bool{false, true} {
			if err := CheckListen(address, anonymous); (err == nil) != want[i] {
				t.Errorf("CheckListen(%q, %v) = %v", address, anonymous, err)
			}
		}
	}
}

func FuzzQuotedWordsComeBackAsTheyWere(f *testing.F) {
	f.Add("npx", "my server", `it's "here" \n`)
	f.Add("", "$HOME", "a\nb\t")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		words := []string{a, b, c}
		var line []string
		for _, w := range words {
			if !utf8.ValidString(w) {
				t.Skip("a command line of a document is UTF-8")
			}
			line = append(line, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		got, err := splitWords(strings.Join(line, " \t"))
		if diff := cmp.Diff(words, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		_, _ = splitWords(a) // whatever it is, it ends
	})
}
