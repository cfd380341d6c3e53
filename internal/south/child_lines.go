package south

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// edge is how much of the beginning and the end of an overlong line is kept, to
// tell whose it was.
const edge = 1 << 10

// lines reads lines of bounded length. One that is longer passes by in bounded
// memory.
type lines struct {
	r     *bufio.Reader
	limit int64
}

func newLines(r io.Reader, limit int64) *lines {
	return &lines{r: bufio.NewReaderSize(r, window), limit: limit}
}

// oneLine is a line without its end. It is valid until the next one is read,
// unless owned.
type oneLine struct {
	text  []byte
	owned bool // text belongs to the caller
	// over says that the line was longer than the limit: text is its beginning
	// and tail its end.
	over bool
	tail []byte
}

// next returns the next complete line; what is behind the last line end is none.
func (l *lines) next() (oneLine, error) {
	text, err := l.r.ReadSlice('\n')
	if err == nil {
		text = text[:len(text)-1]
		if int64(len(text)) > l.limit {
			return oneLine{text: text[:min(len(text), edge)], tail: text[max(0, len(text)-edge):], over: true}, nil
		}
		return oneLine{text: text}, nil
	}
	var long []byte
	for errors.Is(err, bufio.ErrBufferFull) {
		long = append(long, text...)
		if int64(len(long)) > l.limit {
			return l.pass(long)
		}
		text, err = l.r.ReadSlice('\n')
	}
	if err != nil {
		return oneLine{}, err
	}
	long = append(long, text[:len(text)-1]...)
	if int64(len(long)) > l.limit {
		return oneLine{text: long[:edge], tail: long[len(long)-edge:], over: true}, nil
	}
	return oneLine{text: long, owned: true}, nil
}

// pass reads to the end of a line that is too long.
func (l *lines) pass(long []byte) (oneLine, error) {
	o := oneLine{text: bytes.Clone(long[:min(len(long), edge)]), over: true}
	o.tail = keepTail(nil, long)
	for {
		text, err := l.r.ReadSlice('\n')
		o.tail = keepTail(o.tail, text)
		if err == nil {
			return o, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return oneLine{}, err
		}
	}
}

// keepTail returns the last bytes of tail and more together, in memory of its own.
func keepTail(tail, more []byte) []byte {
	if len(more) >= edge {
		return append(tail[:0], more[len(more)-edge:]...)
	}
	tail = append(tail, more...)
	if over := len(tail) - edge; over > 0 {
		tail = append(tail[:0], tail[over:]...)
	}
	return tail
}
