package south

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// errEventTooLong is a field that is not data and does not fit the window.
var errEventTooLong = errors.New("event stream: a line without data exceeds the window")

// events reads a text/event-stream. It holds one window; the data of an event
// longer than that is handed out as a reader.
//
// Lines may end in LF, CRLF or CR. An event whose type is neither absent nor
// "message" is passed over, and so is one without data, such as the priming
// event of 2025-11-25; its id and retry are kept all the same.
type events struct {
	r        io.Reader
	buf      []byte // the window
	s, e     int    // unread bytes are buf[s:e]
	begun    bool   // a byte order mark at the beginning was looked for
	skipLF   bool   // the last line ended in CR; an LF right after it belongs to it
	err      error  // what r ended with
	lastID   string // of the last complete event
	nextID   string // of the event being read, which may yet break off
	retry    time.Duration
	sawEvent bool // any complete event, also an empty one
}

// byteOrderMark may stand before the first line and means nothing.
var byteOrderMark = []byte("\xef\xbb\xbf")

func (v *events) fill() bool {
	if v.err != nil {
		return false
	}
	if v.s > 0 {
		v.e = copy(v.buf, v.buf[v.s:v.e])
		v.s = 0
	}
	if v.e == len(v.buf) {
		return false
	}
	for range 100 {
		n, err := v.r.Read(v.buf[v.e:])
		v.e += n
		if err != nil {
			v.err = err
			return n > 0
		}
		if n > 0 {
			return true
		}
	}
	v.err = io.ErrNoProgress
	return false
}

// piece returns the next part of the current line, and whether the line ends
// with it. It is short of the line's end only when the window is full.
func (v *events) piece() (p []byte, end bool, err error) {
	for !v.begun {
		if v.e-v.s < len(byteOrderMark) && v.fill() {
			continue
		}
		v.begun = true
		if bytes.HasPrefix(v.buf[v.s:v.e], byteOrderMark) {
			v.s += len(byteOrderMark)
		}
	}
	for {
		if v.skipLF && v.s < v.e {
			if v.buf[v.s] == '\n' {
				v.s++
			}
			v.skipLF = false
		}
		w := v.buf[v.s:v.e]
		i := bytes.IndexByte(w, '\n')
		if i >= 0 {
			w = w[:i]
		}
		if j := bytes.IndexByte(w, '\r'); j >= 0 {
			v.s += j + 1
			v.skipLF = true
			return w[:j], true, nil
		}
		if i >= 0 {
			v.s += i + 1
			return w, true, nil
		}
		if v.s == 0 && v.e == len(v.buf) {
			v.s = v.e
			return w, false, nil
		}
		if !v.fill() {
			if v.err != nil {
				// A last line without its end belongs to an event that never came.
				return nil, false, v.err
			}
		}
	}
}

// next returns the data of the next event. When rest is not nil the event was
// longer than limit: data is its beginning, and rest reads on to its end.
// The data is appended to dst.
func (v *events) next(dst []byte, limit int) (data []byte, rest io.Reader, err error) {
	data = dst
	base := len(dst)
	other := false // an event of another type
	lines := 0
	for {
		p, end, err := v.piece()
		if err != nil {
			return nil, nil, err
		}
		if end && len(p) == 0 {
			v.sawEvent = v.sawEvent || lines > 0
			v.lastID = v.nextID
			if lines > 0 && len(data) > base && !other {
				return data, nil, nil
			}
			data, lines, other = data[:base], 0, false
			continue
		}
		name, value, _ := bytes.Cut(p, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(name) {
		case "data":
			if lines > 0 {
				data = append(data, '\n')
			}
			lines++
			if !other {
				data = append(data, value...)
			}
			for !end {
				// The line is longer than the window.
				if !other {
					return data, &eventRest{v: v, inLine: true}, nil
				}
				if _, end, err = v.piece(); err != nil {
					return nil, nil, err
				}
			}
			if len(data)-base > limit {
				return data, &eventRest{v: v}, nil
			}
			continue
		case "event":
			other = string(value) != "message" && len(value) > 0
		case "id":
			if bytes.IndexByte(value, 0) < 0 && end {
				v.nextID = string(value)
			}
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= 0 {
				v.retry = time.Duration(ms) * time.Millisecond
			}
		}
		if !end {
			return nil, nil, errEventTooLong
		}
	}
}

// eventRest reads the remaining data of one long event.
type eventRest struct {
	v      *events
	inLine bool   // the current line is data and not at its end
	p      []byte // read, not handed out
	done   bool
}

func (r *eventRest) Read(b []byte) (int, error) {
	for len(r.p) == 0 {
		if r.done {
			return 0, io.EOF
		}
		p, end, err := r.v.piece()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		if r.inLine {
			r.p, r.inLine = p, !end
			continue
		}
		if end && len(p) == 0 {
			r.done = true
			r.v.sawEvent, r.v.lastID = true, r.v.nextID
			return 0, io.EOF
		}
		name, value, _ := bytes.Cut(p, []byte{':'})
		if string(name) != "data" {
			if !end {
				return 0, errEventTooLong
			}
			continue
		}
		// Lines of one event are joined by LF, which is white space in JSON.
		value = bytes.TrimPrefix(value, []byte{' '})
		b[0] = '\n'
		r.p, r.inLine = value, !end
		return 1, nil
	}
	n := copy(b, r.p)
	r.p = r.p[n:]
	return n, nil
}
