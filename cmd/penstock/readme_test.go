package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestTheGovernedExampleOfTheReadmeRuns(t *testing.T) {
	text := after(t, page(t, "README.md"), "## With rules\n")
	text, _, _ = strings.Cut(text, "\n## ")
	dir := shortDir(t)
	demo, front := freeAddress(t), freeAddress(t)
	moved := strings.NewReplacer("127.0.0.1:8080", demo, "127.0.0.1:8081", front)
	run(t, dir, "demo", "--listen", demo).endpoint()

	_, printed, problems := once(t, dir, "key", "new", "--name", "alice")
	key, hash := regexp.MustCompile(`(?m)^key: (.*)$`).FindStringSubmatch(printed), regexp.MustCompile(`(?m)^hash: (.*)$`).FindStringSubmatch(printed)
	if key == nil || hash == nil {
		t.Fatalf("key new printed %s%s", printed, problems)
	}
	doc := regexp.MustCompile(`sha256:[0-9a-f]{64}`).ReplaceAllString(moved.Replace(fenced(t, text, "yaml")), hash[1])
	writeIn(t, dir, "governed.yaml", doc)

	var lines [][]string
	for _, m := range regexp.MustCompile(`(?m)^    \./penstock (.*)$`).FindAllStringSubmatch(text, -1) {
		lines = append(lines, words(moved.Replace(strings.ReplaceAll(m[1], "$KEY", key[1]))))
	}
	if len(lines) != 5 || lines[0][0] != "serve" {
		t.Fatalf("the commands are %q", lines)
	}
	if code, out, problems := once(t, dir, "validate", "--config", "governed.yaml"); code != 0 || problems != "" {
		t.Errorf("validate: exit %d: %s%s", code, out, problems)
	}
	p := run(t, dir, lines[0]...)
	p.endpoint()
	for i, want := range []struct{ has, lacks string }{
		{`"demo__library__search_books"`, "lend_book"},
		{"Frankenstein", "isError"},
		{"hidden by rule nobody-lends", "allowed"},
	} {
		args := lines[i+1]
		code, out, problems := once(t, dir, args...)
		if code != 0 || !strings.Contains(out, want.has) || strings.Contains(out, want.lacks) {
			t.Errorf("%q: exit %d, %s%s", args, code, out, problems)
		}
		if args[0] != "call" {
			continue
		}
		header := slices.Index(args, "--header")
		code, out, problems = once(t, dir, slices.Delete(slices.Clone(args), header, header+2)...)
		if code != 1 || !strings.Contains(problems, "HTTP 401") {
			t.Errorf("%q without the key: exit %d, %s%s", args, code, out, problems)
		}
	}
	lend := []string{"call", "--header", "Authorization=Bearer " + key[1], "http://" + front + "/mcp", "tools/call"}
	for name, params := range map[string]string{"lend_book": `{"name":"demo__library__lend_book","arguments":{}}`, "none": `{"name":"demo__library__none","arguments":{}}`} {
		if code, out, problems := once(t, dir, append(lend, params)...); code != 1 || !strings.Contains(problems, "-32602") {
			t.Errorf("%s: exit %d, %s%s", name, code, out, problems)
		}
	}
	if code, _ := p.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if code, out, problems := once(t, dir, lines[4]...); code != 0 || !strings.Contains(out, "1 run, 6 events") {
		t.Errorf("%q: exit %d, %s%s", lines[4], code, out, problems)
	}
	if strings.Contains(p.stderr(), key[1]) {
		t.Error("the key is in the log")
	}
}

// words splits a command line as a shell does that has quotes and nothing else.
func words(line string) (out []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out
}

func writeIn(t *testing.T, dir, name, text string) {
	t.Helper()
	if filepath.Base(name) != name {
		t.Fatal(name)
	}
	write(t, filepath.Join(dir, name), text)
}
