package config

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"unicode/utf8"
)

// Whatever the bytes: no panic, and either a complete document or problems that lie
// within the file.
func FuzzParse(f *testing.F) {
	for _, text := range goodDocuments {
		f.Add([]byte(text))
	}
	for _, bad := range badDocuments {
		f.Add([]byte(bad.text))
	}
	reference, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(reference)
	env := func(name string) (string, bool) { return "value of " + name, len(name)%2 == 0 }
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, refused := range []func(string) bool{unavailableKey, func(string) bool { return false }} {
			doc, err := parse("f", data, env, refused)
			if err == nil {
				if doc == nil || len(doc.Servers) == 0 || doc.Listen == "" {
					t.Fatal("the document is not complete")
				}
				checkPlaces(t, data, doc.Warnings)
				continue
			}
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("an error without problems: %v", err)
			}
			checkPlaces(t, data, problems)
		}
	})
}

func checkPlaces(t *testing.T, data []byte, problems Problems) {
	t.Helper()
	all := bytes.Split(data, []byte("\n"))
	for _, p := range problems {
		if p.Line < 1 || p.Line > len(all) || p.Column < 1 || p.Column > utf8.RuneCount(all[p.Line-1])+1 {
			t.Fatalf("the place lies outside the file: %v", p)
		}
		if p.Message == "" {
			t.Fatalf("a problem without a message: %+v", p)
		}
	}
}
