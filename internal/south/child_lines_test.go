package south

import (
	"bytes"
	"slices"
	"testing"
)

func TestLinesKeepsTheEdgesOfWhatIsTooLong(t *testing.T) {
	for _, size := range []int{10, 100, window - 1, window, window + 1, 3 * window, 3*window + 7} {
		for _, limit := range []int64{50, window, 2 * window, 10 * window} {
			text := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
			in := slices.Concat(text, []byte("\nnext\nunfinished"))
			l := newLines(bytes.NewReader(in), limit)
			got, err := l.next()
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(size) > limit; got.over != want {
				t.Fatalf("size %d limit %d: over is %v", size, limit, got.over)
			}
			if got.over {
				tail := bytes.TrimSuffix(got.tail, []byte("\n"))
				if !bytes.HasPrefix(text, got.text) || !bytes.HasSuffix(text, tail) || len(tail) < min(size, edge)-1 {
					t.Errorf("size %d limit %d: edges %d, %d", size, limit, len(got.text), len(tail))
				}
			} else if !bytes.Equal(got.text, text) {
				t.Errorf("size %d limit %d: %d bytes", size, limit, len(got.text))
			}
			if got, err := l.next(); err != nil || string(got.text) != "next" {
				t.Errorf("size %d limit %d: then %q, %v", size, limit, got.text, err)
			}
			if _, err := l.next(); err == nil {
				t.Errorf("size %d limit %d: an unfinished line counts", size, limit)
			}
		}
	}
}
