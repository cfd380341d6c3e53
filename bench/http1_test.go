package main

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestABodyIsReadToItsEndAndNotBeyond(t *testing.T) {
	for name, tc := range map[string]struct{ message, want string }{
		"length":             {"POST / HTTP/1.1\r\ncontent-LENGTH: 5\r\n\r\nhello", "hello"},
		"none":               {"HTTP/1.1 202 Accepted\r\nX: y\r\n\r\n", ""},
		"chunks":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n", "hello"},
		"chunks in upper-A":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
		"a line of the body": {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\r\n\r\n", "\r\n\r\n"},
	} {
		br := bufio.NewReader(strings.NewReader(tc.message + "NEXT"))
		var h head
		if err := h.read(br); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := readBody(br, &h, nil)
		if err != nil || string(body) != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, body, err, tc.want)
		}
		if rest, _ := io.ReadAll(br); string(rest) != "NEXT" {
			t.Errorf("%s: %q is left, want NEXT", name, rest)
		}
	}
}

func TestAMessageThatIsCutIsNoMessage(t *testing.T) {
	for _, message := range []string{
		"HTTP/1.1 200 OK\r\nContent-Le",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhell",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello world\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1999999999\r\n\r\n",
	} {
		br := bufio.NewReader(strings.NewReader(message))
		var h head
		err := h.read(br)
		if err == nil {
			_, err = readBody(br, &h, nil)
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: error %v", message, err)
		}
	}
	var h head
	if err := h.read(bufio.NewReader(strings.NewReader(""))); !errors.Is(err, io.EOF) {
		t.Errorf("nothing: %v, want io.EOF", err)
	}
	if err := h.read(bufio.NewReader(strings.NewReader(strings.Repeat("X: y\r\n", headLimit)))); err == nil {
		t.Error("a head without end is read")
	}
}
