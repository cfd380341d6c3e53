package south

import (
	"bytes"
	"errors"
	"io"
)

const (
	maxChunkLine = 4 << 10  // a chunk's size with its extensions
	maxOverhead  = 16 << 10 // what chunking may cost beyond what its data justifies
)

var errChunk = errors.New("malformed chunked body")

// chunks reads a chunked body (RFC 9112 section 7.1) from a connection. It
// copies data only when it came along with a chunk's size.
type chunks struct {
	left     int64 // of the current chunk
	begun    bool  // a chunk was read; the CRLF after its data is still to come
	overhead int64 // an upstream must not make us read sizes instead of data
	trailer  int   // what the trailer may still be long
}

// read returns data, never more than one wait's worth, or io.EOF after the trailer.
func (k *chunks) read(c *plainConn, p []byte) (n int, err error) {
	for n < len(p) {
		if k.left == 0 {
			if n > 0 && !k.nextHere(c.buffered()) {
				return n, nil
			}
			if err := k.next(c); err != nil {
				return n, err
			}
		}
		if n > 0 && c.r == c.w {
			return n, nil
		}
		m, err := c.read(p[n:min(int64(len(p)), int64(n)+k.left)], true)
		n += m
		k.left -= int64(m)
		if err != nil {
			return n, unexpected(err)
		}
	}
	if k.left == 0 && k.nextHere(c.buffered()) {
		// The end, when it is here, comes with the last data.
		if err := k.next(c); err != nil {
			return n, err
		}
	}
	return n, nil
}

// nextHere tells whether all that next is going to read is in b.
func (k *chunks) nextHere(b []byte) bool {
	if k.begun {
		if len(b) < 2 {
			return false
		}
		b = b[2:]
	}
	if len(b) == 0 {
		return false
	}
	if b[0] == '0' {
		return bytes.Contains(b, []byte("\r\n\r\n"))
	}
	return bytes.IndexByte(b, '\n') >= 0
}

// next reads up to the next chunk's data, or the trailer and then io.EOF.
func (k *chunks) next(c *plainConn) error {
	if k.begun {
		budget := 2
		if l, err := c.line(&budget); err != nil {
			return chunkError(err)
		} else if string(l) != "\r" {
			return errChunk
		}
		k.begun = false
	}
	budget := maxChunkLine
	l, err := c.line(&budget)
	if err != nil {
		return chunkError(err)
	}
	if k.left, err = chunkSize(l); err != nil {
		return err
	}
	if k.left > 0 {
		k.begun = true
		k.overhead = max(0, k.overhead+int64(len(l))-16-2*k.left)
		if k.overhead > maxOverhead {
			return errChunk
		}
		return nil
	}
	for {
		l, err := c.line(&k.trailer)
		if err != nil {
			return err
		}
		n := len(l)
		if n == 0 || l[n-1] != '\r' {
			return errChunk
		}
		if n == 1 {
			return io.EOF
		}
		if _, _, err := splitField(l[:n-1]); err != nil {
			return err
		}
	}
}

func chunkError(err error) error {
	if errors.Is(err, errHeaderTooLarge) {
		return errChunk
	}
	return err
}

// chunkSize reads "1a;extension\r". Extensions mean nothing here.
func chunkSize(l []byte) (n int64, err error) {
	if len(l) == 0 || l[len(l)-1] != '\r' {
		return 0, errChunk
	}
	l = l[:len(l)-1]
	i := 0
	for ; i < len(l); i++ {
		d := l[i]
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d|0x20 && d|0x20 <= 'f':
			d = d | 0x20 - 'a' + 10
		default:
			return n, chunkRest(l[i:], i)
		}
		if i == 15 {
			return 0, errChunk
		}
		n = n<<4 | int64(d)
	}
	return n, chunkRest(nil, i)
}

// chunkRest checks what follows the digits of a size.
func chunkRest(l []byte, digits int) error {
	if digits == 0 || bytes.IndexByte(l, '\r') >= 0 {
		return errChunk
	}
	if l = trimSpace(l); len(l) > 0 && l[0] != ';' {
		return errChunk
	}
	return nil
}
