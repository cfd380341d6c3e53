package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// none is an environment without variables.
func none(string) (string, bool) { return "", false }

// mustParse loads a document that has to be right.
func mustParse(t *testing.T, text string) *Document {
	t.Helper()
	doc, err := Parse("penstock.yaml", []byte(text), none)
	if err != nil {
		t.Fatalf("the document is refused:\n%v", err)
	}
	return doc
}

// problemsOf loads a document that has to be wrong.
func problemsOf(t *testing.T, text string) Problems {
	t.Helper()
	doc, err := Parse("penstock.yaml", []byte(text), none)
	var problems Problems
	if !errors.As(err, &problems) || len(problems) == 0 || doc != nil {
		t.Fatalf("the document is accepted: %+v, %v", doc, err)
	}
	return problems
}

func lines(problems Problems) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, strings.TrimPrefix(p.Error(), "penstock.yaml:"))
	}
	return out
}

func TestGoodDocumentsAreAccepted(t *testing.T) {
	for name, text := range goodDocuments {
		t.Run(name, func(t *testing.T) { mustParse(t, text) })
	}
}

func TestBadDocumentsAreRefusedWithEveryProblemAtItsPlace(t *testing.T) {
	for name, bad := range badDocuments {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(bad.problems, lines(problemsOf(t, bad.text))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// The reference document holds every key, those of later versions too: with the
// table of refused keys empty, all of it has to decode.
func TestReferenceDocumentIsTypeChecked(t *testing.T) {
	data, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	everything := func(string) bool { return false }
	env := func(name string) (string, bool) { return strings.Repeat("s", 32) + name, true }
	doc, err := parse("reference.yaml", data, env, everything)
	if err != nil {
		t.Fatalf("the reference document is refused:\n%v", err)
	}
	if got := doc.Limits.CallTimeoutMax.Std(); got != 10*time.Minute {
		t.Errorf("limits.call_timeout_max = %v", got)
	}
	if got := doc.Policy[1].When; got != `arguments.env == "prod"` {
		t.Errorf("policy[1].when = %q", got)
	}
	if got := doc.Rate.Global.PerSecond(); got != 100 {
		t.Errorf("rate.global = %v a second", got)
	}
	if got := doc.Upstreams["github"].Credentials.Bearer.Reveal(); !strings.HasSuffix(got, "GITHUB_TOKEN") {
		t.Errorf("the bearer does not come from the environment")
	}
}

// Each key of a later version is refused in the reference document, and no other key is.
func TestReferenceDocumentIsRefusedByNameOnly(t *testing.T) {
	data, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse("reference.yaml", data, func(string) (string, bool) { return strings.Repeat("s", 32), true })
	var problems Problems
	if errors.As(err, &problems) == (len(unavailable) == 0) {
		t.Fatalf("%d keys are refused, and the document: %v", len(unavailable), err)
	}
	for _, p := range problems {
		if p.Message != notAvailable {
			t.Errorf("unexpected: %v", p)
		}
	}
}

func TestEveryRefusedKeyExists(t *testing.T) {
	known := map[string]bool{}
	for _, template := range templates(documentShape(), "") {
		known[template] = true
	}
	for _, template := range unavailable {
		if !known[template] {
			t.Errorf("%s is refused and no struct has it", template)
		}
	}
}

// templates lists every key of the document, with "*" for any key of a map.
func templates(s *shape, below string) []string {
	var out []string
	for _, f := range s.fields {
		at := join(below, f.name)
		out = append(out, at)
		inner, at := f.shape, at
		switch inner.kind {
		case kindMap:
			inner, at = inner.elem, at+".*"
		case kindList:
			inner, at = inner.elem, at+"[]"
		}
		out = append(out, templates(inner, at)...)
	}
	return out
}

func TestDefaultsAreFilledIn(t *testing.T) {
	doc := mustParse(t, "limits: {call_timeout: 5s}\nupstreams: {b: {url: 'http://h/'}, a: {url: 'http://i/', timeout: 1s, namespace: n}}")
	s := doc.Servers["default"]
	got := []any{
		doc.Listen, doc.State.String(), doc.Admin, doc.Shutdown.Std(), doc.Limits.RequestBytes.Bytes(), doc.Limits.Sessions,
		doc.Upstreams["b"].Namespace, doc.Upstreams["b"].Timeout.Std(), doc.Upstreams["b"].Era, doc.Upstreams["b"].Breaker.Failures,
		doc.Upstreams["a"].Namespace, doc.Upstreams["a"].Timeout.Std(), doc.Upstreams["a"].Key,
		s.Name, s.Path, s.Upstreams, s.Naming, s.Separator, s.PageSize, s.OriginTag.On(), doc.UpstreamKeys(),
	}
	want := []any{
		"127.0.0.1:8080", "sqlite:penstock.db", "", 10 * time.Second, int64(4 << 20), 50000,
		"b", 5 * time.Second, "auto", 5,
		"n", time.Second, "a",
		"default", "/mcp",
		[]string{"a", "b"},
		"namespaced", "__", 200, true,
		[]string{"a", "b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestServersGetPathAndSeparatorByNameAndNaming(t *testing.T) {
	doc := mustParse(t, "upstreams: {a: {url: 'http://h/'}}\nservers: {x: {naming: prefixed}, y: {naming: passthrough}, z: {origin_tag: off}}")
	x, y, z := doc.Servers["x"], doc.Servers["y"], doc.Servers["z"]
	got := []any{x.Path, x.Separator, y.Separator, z.OriginTag.On(), doc.ServerNames()}
	want := []any{"/servers/x/mcp", "-", "", false, []string{"x", "y", "z"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func TestVariablesAreReplaced(t *testing.T) {
	env := map[string]string{"A": "one", "EMPTY": "", "N": "7"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for text, want := range map[string]string{
		"plain": "plain", "${A}": "one", "x${A}y${A}": "xoneyone", "${B:-two}": "two", "${EMPTY}": "",
		"${EMPTY:-d}": "d", "$${A}": "${A}", "$": "$", "$A": "$A", "$${${A}": "${one", "${B:-}": "", "${A:-x}": "one",
	} {
		got, _, err := expand(text, lookup)
		if err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	doc, err := Parse("p", []byte("limits: {sessions: \"${N}\"}\nshutdown: ${N}s\n"), lookup)
	if err != nil || doc.Limits.Sessions != 7 || doc.Shutdown.Std() != 7*time.Second {
		t.Errorf("variables in numbers and durations: %+v, %v", doc, err)
	}
}

func TestValuesFromTheEnvironmentAndSecretsAreNeverInProblems(t *testing.T) {
	const secret = "hunter2hunter2"
	env := func(string) (string, bool) { return secret, true }
	text := `
listen: ${S}
state: ${S}
admin: ${S}
shutdown: ${S}
allow_anonymous: ${S}
allowed_hosts: ["a b${S}"]
allowed_origins: ["${S}"]
limits: {sessions: "${S}", request_bytes: "${S}"}
upstreams:
  a: {url: "${S}", era: "${S}", proxy: "${S}", headers: {X-A: "${S}\n"}, namespace: "-${S}"}
  b: {url: "http://u:hunter2hunter2@h/", proxy: "ftp://u:hunter2hunter2@h", credentials: {bearer: "hunter2hunter2 "}}
  c: {url: "ftp://h/?key=hunter2hunter2", tls: {ca: "${S}"}}
servers:
  s: {path: "${S}", upstreams: ["${S}"], naming: "${S}", separator: "/${S}", expose: {tools: {allow: ["[${S}"]}}}
  t: {aliases: {x: {upstream: "${S}", tool: y}}}
`
	_, err := Parse("p.yaml", []byte(text), env)
	var problems Problems
	if !errors.As(err, &problems) || len(problems) < 20 {
		t.Fatalf("too few problems: %v", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret is shown:\n%v", err)
	}
}

func TestSyntaxErrorsDoNotShowTheFile(t *testing.T) {
	got := problemsOf(t, "keys: {ring: [hunter2\nlisten: x").Error()
	if strings.Contains(got, "hunter2") {
		t.Errorf("the file is shown: %s", got)
	}
}

func TestWarningsTellWhatIsUnwise(t *testing.T) {
	env := func(string) (string, bool) { return "tok", true }
	doc, err := Parse("penstock.yaml", []byte(`listen: 0.0.0.0:1
allow_anonymous: on
allowed_origins: ["*"]
keys: {ring: [abc]}
observe: {listen: ":2"}
upstreams:
  a: {url: "http://h/mcp", credentials: {bearer: tok}, headers: {X-Api-Key: abc, X-Team: abc}}
  a-b: {url: "http://127.0.0.1:9/mcp", credentials: {bearer: "${T}"}}
  c: {url: "http://0.0.0.0:1/p", tls: {ca: testdata/empty.pem}}
  d: {url: "http://127.0.0.1:9/mcp"}
servers:
  p: {naming: prefixed, upstreams: [a, a-b], path: /p}
  q: {naming: passthrough, separator: x, upstreams: [c]}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`2:18: allow_anonymous: everybody who can reach 0.0.0.0:1 may call every upstream`,
		`3:19: allowed_origins[0]: "*" lets every web page in a user's browser call; name the origins`,
		`4:15: keys.ring[0]: a sealing key of less than 32 bytes can be guessed; use 32 random bytes or more`,
		`4:15: keys.ring[0]: the secret stands in the file; take it from the environment: ${NAME}`,
		`5:19: observe.listen: other machines can read the state of upstreams`,
		`7:12: upstreams.a.url: credentials travel over http in clear text; use https`,
		`7:50: upstreams.a.credentials.bearer: the secret stands in the file; take it from the environment: ${NAME}`,
		`7:77: upstreams.a.headers.X-Api-Key: the secret stands in the file; take it from the environment: ${NAME}`,
		`8:3: upstreams.a-b: names of the server p that start with "a-b-" may mean a-b or a; the longer key wins; rename one of them`,
		`9:12: upstreams.c.url: is this gateway itself`,
		`9:34: upstreams.c.tls: has no effect on an http URL`,
		`10:3: upstreams.d: no virtual server offers this upstream`,
		`13:39: servers.q.separator: has no effect under passthrough`,
	}
	if diff := cmp.Diff(want, lines(doc.Warnings)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestLoadReadsAFileAndNamesItInProblems(t *testing.T) {
	t.Setenv("PENSTOCK_TEST_LISTEN", "127.0.0.1:7")
	name := filepath.Join(t.TempDir(), "p.yaml")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("listen: ${PENSTOCK_TEST_LISTEN}\n")
	doc, err := Load(name)
	if err != nil || doc.Listen != "127.0.0.1:7" {
		t.Fatalf("Load = %+v, %v", doc, err)
	}
	write("x: 1\n")
	if _, err = Load(name); err == nil || err.Error() != name+":1:1: x: unknown key" {
		t.Errorf("Load of a bad file: %v", err)
	}
	write("# " + strings.Repeat("x", MaxFileBytes))
	if _, err = Load(name); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("Load of a large file: %v", err)
	}
	if _, err = Load(name + ".absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of no file: %v", err)
	}
}

func TestDeepNestingIsRefusedQuickly(t *testing.T) {
	for _, one := range []string{"[", "{a: ", "- ", "? ", "a: - ", "!x ", "&x "} {
		start := time.Now()
		problemsOf(t, strings.Repeat(one, 100_000))
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q takes %v", one, took)
		}
	}
}

func TestADocumentOnOneLineLoads(t *testing.T) {
	b := []byte(`{"upstreams": {"a": {"url": "http://127.0.0.1:1/mcp"}}, "servers": {"default": {"aliases": {`)
	for i := range 60 {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, `"t%d": {"upstream": "a", "tool": "x%d"}`, i, i)
	}
	b = append(b, `}}}}`...)
	doc, err := Parse("one-line.json", b, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if got := len(doc.Servers[DefaultServer].Aliases); got != 60 {
		t.Errorf("%d aliases", got)
	}
}

func TestReplicasAreCheckedOneByOne(t *testing.T) {
	_, err := Parse("f.yaml", []byte("upstreams:\n  a: {urls: [http://h/1, ftp://h/2, http://h/1, https://h/3]}\n  b: {urls: []}\n"), func(string) (string, bool) { return "", false })
	for _, want := range []string{"2:7: upstreams.a.urls: address 2 must be", "address 3 is the same as address 1", "address 4 has another scheme", "3:7: upstreams.b.urls: must not be empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	doc, err := Parse("f.yaml", []byte("upstreams:\n  a: {urls: [http://h/1, http://h/2]}\n"), func(string) (string, bool) { return "", false })
	if err != nil || len(doc.Upstreams["a"].URLs) != 2 {
		t.Errorf("%v", err)
	}
}

func TestTheStoreInMemoryNeedsNoQuotes(t *testing.T) {
	for _, line := range []string{"state: memory:", "state: memory: # for a trial", "state: \"memory:\"", "state:   memory:  "} {
		doc, err := Parse("f.yaml", []byte("upstreams: {a: {url: http://h/}}\n"+line+"\nlisten: 127.0.0.1:1\n"), func(string) (string, bool) { return "", false })
		if err != nil || doc.State.Engine() != EngineMemory {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := Parse("f.yaml", []byte("upstreams: {a: {url: http://h/}}\nstate: memory: x\n"), func(string) (string, bool) { return "", false }); err == nil {
		t.Error("what is no store was taken for one")
	}
}

func TestEarlierKeysAreNobodysNow(t *testing.T) {
	_, err := Parse("f.yaml", []byte("upstreams:\n  a: {url: http://h/, formerly: [b, a, '?']}\n  b: {url: http://i/}\n"), func(string) (string, bool) { return "", false })
	for _, want := range []string{"b is the key of another upstream now", "names the upstream itself", "an earlier key must start"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
