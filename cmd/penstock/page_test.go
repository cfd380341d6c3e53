package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is a page of the documentation, by its path in the repository.
func page(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// after is what follows a text in a page.
func after(t *testing.T, text, mark string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, mark)
	if !found {
		t.Fatalf("the page lacks %q", mark)
	}
	return rest
}

// fenced is the first block behind a fence of that kind.
func fenced(t *testing.T, text, kind string) string {
	t.Helper()
	m := regexp.MustCompile("(?ms)^```" + kind + "\n(.*?)^```$").FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no block of kind %q in:\n%s", kind, text)
	}
	return m[1]
}

// freeAddress is an address of the loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
