package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
)

// made is what key new printed: the key, and the part of the document.
func made(t *testing.T, args ...string) (key, part string) {
	t.Helper()
	stdout, stderr, err := runCommand(t, newKeyCommand(), append([]string{"new"}, args...)...)
	if err != nil || stderr != "" {
		t.Fatalf("%v %s", err, stderr)
	}
	m := regexp.MustCompile(`^key: (psk_[A-Za-z0-9_-]{43})\nhash: (sha256:[0-9a-f]{64})\n\n((?s)auth:\n.*)$`).FindStringSubmatch(stdout)
	if m == nil || !strings.Contains(m[3], m[2]) || strings.Contains(m[3], m[1]) {
		t.Fatalf("key new printed\n%s", stdout)
	}
	return m[1], m[3]
}

func TestWhatKeyNewPrintsIsPartOfADocumentThatAcceptsTheKey(t *testing.T) {
	upstream := yamlUpstreams("library", library(t))
	seen := map[string]bool{}
	for _, name := range []string{"", "alice", "7", "true", "null", "1e3", "ci.build_2-x", strings.Repeat("a", 64)} {
		args, subject := []string{"--name", name}, name
		if name == "" {
			args, subject = nil, "key"
		}
		key, part := made(t, args...)
		if seen[key] {
			t.Fatal("a key was made twice")
		}
		seen[key] = true
		doc, err := config.Parse("p.yaml", []byte(upstream+part), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if k := doc.Auth.APIKeys[0]; k.Name != subject || k.Subject != subject {
			t.Errorf("%q: the key is %q of %q", name, k.Name, k.Subject)
		}
		if name != "alice" {
			continue
		}
		url := served(t, doc)
		if got := runCall(t, "", "--header", "Authorization=Bearer "+key, url, "tools/list"); got.err != nil || !strings.Contains(got.out, "library__search_books") {
			t.Errorf("with the key: %v %s", got.err, got.out)
		}
		for _, other := range []string{"Bearer " + key[:len(key)-1], "Bearer " + key + "A", key} {
			got := runCall(t, "", "--header", "Authorization="+other, url, "tools/list")
			if got.err == nil || !strings.Contains(got.err.Error()+got.notes, "-31014") {
				t.Errorf("with %q: %v %s %s", other, got.err, got.out, got.notes)
			}
		}
		if got := runCall(t, "", url, "tools/list"); got.err == nil || !strings.Contains(got.err.Error()+got.notes, "--header 'Authorization=Bearer TOKEN'") {
			t.Errorf("without a key the command does not tell how to send one: %v %s", got.err, got.notes)
		}
	}
}

// served is the address of a gateway of a document.
func served(t *testing.T, doc *config.Document) string {
	t.Helper()
	gw, err := penstock.New(doc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = gw.Run(ctx) })
	front := httptest.NewServer(gw.Handler())
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		end, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		cancel()
		_ = gw.Close(end)
		wg.Wait()
	})
	return front.URL + "/mcp"
}

func TestABadNameOfAKeyIsWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{"new", "--name", ""},
		{"new", "--name", "a b"},
		{"new", "--name", "-a"},
		{"new", "--name", "a\nb: c"},
		{"new", "--name", "é"},
		{"new", "--name", strings.Repeat("a", 65)},
		{"new", "--name", `a", subject: "root`},
		{"new", "alice"},
	} {
		stdout, _, err := runCommand(t, newKeyCommand(), args...)
		var usage *usageError
		if !errors.As(err, &usage) || stdout != "" {
			t.Errorf("%q: %v, printed %q", args, err, stdout)
		}
	}
}
