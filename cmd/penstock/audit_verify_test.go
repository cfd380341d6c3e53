package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-mcp/penstock/internal/audit"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lossy is a file whose writer had no room for some events.
func lossy(t *testing.T, path string) string {
	t.Helper()
	l := audit.New(audit.Options{File: path, QueueBytes: 4 << 10})
	for range 100 {
		l.Record(&audit.Event{Method: "tools/call", Outcome: "ok"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return path
}

// What the table of operations.md says of verify is what it says.
func TestEveryFindingOfVerifyIsInTheOperatorsTable(t *testing.T) {
	dir := t.TempDir()
	record(t, filepath.Join(dir, "good"), "", 0)
	raw, err := os.ReadFile(filepath.Join(dir, "good"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(raw), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	join := func(parts ...[]string) string {
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(strings.Join(p, ""))
		}
		return b.String()
	}
	rotated := filepath.Join(dir, "rotated")
	record(t, rotated, "", 700)
	parts, err := filepath.Glob(rotated + ".*")
	if err != nil || len(parts) < 2 {
		t.Fatalf("%v %v", parts, err)
	}
	n := 0
	file := func(text string) []string {
		n++
		path := filepath.Join(dir, "f"+string(rune('a'+n)))
		write(t, path, text)
		return []string{path}
	}
	torn := join(lines[:4]) + `{"seq":4,"time":"2026`
	crashed := filepath.Join(dir, "crashed")
	write(t, crashed, torn)
	record(t, crashed, "", 0) // the next run goes on behind it

	cases := map[string]struct {
		files []string
		code  int
	}{
		"changed or inserted":                        {file(strings.Replace(string(raw), `"outcome":"ok"`, `"outcome":"no"`, 1)), 1},
		"records are missing":                        {file(join(lines[:3], lines[5:])), 1},
		"the header does not follow the line before": {[]string{parts[0], rotated}, 1},
		"out of order":                               {file(join(lines[:3], lines[4:6], lines[3:4], lines[6:])), 1},
		"torn line":                                  {[]string{crashed}, 1},
		"note: … ended without a close record":       {file(join(lines[:5])), 0},
		"note: … events were lost here":              {[]string{lossy(t, filepath.Join(dir, "lossy"))}, 0},
	}
	text := after(t, page(t, "docs/operations.md"), "| it says | what happened |\n")
	var told []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cell, -1) {
			told = append(told, m[1])
		}
	}
	if len(told) != len(cases) {
		t.Fatalf("the page tells of %q", told)
	}
	for _, says := range told {
		c, ok := cases[says]
		if !ok {
			t.Errorf("nothing here is answered with %q", says)
		}
		code, out, problems := once(t, dir, append([]string{"audit", "verify"}, c.files...)...)
		fits := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(says), "…", ".*"))
		if code != c.code || !fits.MatchString(out) {
			t.Errorf("%s: exit %d\n%s%s", says, code, out, problems)
		}
	}
}

func TestTheRecordOfARealGatewayVerifies(t *testing.T) {
	dir := shortDir(t)
	document(t, dir, "listen: 127.0.0.1:0\n"+yamlUpstreams("library", library(t))+"audit: {file: audit.jsonl, key: '${AUDIT_KEY}'}\n")
	t.Setenv("AUDIT_KEY", "a key of more than thirty-two bytes")
	verify := func(args ...string) (int, string) {
		code, out, problems := once(t, dir, append([]string{"audit", "verify", "audit.jsonl"}, args...)...)
		return code, out + problems
	}
	serve := func() {
		p := run(t, dir, "serve")
		url := p.endpoint()
		if got := ask(t, url, "tools/call", `{"name":"library__search_books","arguments":{"query":"gothic"}}`); got.err != nil {
			t.Fatal(got.err)
		}
		if code, _ := p.signal(syscall.SIGTERM); code != 0 {
			t.Fatalf("exit %d: %s", code, p.stderr())
		}
	}
	serve()
	code, out := verify("--key-env", "AUDIT_KEY")
	last := regexp.MustCompile(`ok, last hash ([0-9a-f]{64})`).FindStringSubmatch(out)
	if code != 0 || last == nil || !strings.Contains(out, "1 file, 1 run, 1 event\n") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"the hash that was printed": {[]string{"--key-env", "AUDIT_KEY", "--expect", last[1]}, 0, "ok"},
		"another hash":              {[]string{"--key-env", "AUDIT_KEY", "--expect", strings.Repeat("0", 64)}, 1, "the expected hash is that of no line"},
		"another key":               {[]string{"--key", "another key of thirty-two bytes or so"}, 1, "the key is another"},
		"no key":                    {nil, 1, "without the key only the numbers can be checked"},
		"both keys":                 {[]string{"--key", "a", "--key-env", "AUDIT_KEY"}, 2, "not both"},
		"a variable that is not":    {[]string{"--key-env", "AUDIT_KEY_NOT"}, 2, "is not set"},
	} {
		if code, out := verify(c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit %d, want %d and %q\n%s", name, code, c.code, c.says, out)
		}
	}
	serve()
	if code, out := verify("--key-env", "AUDIT_KEY", "--expect", last[1]); code != 1 || !strings.Contains(out, "lines were written since") {
		t.Errorf("after another run: exit %d\n%s", code, out)
	}
	if code, out := verify("--key-env", "AUDIT_KEY"); code != 0 || !strings.Contains(out, "1 file, 2 runs, 2 events\n") {
		t.Errorf("two runs: exit %d\n%s", code, out)
	}
	if code, _, problems := once(t, dir, "audit", "verify", "none"); code != 1 || !strings.Contains(problems, "none") {
		t.Errorf("no file: exit %d %s", code, problems)
	}
}
