package south

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

var benchBody = []byte(`{"jsonrpc":"2.0","id":"` + strings.Repeat("y", 1000) + `","method":"tools/call"}`)

// benchServer answers each request with n bytes at the least cost, so that a
// benchmark shows the hop and not its peer.
func benchServer(b *testing.B, n int) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sun, 29 Nov 2026 00:00:00 GMT\r\nContent-Length: " +
		strconv.Itoa(n) + "\r\n\r\n" + strings.Repeat("x", n))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf, n := make([]byte, 64<<10), 0
				for {
					m, err := c.Read(buf[n:])
					if err != nil {
						return
					}
					n += m
					if head := bytes.Index(buf[:n], []byte("\r\n\r\n")); head < 0 || n < head+4+len(benchBody) {
						continue
					}
					n = 0
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/mcp"
}

func benchHop(b *testing.B, newOne func(hopOptions) hop, size int) {
	h := newOne(hopOptions{scheme: "http", static: []field{{"User-Agent", "penstock"}, {"Accept-Encoding", "identity"}, {"Accept", "application/json, text/event-stream"}}})
	b.Cleanup(h.closeIdle)
	u := mustURL(b, benchServer(b, size))
	fields := []field{{"Content-Type", "application/json"}, {"Mcp-Method", "tools/call"}, {"Mcp-Name", "echo"}, {"Mcp-Protocol-Version", "2026-07-28"}}
	into := make([]byte, 64<<10)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		resp, err := h.do(ctx, &hopRequest{verb: "POST", url: u, fields: fields, body: benchBody})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for err == nil {
			var m int
			m, err = resp.body.Read(into)
			n += m
		}
		resp.body.Close()
		cancel()
		if n != size || err != io.EOF {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkHop(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "5MB": 5 << 20} {
		for kind, make := range hopKinds {
			b.Run(kind+"/"+name, func(b *testing.B) { benchHop(b, make, size) })
		}
	}
}
