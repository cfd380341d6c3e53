package south

import (
	"bytes"
	"testing"
	"testing/iotest"
)

// However the bytes arrive, lines are those between line ends, and what is
// longer than the limit is told by its edges.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), int64(2))
	f.Add(bytes.Repeat([]byte("x"), 3*edge), int64(10))
	f.Add(append(bytes.Repeat([]byte("yz"), window), '\n'), int64(window))
	f.Fuzz(func(t *testing.T, in []byte, limit int64) {
		if limit < 1 || limit > 1<<20 {
			t.Skip("limits are at least a byte")
		}
		l := newLines(iotest.HalfReader(bytes.NewReader(in)), limit)
		want := bytes.Split(in, []byte{'\n'})
		for _, w := range want[:len(want)-1] {
			got, err := l.next()
			if err != nil {
				t.Fatal(err)
			}
			if over := int64(len(w)) > limit; got.over != over {
				t.Fatalf("%d bytes, limit %d: over is %v", len(w), limit, got.over)
			}
			if !got.over && !bytes.Equal(got.text, w) {
				t.Fatalf("got %q, want %q", got.text, w)
			}
			if got.over && (!bytes.HasPrefix(w, got.text) || !bytes.HasSuffix(w, bytes.TrimSuffix(got.tail, []byte{'\n'}))) {
				t.Fatalf("edges %q and %q of %q", got.text, got.tail, w)
			}
		}
		if _, err := l.next(); err == nil {
			t.Error("a line without its end counts")
		}
	})
}
