package taskcost_test

import (
	"bytes"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// upstreams is one server that is many upstreams, by path, and answers on its
// connections without allocating. It makes a task of every call.
type upstreams struct {
	url  string
	made atomic.Int64
}

func newUpstreams(t testing.TB) *upstreams {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstreams{url: "http://" + ln.Addr().String()}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go u.serve(c) // until the gateway, which is closed before, lets go of it
		}
	}()
	return u
}

var (
	headEnd    = []byte("\r\n\r\n")
	lengthName = []byte("Content-Length: ")
	idName     = []byte(`"id":`)
	taskName   = []byte(`"taskId":"`)
	isDiscover = []byte(`"server/discover"`)
	isList     = []byte(`"tools/list"`)
	isCall     = []byte(`"tools/call"`)
)

const (
	selfResult = `,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"` + extension + `":{}}},"ttlMs":3600000,"cacheScope":"public"}}`
	listResult = `,"result":{"resultType":"complete","tools":[{"name":"work","inputSchema":{"type":"object"}}],"ttlMs":3600000,"cacheScope":"public"}}`
	taskResult = `","status":"working","createdAt":"2026-07-28T12:00:00.000Z","lastUpdatedAt":"2026-07-28T12:00:00.000Z","ttlMs":null,"pollIntervalMs":1000}}`
)

func (u *upstreams) serve(c net.Conn) {
	defer c.Close() //nolint:errcheck // it is the gateway's to close
	in, out, body := make([]byte, 64<<10), make([]byte, 0, 64<<10), make([]byte, 0, 4<<10)
	for n := 0; ; {
		m, err := c.Read(in[n:])
		if err != nil {
			return
		}
		n += m
		end, at := bytes.Index(in[:n], headEnd), bytes.Index(in[:n], lengthName)
		if end < 0 || at < 0 {
			continue
		}
		length := 0
		for _, d := range in[at+len(lengthName) : end] {
			if d < '0' || d > '9' {
				break
			}
			length = length*10 + int(d-'0')
		}
		if n < end+4+length {
			continue
		}
		body = u.answer(body[:0], in[end+4:n])
		out = append(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "...)
		out = strconv.AppendInt(out, int64(len(body)), 10)
		out = append(append(out, headEnd...), body...)
		if _, err := c.Write(out); err != nil {
			return
		}
		n = 0
	}
}

func (u *upstreams) answer(dst, asked []byte) []byte {
	id := asked[bytes.Index(asked, idName)+len(idName):]
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id[:bytes.IndexByte(id[1:], '"')+2]...)
	switch {
	case bytes.Contains(asked, isDiscover):
		return append(dst, selfResult...)
	case bytes.Contains(asked, isList):
		return append(dst, listResult...)
	case bytes.Contains(asked, isCall):
		dst = append(dst, `,"result":{"resultType":"task","taskId":"`...)
		dst = appendID(dst, u.made.Add(1))
	default:
		of := asked[bytes.Index(asked, taskName)+len(taskName):]
		dst = append(dst, `,"result":{"resultType":"complete","taskId":"`...)
		dst = append(dst, of[:bytes.IndexByte(of, '"')]...)
	}
	return append(dst, taskResult...)
}

// appendID appends the id of the n-th task; all are as long.
func appendID(dst []byte, n int64) []byte {
	return strconv.AppendInt(append(dst, "task-"...), 1_000_000_000+n, 10)
}
