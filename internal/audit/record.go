package audit

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json"
)

// record is a line taken apart. It shares the memory of the line.
type record struct {
	seq    uint64
	body   []byte // the line to the hash member, without the closing brace
	hash   []byte // as it stands there
	header *header
	end    bool
	lost   uint64
}

// header is what the verification reads of a header.
type header struct {
	Penstock string `json:"penstock"`
	Instance string `json:"instance"`
	Run      string `json:"run"`
	Previous string `json:"previous"`
	Keyed    bool   `json:"keyed"`
	Torn     bool   `json:"torn"`
}

// parse takes a line apart, which has no line end any more. It is false for
// whatever the writer would not have written so, as far as that can be seen
// without the hash.
func parse(line []byte) (r record, ok bool) {
	const start = `{"seq":`
	if len(line) < len(start)+tailLength || !bytes.HasPrefix(line, []byte(start)) {
		return r, false
	}
	var tail []byte
	r.body, tail = line[:len(line)-tailLength], line[len(line)-tailLength:]
	r.hash = tail[len(hashMember) : len(hashMember)+hashDigits]
	if !bytes.HasPrefix(tail, []byte(hashMember)) || !bytes.HasSuffix(tail, []byte(hashEnd)) || !isHash(r.hash) {
		return r, false
	}
	digits, rest, ok := bytes.Cut(r.body[len(start):], []byte(","))
	if !ok {
		return r, false
	}
	seq, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || strconv.FormatUint(seq, 10) != string(digits) {
		return r, false
	}
	r.seq = seq
	switch {
	case bytes.HasPrefix(rest, []byte(`"penstock":`)):
		r.header = new(header)
		return r, json.Unmarshal(line, r.header) == nil && r.header.Penstock == format &&
			(r.header.Previous == "" || isHash([]byte(r.header.Previous)))
	case bytes.HasPrefix(rest, []byte(`"end":true,`)):
		r.end = true
	case bytes.HasPrefix(rest, []byte(`"lost":`)):
		digits, _, _ := bytes.Cut(rest[len(`"lost":`):], []byte(","))
		r.lost, err = strconv.ParseUint(string(digits), 10, 64)
		return r, err == nil
	}
	return r, true
}

func isHash(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(b) == hashDigits
}
