package audit

import (
	"bytes"
	"fmt"
	"strings"
)

const notClosed = "ended without a close record (crash, still running, or cut)"

// verifier goes through the records of a chain and tells where it does not hold.
// After a problem it goes on from what the line at hand says, so that one change
// is one problem and not one for every line after it.
type verifier struct {
	plain, keyed *digest // keyed is nil without a key
	expect       string
	expected     string // where the expected hash was seen
	report       Report

	name  string
	at    int  // the line
	fresh bool // no record of this file was seen yet

	began   bool   // there was a record
	run     string // of the last header
	next    uint64 // the number that is due
	last    []byte // hash of the line before, as it stands there
	other   []byte // what that should have been, if it did not match
	ended   bool   // the line before is a close record
	trusted bool   // the line before had no problem
	blind   bool   // the run is keyed, and there is no key
	withKey bool   // the run is keyed
	wrong   bool   // nothing in this run matched so far: the key is wrong

	before place  // where the line stood that did not match
	stray  []byte // hash of the line before, if it was left out of the chain
	gaps   []gap
	torn   []int // lines that are no records, for the next header to tell of
	sum    []byte
}

// place is a place in the chain.
type place struct {
	next uint64
	last []byte
	ok   bool
}

// gap are numbers that were missing.
type gap struct {
	from, to uint64 // without to
	line     int    // that came instead
}

const maxGaps = 1000

func newVerifier(key []byte, expect string) *verifier {
	v := &verifier{plain: newDigest(nil), expect: strings.ToLower(expect)}
	if len(key) > 0 {
		v.keyed = newDigest(key)
	}
	return v
}

// noRecord takes note of a line that is none. What it means, the next line tells.
func (v *verifier) noRecord() { v.torn = append(v.torn, v.at) }

// settleTorn reports the lines that are no records; told says that the header
// after them tells of a torn line.
func (v *verifier) settleTorn(told bool) {
	for i, line := range v.torn {
		switch {
		case told:
			v.problem(line, "torn line: a process was killed, or the disk failed, in the middle of a write; the header in line %d tells of it", v.at)
		case i == len(v.torn)-1 && line == v.at:
			v.problem(line, "not a whole record: the process was killed in the middle of a write, or the line was changed or cut")
		default:
			v.problem(line, "not a whole record, and no header tells of a crash: the line was changed, cut or inserted")
		}
	}
	v.torn = v.torn[:0]
}

// record judges the next record.
func (v *verifier) record(r record) {
	if v.expect != "" && v.expected == "" && string(r.hash) == v.expect {
		v.expected = fmt.Sprintf("%s:%d", v.name, v.at)
	}
	v.report.Lost += r.lost
	if r.lost > 0 {
		v.note(v.at, "%d events were lost here, by the writer's own account", r.lost)
	}
	if r.header != nil {
		v.header(r)
		return
	}
	v.settleTorn(false)
	if !r.end && r.lost == 0 {
		v.report.Records++
	}
	if v.fresh {
		v.problem(v.at, "the file does not begin with a header: lines were removed before this one")
		v.fresh = false
		if !v.began {
			v.withKey, v.wrong = v.keyed != nil, true
			v.adopt(r, false)
			return
		}
	}
	if v.ended {
		v.problem(v.at, "a record follows the close record of its run")
	}
	v.follows(r)
}

// follows judges a record that is not a header by its number and its hash.
func (v *verifier) follows(r record) {
	switch {
	case v.matches(r, v.last) || v.other != nil && v.matches(r, v.other):
		// The chain holds here, whatever was wrong with the line before.
		if r.seq != v.next && v.trusted {
			v.problem(v.at, "number %d, where %d is due", r.seq, v.next)
		}
		v.wrong = false
		v.adopt(r, true)
	case v.before.ok && r.seq == v.before.next && v.matches(r, v.before.last):
		v.adopt(r, true) // the line before was inserted
	case v.stray != nil && v.matches(r, v.stray):
		v.adopt(r, true) // it goes with the line before, of which there was a report
	case r.seq > v.next:
		v.problem(v.at, "%s missing before this line: number %d, where %d is due", records(r.seq-v.next), r.seq, v.next)
		if len(v.gaps) < maxGaps {
			v.gaps = append(v.gaps, gap{v.next, r.seq, v.at})
		}
		v.adopt(r, false)
	case r.seq < v.next:
		v.problem(v.at, "%s", v.tooEarly(r.seq))
		v.stray = bytes.Clone(r.hash)
	default:
		if !v.wrong {
			v.problem(v.at, "changed or inserted: the hash does not match the line and the one before")
		}
		was := place{v.next, v.last, true}
		sum := v.hash(r, v.last)
		v.adopt(r, false)
		v.before, v.other = was, sum
	}
}

