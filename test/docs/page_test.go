package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is a page of the documentation.
func page(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// section is what stands under a heading, up to the next one of its level or above.
func section(t testing.TB, text, heading string) string {
	t.Helper()
	level := strings.Index(heading, " ")
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != heading {
			continue
		}
		var out strings.Builder
		fenced := false
		for _, line := range lines[i+1:] {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if n := strings.Index(line, " "); !fenced && n > 0 && n <= level && strings.Trim(line[:n], "#") == "" {
				break
			}
			out.WriteString(line)
		}
		return out.String()
	}
	t.Fatalf("no section %q", heading)
	return ""
}

var headings = regexp.MustCompile(`(?m)^### (.*)$`)

// block is the nth fenced block of a text, without its fence. kind is what stands behind the fence.
func block(t testing.TB, text, kind string, n int) string {
	t.Helper()
	all := regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(text, -1)
	if len(all) <= n {
		t.Fatalf("%d blocks of kind %q in:\n%s", len(all), kind, text)
	}
	return all[n][1]
}

// table is the rows of the first table with these column names, each cell trimmed.
func table(t testing.TB, text string, columns ...string) [][]string {
	t.Helper()
	head := "| " + strings.Join(columns, " | ") + " |\n"
	_, rest, found := strings.Cut(text, head)
	if !found {
		t.Fatalf("no table %v", columns)
	}
	var out [][]string
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != len(columns) {
			t.Fatalf("%d cells in %s", len(cells), line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	if len(out) == 0 {
		t.Fatalf("table %v is empty", columns)
	}
	return out
}

var quoted = regexp.MustCompile("`([^`]*)`")

// code is what stands in backticks.
func code(cell string) (out []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

func contains(text, part string) bool { return strings.Contains(text, part) }
