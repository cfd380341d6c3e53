package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestPlanRewrites(t *testing.T) {
	set := func(name, value string) []Member { return []Member{{name, []byte(value)}} }
	for _, c := range []struct {
		name, raw, want string
		plan            Plan
	}{
		{"nothing with the zero plan", "{\n \"jsonrpc\":\"2.0\" ,\"id\":1.0,\"result\":{ \"b\":1e400,\"a\":\"<\" } }\n", "{\n \"jsonrpc\":\"2.0\" ,\"id\":1.0,\"result\":{ \"b\":1e400,\"a\":\"<\" } }\n", Plan{}},
		{"the id where it stands", `{"result":{},"id":7,"jsonrpc":"2.0"}`, `{"result":{},"id":"c-1","jsonrpc":"2.0"}`, Plan{ID: []byte(`"c-1"`)}},
		{"the id of a request", `{"method":"ping","id":7,"jsonrpc":"2.0"}`, `{"method":"ping","id":9,"jsonrpc":"2.0"}`, Plan{ID: []byte(`9`)}},
		{"a member set in place", `{"jsonrpc":"2.0","result":{"a": {"x":1} ,"b":2}}`, `{"jsonrpc":"2.0","result":{"a": 3 ,"b":2}}`, Plan{Set: set("a", "3")}},
		{"a member set that was absent", `{"jsonrpc":"2.0","result":{"b":2}}`, `{"jsonrpc":"2.0","result":{"b":2,"a":3}}`, Plan{Set: set("a", "3")}},
		{"a member set in an empty object", `{"jsonrpc":"2.0","result":{ }}`, `{"jsonrpc":"2.0","result":{ "a":3}}`, Plan{Set: set("a", "3")}},
		{"a default that is absent", `{"jsonrpc":"2.0","result":{"b":2}}`, `{"jsonrpc":"2.0","result":{"b":2,"a":3}}`, Plan{Default: set("a", "3")}},
		{"a default that is there", `{"jsonrpc":"2.0","result":{"a":null}}`, `{"jsonrpc":"2.0","result":{"a":null}}`, Plan{Default: set("a", "3")}},
		{"a default whose name is escaped", `{"jsonrpc":"2.0","result":{"\u0061":null}}`, `{"jsonrpc":"2.0","result":{"\u0061":null}}`, Plan{Default: set("a", "3")}},
		{"the first dropped", `{"jsonrpc":"2.0","result":{"a":1,"b":2}}`, `{"jsonrpc":"2.0","result":{"b":2}}`, Plan{Drop: []string{"a"}}},
		{"the last dropped", `{"jsonrpc":"2.0","result":{"b":2, "a":[1,"]"] }}`, `{"jsonrpc":"2.0","result":{"b":2 }}`, Plan{Drop: []string{"a"}}},
		{"the middle dropped", `{"jsonrpc":"2.0","result":{"b":2,"a":1,"c":3}}`, `{"jsonrpc":"2.0","result":{"b":2,"c":3}}`, Plan{Drop: []string{"a"}}},
		{"all dropped", `{"jsonrpc":"2.0","result":{"b":2,"a":1}}`, `{"jsonrpc":"2.0","result":{}}`, Plan{Drop: []string{"a", "b"}}},
		{"set, and no default", `{"jsonrpc":"2.0","result":{"a":1}}`, `{"jsonrpc":"2.0","result":{"a":2}}`, Plan{Set: set("a", "2"), Default: set("a", "3")}},
		{"set where it is absent, and no default", `{"jsonrpc":"2.0","result":{}}`, `{"jsonrpc":"2.0","result":{"a":2}}`, Plan{Set: set("a", "2"), Default: set("a", "3")}},
		{"dropped, then the default", `{"jsonrpc":"2.0","result":{"a":1}}`, `{"jsonrpc":"2.0","result":{"a":2}}`, Plan{Drop: []string{"a"}, Default: set("a", "2")}},
		{"dropped for not being an object", `{"jsonrpc":"2.0","result":{"a":[],"b":{}}}`, `{"jsonrpc":"2.0","result":{"b":{}}}`, Plan{DropNonObject: []string{"a", "b"}}},
		{"_meta made", `{"jsonrpc":"2.0","result":{"a":1}}`, `{"jsonrpc":"2.0","result":{"a":1,"_meta":{"p/u":"w"}}}`, Plan{SetMeta: set("p/u", `"w"`)}},
		{"_meta added to", `{"jsonrpc":"2.0","result":{"_meta":{"v":1}}}`, `{"jsonrpc":"2.0","result":{"_meta":{"v":1,"p/u":"w"}}}`, Plan{SetMeta: set("p/u", `"w"`)}},
		{"_meta null replaced", `{"jsonrpc":"2.0","result":{"_meta":null}}`, `{"jsonrpc":"2.0","result":{"_meta":{"p/u":"w"}}}`, Plan{SetMeta: set("p/u", `"w"`)}},
		{"a forged _meta key replaced", `{"jsonrpc":"2.0","result":{"_meta":{"p/u":{"forged":1},"v":1}}}`, `{"jsonrpc":"2.0","result":{"_meta":{"p/u":"w","v":1}}}`, Plan{SetMeta: set("p/u", `"w"`)}},
		{"a _meta key dropped", `{"jsonrpc":"2.0","result":{"_meta":{"s":{},"v":1}}}`, `{"jsonrpc":"2.0","result":{"_meta":{"v":1}}}`, Plan{DropMeta: []string{"s"}}},
		{"the same names below are left", `{"jsonrpc":"2.0","result":{"x":{"a":1,"_meta":{"s":1},"id":3}},"id":1}`, `{"jsonrpc":"2.0","result":{"x":{"a":1,"_meta":{"s":1},"id":3}},"id":2}`, Plan{ID: []byte("2"), Drop: []string{"a"}, DropMeta: []string{"s"}}},
		{"URIs of contents", `{"jsonrpc":"2.0","result":{"contents":[{"uri":"ui:\/\/x","text":"ui://y"},{"uri":"plain"},3]}}`, `{"jsonrpc":"2.0","result":{"contents":[{"uri":"key\"-ui://x","text":"ui://y"},{"uri":"plain"},3]}}`, Plan{MapURI: mapURI}},
		{"URIs of content", `{"jsonrpc":"2.0","result":{"content":[{"type":"resource_link","uri":"a://b"},{"resource":{"uri":"a://c","x":{"uri":"a://d"}}}]}}`, `{"jsonrpc":"2.0","result":{"content":[{"type":"resource_link","uri":"key\"-a://b"},{"resource":{"uri":"key\"-a://c","x":{"uri":"a://d"}}}]}}`, Plan{MapURI: mapURI}},
		{"URIs of messages", `{"jsonrpc":"2.0","result":{"messages":[{"content":{"uri":"a://b"}},{"content":[{"resource":{"uri":"a://c"}}]}]}}`, `{"jsonrpc":"2.0","result":{"messages":[{"content":{"uri":"key\"-a://b"}},{"content":[{"resource":{"uri":"key\"-a://c"}}]}]}}`, Plan{MapURI: mapURI}},
		{"URIs of _meta", `{"jsonrpc":"2.0","result":{"_meta":{"ui":{"resourceUri":"ui://a"},"ui/resourceUri":"ui://b"}}}`, `{"jsonrpc":"2.0","result":{"_meta":{"ui":{"resourceUri":"key\"-ui://a"},"ui/resourceUri":"key\"-ui://b"}}}`, Plan{MapURI: mapURI}},
		{"the URI of an error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m","data":{"uri":"a://b"}}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m","data":{"uri":"key\"-a://b"}}}`, Plan{MapURI: mapURI}},
		{"line ends between tokens", "{\"jsonrpc\":\r\n\"2.0\",\"result\":{\"x\":[\n1,\"\\n\"]}\n}\n", "{\"jsonrpc\":  \"2.0\",\"result\":{\"x\":[ 1,\"\\n\"],\"a\":[ ]} } ", Plan{LineSafe: true, Set: set("a", "[\n]")}},
		{"nothing within skipped values", `{"jsonrpc":"2.0","result":{"x":[tru,}}]}}`, `{"jsonrpc":"2.0","result":{"x":[tru,}}]}}`, Plan{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.raw, "tru,") {
				c.raw = strings.Replace(c.raw, "}}]", "1.2.3]", 1)
				c.want = c.raw
			}
			got, err := c.plan.Apply([]byte("> "), []byte(c.raw))
			if err != nil || string(got) != "> "+c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
			var out bytes.Buffer
			n, err := c.plan.Rewrite(&out, []byte(c.raw[:len(c.raw)/2]), iotest.OneByteReader(strings.NewReader(c.raw[len(c.raw)/2:])))
			if err != nil || out.String() != c.want || n != int64(out.Len()) {
				t.Errorf("streamed: got %s, %d, %v", out.String(), n, err)
			}
		})
	}
}

func TestRewriteRefuses(t *testing.T) {
	drop := Plan{Drop: []string{"x"}}
	for _, c := range []struct {
		name, raw string
		plan      Plan
	}{
		{"nothing", "", Plan{}},
		{"an array", "[]", Plan{}},
		{"a message cut in a string", `{"jsonrpc":"2.0","result":{"x":"a`, Plan{}},
		{"a message cut in a value", `{"jsonrpc":"2.0","result":{"x":[1`, drop},
		{"a message cut in a name", `{"jsonrpc":"2.0","result":{"x`, drop},
		{"a message without its last bracket", `{"jsonrpc":"2.0","result":{}`, Plan{}},
		{"data behind", `{"jsonrpc":"2.0","result":{}} {}`, Plan{}},
		{"two results", `{"jsonrpc":"2.0","result":{},"result":{}}`, Plan{}},
		{"two names by escape", `{"jsonrpc":"2.0","result":{"a":1,"\u0061":2}}`, Plan{}},
		{"two names in _meta", `{"jsonrpc":"2.0","result":{"_meta":{"a":1,"a":2}}}`, Plan{}},
		{"a result and an error", `{"jsonrpc":"2.0","result":{},"error":{"code":1}}`, Plan{}},
		{"a result that is an array", `{"jsonrpc":"2.0","result":[]}`, Plan{}},
		{"an error that is a string", `{"jsonrpc":"2.0","error":"e"}`, Plan{}},
		{"neither", `{"jsonrpc":"2.0","id":1}`, Plan{}},
		{"no version", `{"result":{}}`, Plan{}},
		{"another version", `{"jsonrpc":2.0,"result":{}}`, Plan{}},
		{"no id to replace", `{"jsonrpc":"2.0","result":{}}`, Plan{ID: []byte("1")}},
		{"a missing comma", `{"jsonrpc":"2.0" "result":{}}`, Plan{}},
		{"a comma too many", `{"jsonrpc":"2.0","result":{"a":1,}}`, Plan{}},
		{"a comma too many behind a dropped member", `{"jsonrpc":"2.0","result":{"x":1,}}`, drop},
		{"a missing value", `{"jsonrpc":"2.0","result":{"x":}}`, drop},
		{"an invalid name", "{\"jsonrpc\":\"2.0\",\"result\":{\"\xff\":1}}", Plan{}},
		{"an invalid URI", `{"jsonrpc":"2.0","result":{"contents":[{"uri":"\x"}]}}`, Plan{MapURI: mapURI}},
		{"a line end in a string", "{\"jsonrpc\":\"2.0\",\"result\":{\"a\":\"x\ny\"}}", Plan{LineSafe: true}},
		{"a line end in a string far below", "{\"jsonrpc\":\"2.0\",\"result\":{\"a\":[{\"b\":\"x\ry\"}]}}", Plan{LineSafe: true}},
		{"a line end in a dropped string", "{\"jsonrpc\":\"2.0\",\"result\":{\"x\":\"\n\"}}", Plan{LineSafe: true, Drop: []string{"x"}}},
		{"a long name", `{"jsonrpc":"2.0","result":{"` + strings.Repeat("n", 1<<17) + `":1}}`, Plan{}},
		{"a long URI", `{"jsonrpc":"2.0","result":{"contents":[{"uri":"` + strings.Repeat("n", 1<<17) + `"}]}}`, Plan{MapURI: mapURI}},
		{"a URI just too long", `{"jsonrpc":"2.0","result":{"contents":[{"uri":"` + strings.Repeat("n", window-1) + `"}]}}`, Plan{MapURI: mapURI}},
		{"long white space where members are dropped", `{"jsonrpc":"2.0","result":{"a":1,` + strings.Repeat(" ", 1<<17) + `"x":1}}`, drop},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(how string, err error) {
				t.Helper()
				var f *fault.Error
				if !errors.As(err, &f) || f.Code != fault.InvalidAnswer {
					t.Errorf("%s: got %v", how, err)
				}
			}
			got, err := c.plan.Apply([]byte("kept"), []byte(c.raw))
			check("whole", err)
			if string(got) != "kept" {
				t.Errorf("dst is now %q", got)
			}
			_, err = c.plan.Rewrite(io.Discard, []byte(c.raw), nil)
			check("head", err)
			_, err = c.plan.Rewrite(io.Discard, nil, iotest.HalfReader(strings.NewReader(c.raw)))
			check("streamed", err)
		})
	}
}

