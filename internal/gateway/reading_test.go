package gateway

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAURIIsJudgedInEveryReading(t *testing.T) {
	const secret = "file:///secret/b"
	for uri, loose := range map[string]bool{
		"FILE:///secret/b": false, "file://localhost/secret/b": false, "file://LocalHost/secret/b": false, " file:///secret/b\n": false, "fi\tle:///sec\rret/b": false,
		"file:////secret/b": false, "file:///./secret/b": false, "file:///public/../secret/b": false, `file:///public\..\secret\b`: false,
		"file:///%73ecret/b": false, "file:///%2573ecret/b": false, "file:///%25252573ecret/b": false, "file:///public/%2e%2e/secret/b": false, "file:///public/..%2fsecret/b": false,
		"file:///%zz/../%73ecret/b": false, "file:///a%2fb/../secret/b": false, "file:///secret/x%2f/../b": false,
		"file:///public?/../../secret/b": false, "file:///public%3f/../secret/b": false, "file:///public%23x/%2e%2e/secret/b": false,
		"file:///secret/b?x": true, "file:///secret/b#x": true, "file://host/secret/b": true, "file://u@h:1/secret/b": true, "file:/secret/b": true, "file:secret/b": true, "file:///public/../secret/b?x": true,
	} {
		all, ok := readings(uri)
		if i := slices.IndexFunc(all, func(r reading) bool { return r.uri == secret }); !ok || i < 0 || all[i].loose != loose {
			t.Errorf("%q is read as %+v (%v)", uri, all, ok)
		}
	}
	for _, uri := range []string{
		"file:///secret/b", "https://example.com/a/b?q=1&r=/x#y", "memo://old/a", "ui://home/widget/view", "x://", "x:///", "x:a", "data:,", "file:///a/b-c_d~e",
	} {
		if all, ok := readings(uri); !ok || slices.ContainsFunc(all, func(r reading) bool { return !r.loose }) {
			t.Errorf("%q is read as %+v (%v)", uri, all, ok)
		}
	}
	for _, uri := range []string{"file:///%" + strings.Repeat("25", 60) + "73ecret/b", "file:///%61" + strings.Repeat("a", maxReadable)} {
		if all, ok := readings(uri); ok {
			t.Errorf("%.40q… is read in %d ways, and all are judged", uri, len(all))
		}
	}
}

// What is taken for plain has no other reading.
func TestAPlainURIReadsAsItself(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"file", "FILE", "x", "X", ":", "/", "//", "://", ":///", ".", "..", "/.", "/../", "%2e", "%", "%25", "\\", "?", "#", "localhost", "H", "@", " ", "\t", "a", "é", "\x00", ";",
	})
	rapid.Check(t, func(t *rapid.T) {
		head := rapid.SampledFrom([]string{"", "x://", "file:///"}).Draw(t, "head")
		uri := head + strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
		if !plainURI(uri) {
			return
		}
		for i, read := range slices.Concat(strict, loosely) {
			if got := read(uri); got != uri {
				t.Fatalf("%q is read as %q by %d", uri, got, i)
			}
		}
	})
}

func BenchmarkReadingsOfAPlainURI(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		readings("file:///public/documents/2026/report.txt")
	}
}

func BenchmarkReadingsOfAnEscapedURI(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		readings("file:///public/my%20documents/../2026/report.txt")
	}
}
