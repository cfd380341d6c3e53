package south

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// happening is one event as the client sees it.
type happening struct {
	Data, ID string
	Retry    time.Duration
}

// naive is the event stream grammar of the HTML standard, read whole and slowly.
func naive(raw string) (out []happening) {
	raw = strings.ReplaceAll(raw, "\r\n", "\n")
	raw = strings.ReplaceAll(raw, "\r", "\n")
	var h happening
	var data []string
	kind := ""
	lines := strings.Split(raw, "\n")
	for _, line := range lines[:len(lines)-1] { // what has no end is no line
		if line == "" {
			if joined := strings.Join(data, "\n"); joined != "" && (kind == "" || kind == "message") {
				h.Data = joined
				out = append(out, h)
			}
			data, kind = nil, ""
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value)
		case "event":
			kind = value
		case "id":
			if !strings.Contains(value, "\x00") {
				h.ID = value
			}
		case "retry":
			if digits(value) {
				var ms int64
				fmt.Sscan(value, &ms)
				h.Retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	return out
}

func digits(s string) bool {
	return s != "" && len(s) < 10 && strings.Trim(s, "0123456789") == ""
}

// drained reads every event of r with a window of that size.
func drained(r io.Reader, size, limit int) (out []happening, err error) {
	v := &events{r: r, buf: make([]byte, size)}
	for {
		data, rest, err := v.next(nil, limit)
		if err != nil {
			return out, err
		}
		if rest != nil {
			more, err := io.ReadAll(rest)
			if err != nil {
				return out, err
			}
			data = append(data, more...)
		}
		out = append(out, happening{string(data), v.lastID, v.retry})
	}
}

// sliced reads at most n bytes at a time.
type sliced struct {
	r io.Reader
	n int
}

func (p sliced) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

func TestEventsAreReadAsTheStandardSays(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want []string
	}{
		{"data: a\n\n", []string{"a"}},
		{"data: a\r\n\r\n", []string{"a"}},
		{"data: a\r\r", []string{"a"}},
		{"data: a\n\r\ndata: b\r\n\n", []string{"a", "b"}},
		{"data:a\n\ndata:  b\n\n", []string{"a", " b"}},
		{"data: a\ndata: b\n\n", []string{"a\nb"}},
		{"data\ndata: a\n\n", []string{"\na"}},
		{": comment\n\ndata: a\n\n", []string{"a"}},
		{"event: message\ndata: a\n\n", []string{"a"}},
		{"event: other\ndata: a\n\ndata: b\n\n", []string{"b"}},
		{"data: a\nevent: other\n\ndata: b\n\n", []string{"b"}},
		{"id: 1\ndata:\n\ndata: b\n\n", []string{"b"}}, // the priming event of 2025-11-25
		{"id: 1\n\ndata: b\n\n", []string{"b"}},
		{"data: a\n", nil},
		{"data: a", nil},
		{"dat: a\n\n Data: a\n\nDATA: a\n\n", nil},
		{"data: a: b\n\n", []string{"a: b"}},
		{"\n\n\ndata: a\n\n\n\n", []string{"a"}},
		{"data: \u2028\u0085\x00\n\n", []string{"\u2028\u0085\x00"}}, // no other line ends
	} {
		for n := 1; n <= len(c.raw); n++ {
			got, err := drained(sliced{strings.NewReader(c.raw), n}, 256, 1000)
			var data []string
			for _, h := range got {
				data = append(data, h.Data)
			}
			if d := cmp.Diff(c.want, data); d != "" || !errors.Is(err, io.EOF) {
				t.Errorf("%q by %d: %v %s", c.raw, n, err, d)
			}
		}
	}
}

func TestAByteOrderMarkBeforeTheFirstEventIsNone(t *testing.T) {
	got, err := drained(strings.NewReader("\ufeffdata: a\n\ndata: \ufeffb\n\n"), 256, 1000)
	if d := cmp.Diff([]happening{{Data: "a"}, {Data: "\ufeffb"}}, got); d != "" {
		t.Errorf("%v %s", err, d)
	}
}

func TestIDAndRetryAreRemembered(t *testing.T) {
	raw := "id: a\nretry: 250\ndata: 1\n\ndata: 2\n\nid\nretry: soon\ndata: 3\n\nid: x\x00y\nretry:7\ndata: 4\n\nretry: -5\nid: z\nevent: other\ndata: 5\n\ndata: 6\n\n"
	got, _ := drained(strings.NewReader(raw), 1024, 1000)
	want := []happening{
		{"1", "a", 250 * time.Millisecond},
		{"2", "a", 250 * time.Millisecond},
		{"3", "", 250 * time.Millisecond},
		{"4", "", 7 * time.Millisecond},
		{"6", "z", 7 * time.Millisecond},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzEventsAgreeWithANaiveReader(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "id: 1\r\ndata: {\r\ndata: }\r\n\r\n", "event: x\rdata: y\r\r", ": c\n\nretry: 5\ndata:z\n\n",
		"data\n\n", "data: a\r\n\rdata: b\n\n\r", "id\n\ndata: \r\r\n\n", "data:\ndata:\n\n",
	} {
		for _, n := range []uint8{1, 2, 7, 255} {
			f.Add([]byte(s), n)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, n uint8) {
		if bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")) {
			t.Skip("a byte order mark has its own test")
		}
		got, err := drained(sliced{bytes.NewReader(raw), int(n)%64 + 1}, len(raw)+64, len(raw)+64)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("ended with %v", err)
		}
		want := naive(string(raw))
		for i := range want { // a retry with a sign or of many digits is not worth a rule
			if i < len(got) && got[i].Retry != want[i].Retry && bytes.Contains(raw, []byte("retry")) && !plainRetries(raw) {
				got[i].Retry = want[i].Retry
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%q: %s", raw, d)
		}
	})
}

// plainRetries reports whether every retry of a stream is a short number.
func plainRetries(raw []byte) bool {
	for _, line := range bytes.FieldsFunc(raw, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if v, ok := bytes.CutPrefix(line, []byte("retry:")); ok && !digits(strings.TrimPrefix(string(v), " ")) {
			return false
		}
	}
	return true
}

// Events larger than the window come out whole through the reader of their rest.
func TestEventsOfAnySizePassThroughASmallWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(64, 200).Draw(t, "window")
		limit := rapid.IntRange(1, size).Draw(t, "limit")
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "line end")
		var raw strings.Builder
		var want []happening
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			lines := rapid.SliceOfN(rapid.StringMatching(`[a-z{}:" ]{0,400}`), 1, 4).Draw(t, "lines")
			if rapid.Bool().Draw(t, "id") {
				raw.WriteString("id: 7" + end)
			}
			for _, l := range lines {
				raw.WriteString("data: " + l + end)
			}
			raw.WriteString(end)
			if joined := strings.Join(lines, "\n"); joined != "" {
				want = append(want, happening{Data: joined})
			}
		}
		n := rapid.IntRange(1, 300).Draw(t, "piece")
		got, err := drained(sliced{strings.NewReader(raw.String()), n}, size, limit)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("ended with %v", err)
		}
		for i := range got {
			got[i].ID = ""
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestALongLineWithoutDataEndsTheStream(t *testing.T) {
	for _, raw := range []string{"id: " + strings.Repeat("x", 300) + "\n\n", "event: " + strings.Repeat("x", 300) + "\ndata: a\n\n", strings.Repeat("x", 300)} {
		if got, err := drained(strings.NewReader(raw), 128, 100); !errors.Is(err, errEventTooLong) {
			t.Errorf("%.10q: %v, %v", raw, got, err)
		}
	}
}

func TestACutWithinALongEventIsNoEnd(t *testing.T) {
	v := &events{r: strings.NewReader("data: " + strings.Repeat("a", 500)), buf: make([]byte, 128)}
	_, rest, err := v.next(nil, 10)
	if err != nil || rest == nil {
		t.Fatalf("rest %v, error %v", rest, err)
	}
	if _, err := io.ReadAll(rest); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the rest ended with %v", err)
	}
}

func TestAReaderThatGivesNothingIsGivenUp(t *testing.T) {
	nothing := iotest.ErrReader(nil) // no bytes and no error, for ever
	if _, err := drained(nothing, 128, 100); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%v", err)
	}
}
