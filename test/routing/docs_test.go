package routing_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/fault"
)

var writeDocs = flag.Bool("write", false, "write the generated part of docs/errors.md instead of comparing it")

const root = "../.."

// errorsPage is docs/errors.md, whole.
func errorsPage() string {
	var b strings.Builder
	b.WriteString(`# Errors

Every error is a JSON-RPC error with one of these codes. The message says what happened, to which upstream where the caller
may know it, and what to try. Errors of an upstream itself pass with the upstream's own code, message and data; only a code
that the client's era does not have becomes the one that it has.

The HTTP status differs by era: a legacy client reads 404 as the end of its session. "Retry" says whether the same request,
unchanged, may succeed later. Missing metadata in a request of 2026-07-28 is ` + "`-32602`" + ` with HTTP 400.

| code | name | HTTP | HTTP, legacy | retry | what you can do |
|---|---|---|---|---|---|
`)
	for _, e := range fault.All() {
		retry := "no"
		if e.Retry {
			retry = "yes"
		}
		fmt.Fprintf(&b, "| `%d` | %s | %d | %d | %s | %s |\n", int(e.Code), e.Name, e.HTTP, e.Legacy, retry, e.Advice)
	}
	b.WriteString(`
After ` + "`-31001`" + ` nothing ran. After ` + "`-31002`" + ` and ` + "`-31003`" + ` the call may have run: look before you send it again. After ` + "`-31014`" + ` to ` + "`-31021`" + ` nothing ran, except where
an after hook refused a result: its message says so. After ` + "`-31006`" + `
in answer to a call the tool ran, and its task was cancelled.
`)
	return b.String()
}

func TestErrorsPageIsTheCatalogue(t *testing.T) {
	path := filepath.Join(root, "docs", "errors.md")
	if *writeDocs {
		if err := os.WriteFile(path, []byte(errorsPage()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != errorsPage() {
		t.Error("docs/errors.md is not what the catalogue says: run go test ./test/routing -run TestErrorsPage -write")
	}
}

func TestDocumentsInTheDocumentationLoad(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	env := func(string) (string, bool) { return "a-token-from-the-environment", true }
	n := 0
	for _, page := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(page.text, -1) {
			n++
			if _, err := config.Parse(page.name, []byte(m[1]), env); err != nil {
				t.Errorf("%s: %v\n%s", page.name, err, m[1])
			}
		}
	}
	if n < 2 {
		t.Errorf("only %d documents found", n)
	}
}

func TestLinksInTheDocumentationLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(page.text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page.name), m[1])); err != nil {
				t.Errorf("%s: %v", page.name, err)
			}
		}
	}
}

type docPage struct{ name, text string }

func pages(t *testing.T) []docPage {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []docPage
	for _, path := range append(found, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, docPage{name, string(text)})
	}
	return out
}