// tooEarly tells what a number means that is lower than the one that is due.
func (v *verifier) tooEarly(seq uint64) string {
	for _, g := range v.gaps {
		if g.from <= seq && seq < g.to {
			return fmt.Sprintf("out of order: number %d belongs before line %d", seq, g.line)
		}
	}
	return fmt.Sprintf("repeated or out of order: number %d, where %d is due", seq, v.next)
}

// header judges a header: by itself, and by what it follows.
func (v *verifier) header(r record) {
	h := r.header
	if h.Torn && len(v.torn) == 0 {
		v.problem(v.at, "the header tells of a torn line, and there is none before it")
	}
	v.settleTorn(h.Torn)
	continues := v.began && h.Run == v.run
	if !continues {
		v.report.Chains++
		v.gaps = v.gaps[:0]
	}
	v.withKey, v.blind, v.wrong = h.Keyed, h.Keyed && v.keyed == nil, false
	ok := true
	switch {
	case v.blind:
		v.problem(v.at, "the run is keyed: without the key only the numbers can be checked")
	case !h.Keyed && v.keyed != nil:
		v.problem(v.at, "the run is not keyed, though a key is given: anybody could have made it")
	}
	if !v.matches(r, []byte(h.Previous)) {
		ok = false
		if v.wrong = h.Keyed; v.wrong {
			v.problem(v.at, "the hash of the header does not match: it was changed, or the key is another")
		} else {
			v.problem(v.at, "the hash of the header does not match: it was changed")
		}
	}
	v.link(r, continues)
	v.run, v.fresh = h.Run, false
	v.adopt(r, ok)
	if !ok {
		v.other = v.hash(r, []byte(h.Previous))
	}
}

// link judges what a header follows.
func (v *verifier) link(r record, continues bool) {
	h := r.header
	switch {
	case !v.began && h.Previous != "":
		v.note(v.at, "it follows a file or run that was not given, with the last hash %s", h.Previous)
	case !v.began && r.seq != 0:
		v.problem(v.at, "the run begins with number %d", r.seq)
	case v.began && h.Previous != string(v.last) && (v.other == nil || h.Previous != string(v.other)):
		v.problem(v.at, "the header does not follow the line before: lines or a file were removed, or it does not belong here")
	case continues && r.seq != v.next:
		v.problem(v.at, "%s: number %d, where %d is due", "the header does not continue its run", r.seq, v.next)
	case continues && v.ended:
		v.problem(v.at, "the header continues a run that was closed")
	case v.began && !continues && r.seq != 0:
		v.problem(v.at, "the run begins with number %d: its first header is missing", r.seq)
	case v.began && !continues && !v.ended:
		v.note(v.at, "the run before this header %s", notClosed)
	}
}

// adopt makes a record the one that the next has to follow.
func (v *verifier) adopt(r record, trusted bool) {
	v.began, v.trusted, v.ended = true, trusted, r.end
	v.next, v.last = r.seq+1, append([]byte(nil), r.hash...)
	v.other, v.before, v.stray = nil, place{}, nil
}

// matches tells whether the hash of a record is right behind a line with the
// hash previous. Without the key of a keyed run nothing can be said against it
// but by its number.
func (v *verifier) matches(r record, previous []byte) bool {
	if v.blind {
		return r.header != nil || r.seq == v.next
	}
	return bytes.Equal(v.hash(r, previous), r.hash)
}

func (v *verifier) hash(r record, previous []byte) []byte {
	d := v.plain
	if v.withKey && v.keyed != nil {
		d = v.keyed
	}
	v.sum = append(v.sum[:0], r.body...)
	return d.line(nil, previous, append(v.sum, '}'))
}

func records(n uint64) string {
	if n == 1 {
		return "1 record is"
	}
	return fmt.Sprintf("%d records are", n)
}