func TestRewriteHoldsAURIAsLongAsItsWindow(t *testing.T) {
	uri := "a://" + strings.Repeat("n", window-6)
	raw := `{"jsonrpc":"2.0","result":{"contents":[{"uri":"` + uri + `"}]}}`
	plan := Plan{MapURI: mapURI}
	var out bytes.Buffer
	if _, err := plan.Rewrite(&out, nil, strings.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(raw, "a://", `key\"-a://`, 1); out.String() != want {
		t.Error("the URI is not mapped")
	}
}

func TestRewriteTellsItsEndsApart(t *testing.T) {
	broken := errors.New("broken")
	raw := `{"jsonrpc":"2.0","result":{"x":"` + strings.Repeat("a", 1<<20) + `"}}`
	_, err := (&Plan{}).Rewrite(io.Discard, []byte(raw[:100]), io.MultiReader(strings.NewReader(raw[100:5000]), iotest.ErrReader(broken)))
	var re *ReadError
	if !errors.As(err, &re) || !errors.Is(err, broken) {
		t.Errorf("a source that fails: %v", err)
	}
	_, err = (&Plan{}).Rewrite(io.Discard, nil, iotest.DataErrReader(io.MultiReader(strings.NewReader(raw[:5000]), iotest.ErrReader(broken))))
	if !errors.As(err, &re) || !errors.Is(err, broken) {
		t.Errorf("a source that fails with its last bytes: %v", err)
	}
	if _, err = (&Plan{}).Rewrite(io.Discard, nil, idle{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a source that reads nothing: %v", err)
	}
	n, err := (&Plan{}).Rewrite(&failing{after: 1, err: broken}, nil, strings.NewReader(raw))
	var we *WriteError
	if !errors.As(err, &we) || !errors.Is(err, broken) || n == 0 || n >= int64(len(raw)) {
		t.Errorf("a destination that fails: %d, %v", n, err)
	}
	if _, err = (&Plan{}).Rewrite(&failing{after: 0}, []byte(raw), nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a destination that writes short: %v", err)
	}
}

// idle is a reader that never reads anything.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// failing is a writer that fails after some writes.
type failing struct {
	after int
	err   error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.after == 0 {
		return 0, f.err
	}
	f.after--
	return len(p), nil
}

// counter is a writer that notes how it is written to.
type counter struct{ writes, largest int }

func (c *counter) Write(p []byte) (int, error) {
	c.writes++
	c.largest = max(c.largest, len(p))
	return len(p), nil
}

func TestRewriteWritesLargePieces(t *testing.T) {
	raw := structBody(5 << 20)
	for name, src := range map[string]io.Reader{"large reads": bytes.NewReader(raw), "small reads": iotest.HalfReader(iotest.OneByteReader(bytes.NewReader(raw)))} {
		var c counter
		if _, err := benchPlan.Rewrite(&c, nil, src); err != nil {
			t.Fatal(err)
		}
		if limit := len(raw)/(32<<10) + 4; c.writes > limit {
			t.Errorf("%s: %d writes, at most %d expected", name, c.writes, limit)
		}
		if c.largest > 2*window {
			t.Errorf("%s: a write of %d bytes", name, c.largest)
		}
	}
	var c counter
	if _, err := benchPlan.Rewrite(&c, textBody(4<<10), nil); err != nil || c.writes != 1 {
		t.Errorf("a small answer takes %d writes, %v", c.writes, err)
	}
}

func TestApplyAndRewriteAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop what they hold")
	}
	raw := rowsBody(200 << 10)
	dst := make([]byte, 0, 2*len(raw))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := benchPlan.Apply(dst, raw); err != nil {
			t.Fatal(err)
		}
	}); n >= 1 {
		t.Errorf("Apply: %v allocations", n)
	}
	var src onlyReader
	if n := testing.AllocsPerRun(100, func() {
		src.r.Reset(raw)
		if _, err := benchPlan.Rewrite(io.Discard, nil, &src); err != nil {
			t.Fatal(err)
		}
	}); n >= 1 {
		t.Errorf("Rewrite: %v allocations", n)
	}
}

