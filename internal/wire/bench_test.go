package wire

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// textBody is a result whose text has an escape every 64 bytes, rowsBody one
// whose text is JSON, dense with escaped quotes.
func textBody(n int) []byte {
	b := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`)
	for i := 0; i < n; i++ {
		if i%64 == 63 {
			b = append(b, '\\', 'n')
		} else {
			b = append(b, byte('a'+i%26))
		}
	}
	return append(b, `"}]}}`...)
}

func rowsBody(n int) []byte {
	row := []byte(`{\"id\":17,\"name\":\"Ada\",\"ok\":true,\"tags\":[\"a\",\"b\"]},\n`)
	b := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`)
	b = append(b, bytes.Repeat(row, n/len(row)+1)...)
	return append(b, `"}]}}`...)
}

func structBody(n int) []byte {
	row := []byte(`{"id":17,"name":"Ada","ok":true,"tags":["a","b"]},`)
	b := []byte(`{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"rows":[`)
	b = append(b, bytes.Repeat(row, n/len(row)+1)...)
	return append(b, `{}]}}}`...)
}

var bodies = []struct {
	name string
	make func(int) []byte
}{{"text", textBody}, {"rows", rowsBody}, {"structured", structBody}}

func eachBody(b *testing.B, run func(b *testing.B, raw []byte)) {
	for _, kind := range bodies {
		for _, n := range []int{1 << 10, 100 << 10, 5 << 20} {
			b.Run(fmt.Sprintf("%s/%dKB", kind.name, n>>10), func(b *testing.B) {
				raw := kind.make(n)
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				run(b, raw)
			})
		}
	}
}

func BenchmarkScan(b *testing.B) {
	eachBody(b, func(b *testing.B, raw []byte) {
		var a Answer
		for b.Loop() {
			if err := Scan(raw, &a); err != nil {
				b.Fatal(err)
			}
		}
	})
}

var benchPlan = &Plan{
	ID:       []byte(`"client-7"`),
	Set:      []Member{{Name: "resultType", Value: []byte(`"complete"`)}},
	SetMeta:  []Member{{Name: "penstock/upstream", Value: []byte(`"weather"`)}},
	DropMeta: []string{"io.modelcontextprotocol/serverInfo"},
}

func BenchmarkApply(b *testing.B) {
	eachBody(b, func(b *testing.B, raw []byte) {
		var dst []byte
		var err error
		for b.Loop() {
			if dst, err = benchPlan.Apply(dst[:0], raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// onlyReader hides WriterTo, and reads like a socket does: 32 KiB at most.
type onlyReader struct{ r bytes.Reader }

func (o *onlyReader) Read(p []byte) (int, error) {
	return o.r.Read(p[:min(len(p), 32<<10)])
}

func benchRewrite(b *testing.B, plan *Plan) {
	eachBody(b, func(b *testing.B, raw []byte) {
		var src onlyReader
		for b.Loop() {
			src.r.Reset(raw)
			if _, err := plan.Rewrite(io.Discard, nil, &src); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRewrite(b *testing.B) { benchRewrite(b, benchPlan) }

func BenchmarkRewriteLineSafe(b *testing.B) {
	plan := *benchPlan
	plan.LineSafe = true
	benchRewrite(b, &plan)
}

func BenchmarkRewriteURIs(b *testing.B) {
	plan := *benchPlan
	plan.MapURI = func(dst []byte, uri string) ([]byte, bool) { return dst, false }
	benchRewrite(b, &plan)
}

func BenchmarkParse(b *testing.B) {
	raw := []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"weather__forecast","arguments":{"city":"Zürich","days":3,"units":"metric"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"client","version":"1.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	var m Message
	for b.Loop() {
		if err := Parse(raw, &m); err != nil {
			b.Fatal(err)
		}
	}
}
