package audit

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// tail is how a file ends.
type tail struct {
	size int64
	hash string // of the last whole line, as it stands there
	open bool   // the last line has no end
	torn bool   // after the last whole line there is a part of one
}

const (
	tailWindow  = 64 << 10
	tailAtMost  = 256 << 20 // of a torn end; a disk leaves that much at the very most
	tailGrowing = 16
)

// readTail finds the last whole line of a file. A file that has lines and no
// line of an audit record among them is not written to.
func readTail(f file, name string) (t tail, err error) {
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	t.size = info.Size()
	for window := int64(tailWindow); t.size > 0; window *= tailGrowing {
		from := max(0, t.size-window)
		b := make([]byte, t.size-from)
		if _, err := io.ReadFull(io.NewSectionReader(f, from, t.size-from), b); err != nil {
			return t, err
		}
		if t.find(b, from == 0) || from == 0 && begun(b) {
			return t, nil
		}
		if from == 0 || window >= tailAtMost {
			return t, fmt.Errorf("%s is not an audit file: it has no line of an audit record", name)
		}
	}
	return t, nil
}

// find looks for the last whole line in the end b of a file; whole tells that b
// is all of it.
func (t *tail) find(b []byte, whole bool) bool {
	t.open, t.torn = b[len(b)-1] != '\n', false
	b = bytes.TrimSuffix(b, []byte("\n"))
	for {
		start := bytes.LastIndexByte(b, '\n') + 1
		if start == 0 && !whole {
			return false
		}
		if r, ok := parse(b[start:]); ok {
			t.hash = string(r.hash)
			return true
		}
		t.torn = true
		if start == 0 {
			return false
		}
		b = b[:start-1]
	}
}

// begun tells whether b can be the start of a first line that was torn.
func begun(b []byte) bool {
	const start = `{"seq":0,`
	n := min(len(b), len(start))
	return string(b[:n]) == start[:n] || len(bytes.Trim(b, "\x00")) == 0
}

// newestRotated returns the path of the file that was rotated away last, or "".
func newestRotated(d disk, name string) (string, error) {
	names, err := d.siblings(name)
	if err != nil {
		return "", err
	}
	var newest, newestStamp string
	newestN := 0
	for _, s := range names {
		stamp, n, ok := parseRotated(filepath.Base(name), s)
		if ok && (stamp > newestStamp || stamp == newestStamp && n > newestN) {
			newest, newestStamp, newestN = s, stamp, n
		}
	}
	if newest == "" {
		return "", nil
	}
	return filepath.Join(filepath.Dir(name), newest), nil
}

const rotatedLayout = "20060102T150405Z"

// parseRotated takes apart NAME.<UTC timestamp>-<n>.
func parseRotated(base, name string) (stamp string, n int, ok bool) {
	rest, ok := strings.CutPrefix(name, base+".")
	if !ok {
		return "", 0, false
	}
	stamp, number, ok := strings.Cut(rest, "-")
	n, err := strconv.Atoi(number)
	return stamp, n, ok && err == nil && n > 0 && len(stamp) == len(rotatedLayout) && stamp[8] == 'T' && strings.HasSuffix(stamp, "Z")
}