// chunked reads what it holds in pieces of given sizes, in turn.
type chunked struct {
	b     []byte
	sizes []int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(c.b), c.sizes[0])
	c.sizes = append(c.sizes[1:], c.sizes[0])
	copy(p, c.b[:n])
	c.b = c.b[n:]
	return n, nil
}

func TestRewriteEqualsTheReferenceInAnyPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{t}
		raw := []byte(g.message())
		plan := g.plan()
		if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
			plan.MapURI = nil // it would meet a URI that is too long
			raw = bytes.Replace(raw, []byte(`"plain"`), []byte(`"`+strings.Repeat(`long\"`, 20000)+`"`), 1)
		}
		got, err := plan.Apply(nil, raw)
		want, wantErr := refRewrite(plan, raw)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: got %v, the reference %v", raw, err, wantErr)
		}
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%s\ngot  %s\nwant %s", raw, got, want)
		}
		head := rapid.IntRange(0, len(raw)).Draw(t, "head")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 5).Draw(t, "sizes")
		var out bytes.Buffer
		n, streamErr := plan.Rewrite(&out, raw[:head], &chunked{raw[head:], sizes})
		if (err == nil) != (streamErr == nil) {
			t.Fatalf("%s: whole %v, streamed %v", raw, err, streamErr)
		}
		if err == nil && (!bytes.Equal(out.Bytes(), got) || n != int64(len(got))) {
			t.Fatalf("%s\nwhole    %s\nstreamed %s", raw, got, out.Bytes())
		}
	})
}
