package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	maxProblems = 100     // listed in a Report; the rest is counted
	maxLine     = 2 << 20 // longer lines are no records
)

// Report is what a verification found.
type Report struct {
	Files    int
	Chains   int    // runs, as far as their headers are there
	Records  int    // events
	Lost     uint64 // events that the writer could not keep, by its own account
	LastHash string // of the last line that belongs to the chain

	Problems []Problem // at most 100, in the order of the lines
	More     int       // problems that are not listed
	Notes    []Problem // what is legal and worth knowing
}

// OK tells that there is no problem.
func (r Report) OK() bool { return len(r.Problems) == 0 }

// Problem is one finding. Line counts from 1; 0 is the file as a whole.
type Problem struct {
	File    string
	Line    int
	Message string
}

// String is the finding as FILE:LINE: what.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Verify checks the chain in one file. With a key, every run in it must be
// keyed. With expect, that must be the hash of the last line: without it, lines
// that were cut off at the end cannot be missed. The error is one of reading;
// what is wrong with the chain is in the report.
func Verify(r io.Reader, name string, key []byte, expect string) (Report, error) {
	v := newVerifier(key, expect)
	if err := v.file(r, name); err != nil {
		return v.report, err
	}
	return v.finish(), nil
}

// VerifyFiles checks files that were rotated, the oldest first, and that each
// follows the one before.
func VerifyFiles(names []string, key []byte, expect string) (Report, error) {
	v := newVerifier(key, expect)
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return v.report, err
		}
		err = v.file(f, name)
		f.Close()
		if err != nil {
			return v.report, fmt.Errorf("%s: %w", name, err)
		}
	}
	return v.finish(), nil
}

// file goes through the lines of a file.
func (v *verifier) file(r io.Reader, name string) error {
	v.report.Files++
	v.name, v.at, v.fresh = name, 0, true
	lines := bufio.NewReaderSize(r, 64<<10)
	var room []byte
	for {
		line, long, ended, err := readLine(lines, &room)
		if err != nil {
			return err
		}
		if len(line) == 0 && !ended && !long {
			break
		}
		v.at++
		switch rec, ok := parse(line); {
		case !ended && ok:
			v.problem(v.at, "torn line: it has no line end; the process was killed there, or something was cut off")
			v.record(rec)
		case long || !ok:
			v.noRecord()
		default:
			v.record(rec)
		}
		if !ended {
			break
		}
	}
	if v.at == 0 {
		v.problem(0, "the file is empty, and not even a header is there")
	}
	v.settleTorn(false)
	return nil
}

// readLine reads to the next line end or the end of the file. Of a line that is
// too long it returns nothing, but that.
func readLine(r *bufio.Reader, room *[]byte) (line []byte, long, ended bool, err error) {
	*room = (*room)[:0]
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			*room = append(*room, part...)
		}
		if len(*room) > maxLine {
			long, *room = true, (*room)[:0]
		}
		switch {
		case err == nil:
			return (*room)[:max(0, len(*room)-1)], long, true, nil
		case errors.Is(err, io.EOF):
			return *room, long, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, long, false, err
		}
	}
}

func (v *verifier) problem(line int, format string, args ...any) {
	if len(v.report.Problems) >= maxProblems {
		v.report.More++
		return
	}
	v.report.Problems = append(v.report.Problems, Problem{v.name, line, fmt.Sprintf(format, args...)})
}

func (v *verifier) note(line int, format string, args ...any) {
	if len(v.report.Notes) < maxProblems {
		v.report.Notes = append(v.report.Notes, Problem{v.name, line, fmt.Sprintf(format, args...)})
	}
}

// finish judges the end.
func (v *verifier) finish() Report {
	if v.began {
		v.report.LastHash = string(v.last)
	}
	if v.began && !v.ended {
		v.note(v.at, "the run %s", notClosed)
	}
	switch {
	case v.expect == "" || v.expect == v.report.LastHash:
	case v.expected != "":
		v.problem(v.at, "the last hash is not the expected one, which is that of %s: lines were written since", v.expected)
	default:
		v.problem(v.at, "the expected hash is that of no line: lines were removed at the end, or all of it was made anew")
	}
	return v.report
}
