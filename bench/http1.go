package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The client and the upstream speak HTTP/1.1 over bare connections, so that
// they take little of the machine that they share with the hop under test.

const (
	headLimit = 64 << 10
	bodyLimit = 64 << 20
)

// head is the start line and the fields of one message, as they came. It is
// used again for the next message of its connection.
type head struct{ raw []byte }

// read takes the next head from br. It returns io.EOF when the connection ended
// before the first byte.
func (h *head) read(br *bufio.Reader) error {
	h.raw = h.raw[:0]
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, io.EOF) && len(h.raw)+len(line) > 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			return nil
		}
		if len(h.raw)+len(line) > headLimit {
			return errors.New("head too large")
		}
		h.raw = append(h.raw, line...)
	}
}

// start returns the three parts of the start line; they hold until the next
// read.
func (h *head) start() (a, b, c []byte) {
	line, _, _ := bytes.Cut(h.raw, []byte("\n"))
	a, rest, _ := bytes.Cut(bytes.TrimRight(line, "\r"), []byte(" "))
	b, c, _ = bytes.Cut(rest, []byte(" "))
	return a, b, c
}

// get returns the value of the first field of that name, or nil; it holds until
// the next read.
func (h *head) get(name string) []byte {
	_, rest, _ := bytes.Cut(h.raw, []byte("\n"))
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		rest = after
		key, value, found := bytes.Cut(line, []byte(":"))
		if found && len(key) == len(name) && bytes.EqualFold(key, []byte(name)) {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}

// readBody appends the body that follows h to buf. A message without a length
// has none: neither side of this program sends or accepts a body that ends with
// its connection.
func readBody(br *bufio.Reader, h *head, buf []byte) ([]byte, error) {
	if bytes.EqualFold(h.get("Transfer-Encoding"), []byte("chunked")) {
		return readChunks(br, buf)
	}
	length := h.get("Content-Length")
	if length == nil {
		return buf, nil
	}
	n, err := strconv.ParseUint(string(length), 10, 31)
	if err != nil {
		return buf, fmt.Errorf("Content-Length %q: %w", length, err)
	}
	return readBytes(br, buf, n)
}

func readChunks(br *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return buf, noEOF(err)
		}
		digits, _, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(";"))
		n, err := strconv.ParseUint(string(digits), 16, 31)
		if err != nil {
			return buf, fmt.Errorf("chunk of size %q: %w", digits, err)
		}
		if n > 0 {
			if buf, err = readBytes(br, buf, n); err != nil {
				return buf, err
			}
		}
		if line, err = br.ReadSlice('\n'); err != nil {
			return buf, noEOF(err)
		}
		if len(bytes.TrimRight(line, "\r\n")) > 0 {
			return buf, fmt.Errorf("%q where a chunk must have ended", line)
		}
		if n == 0 {
			return buf, nil
		}
	}
}

func readBytes(br *bufio.Reader, buf []byte, n uint64) ([]byte, error) {
	if uint64(len(buf))+n > bodyLimit {
		return buf, errors.New("body too large")
	}
	at := len(buf)
	if need := at + int(n); need > cap(buf) {
		buf = append(make([]byte, 0, need+need/4), buf...)
	}
	buf = buf[:at+int(n)]
	_, err := io.ReadFull(br, buf[at:])
	return buf, noEOF(err)
}

// noEOF tells an end within a message from one between messages.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
