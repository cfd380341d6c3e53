package audit

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestAFullDiskLosesOnlyWhatTheQueueCannotHold(t *testing.T) {
	for _, cut := range []error{nil, errIO} { // errIO: and the part that was written cannot be cut off
		synctest.Test(t, func(t *testing.T) {
			file := here(t)
			d := newShaky()
			d.room, d.cutting = 3000, cut
			var logged bytes.Buffer
			l := New(Options{File: file, Refuse: true, QueueBytes: 20 << 10, Log: slog.New(slog.NewTextHandler(&logged, nil))})
			l.disk = d
			stop := running(t, l)
			var refused int
			for i := range 100 {
				if err := l.Check(); err != nil {
					if refused++; fault.From(err).Code != fault.AuditUnavailable || fault.From(err).RetryAfter != time.Second {
						t.Fatal(err)
					}
				}
				l.Record(event(i))
				time.Sleep(20 * time.Millisecond)
			}
			s := l.Stats()
			if !s.Failing || s.Lost == 0 || s.Failures == 0 || s.Written == 0 || refused == 0 || s.Queued > 20<<10 {
				t.Fatalf("full: %+v, %d refused", s, refused)
			}
			lost := s.Lost
			d.set(func(d *shaky) { d.room, d.cutting = -1, nil })
			time.Sleep(6 * time.Second)
			if s = l.Stats(); s.Failing || s.Lost != lost || s.Queued != 0 || l.Check() != nil {
				t.Errorf("with room again: %+v", s)
			}
			l.Record(event(100))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			r := verify(t, text(t, file), "", "")
			if cut == nil {
				wantOK(t, r)
			}
			for _, p := range r.Problems {
				if !strings.HasPrefix(p.Message, "torn line") || !strings.Contains(p.Message, "tells of it") {
					t.Errorf("problem: %v", p)
				}
			}
			if uint64(r.Records)+r.Lost != 101 || r.Lost != lost {
				t.Errorf("%d events and %d lost in the file, %d lost", r.Records, r.Lost, lost)
			}
			if n := strings.Count(logged.String(), "\n"); n == 0 || n > 4 || strings.Contains(logged.String(), "alice") {
				t.Errorf("%d lines logged:\n%s", n, &logged)
			}
		})
	}
}

// Whatever the disk does, the file verifies but for torn lines that are told of,
// and every event is in it or counted.
func TestNoPlaceToFailBreaksTheChain(t *testing.T) {
	for room := int64(0); room < 1500; room += 13 {
		for _, cutting := range []error{nil, errIO} {
			synctest.Test(t, func(t *testing.T) {
				file := here(t)
				d := newShaky()
				d.room, d.cutting, d.writing = room, cutting, errIO
				l := New(Options{File: file, MaxSize: 4000})
				l.disk = d
				stop := running(t, l)
				for i := range 5 {
					l.Record(event(i))
				}
				time.Sleep(time.Second)
				d.set(func(d *shaky) { d.room = -1 })
				time.Sleep(time.Second * 10)
				l.Record(event(5))
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				r, err := VerifyFiles(rotated(t, file), nil, "")
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range r.Problems {
					if cutting == nil || !strings.Contains(p.Message, "tells of it") {
						t.Fatalf("room %d: %v", room, p)
					}
				}
				if r.Records != 6 {
					t.Fatalf("room %d: %d events", room, r.Records)
				}
			})
		}
	}
}

func TestAPartOfALineOnAPipeIsToldOf(t *testing.T) {
	for _, room := range []int{600, 1000, 1001, 1002} {
		synctest.Test(t, func(t *testing.T) {
			p := &pipe{room: room}
			l := New(Options{Stdout: p})
			stop := running(t, l)
			for i := range 5 {
				l.Record(event(i))
			}
			time.Sleep(time.Second)
			p.mu.Lock()
			p.room = -1
			p.mu.Unlock()
			time.Sleep(10 * time.Second)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			r := verify(t, p.String(), "", "")
			for _, p := range r.Problems {
				if !strings.Contains(p.Message, "tells of it") {
					t.Errorf("problem: %v", p)
				}
			}
			if r.Records != 5 || len(r.Problems) > 1 {
				t.Errorf("report: %+v\n%s", r, p)
			}
		})
	}
}

func TestARemovedFileIsBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := here(t)
		l := New(Options{File: file})
		stop := running(t, l)
		l.Record(event(1))
		time.Sleep(time.Second)
		kept := file + ".kept"
		if err := os.Rename(file, kept); err != nil {
			t.Fatal(err)
		}
		l.Record(event(2))
		time.Sleep(time.Second)
		if l.Stats().Failures == 0 {
			t.Error("not counted")
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		r, err := VerifyFiles([]string{kept, file}, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		wantOK(t, r)
		if r.Records != 2 || r.Chains != 1 {
			t.Errorf("report: %+v", r)
		}
	})
}

// Some rotate by copying the file and cutting it.
func TestAFileThatIsCutByOthersSaysWhatItFollows(t *testing.T) {
	for _, keep := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			file := here(t)
			l := New(Options{File: file})
			stop := running(t, l)
			for i := range 5 {
				l.Record(event(i))
			}
			time.Sleep(2 * time.Second)
			before := text(t, file)
			if err := os.Truncate(file, int64(len(strings.Join(split(before)[:keep], "")))); err != nil {
				t.Fatal(err)
			}
			l.Record(event(5))
			time.Sleep(2 * time.Second)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if after := verify(t, text(t, file), "", ""); keep > 0 {
				wantProblem(t, after, keep+1, "does not follow the line before")
			} else {
				wantOK(t, after)
				wantOK(t, verify(t, before+text(t, file), "", ""))
			}
		})
	}
}

// A write can fail and have been done all the same.
func TestLinesOfAFailedWriteThatAreThereAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := here(t)
		d := newShaky()
		l := New(Options{File: file})
		l.disk = d
		stop := running(t, l)
		time.Sleep(time.Second)
		d.set(func(d *shaky) { d.lying, d.cutting = true, errIO })
		l.Record(event(1))
		time.Sleep(time.Second)
		d.set(func(d *shaky) { d.lying, d.cutting = false, nil })
		time.Sleep(time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		wantOK(t, verify(t, text(t, file), "", ""))
	})
}

func TestAFolderThatComesBackIsWrittenToAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "d")
		file := filepath.Join(folder, "audit.jsonl")
		l := New(Options{File: file, Refuse: true})
		if err := l.Probe(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("probe: %v", err)
		}
		stop := running(t, l)
		l.Record(event(1))
		time.Sleep(time.Second)
		if l.Check() == nil || !l.Stats().Failing {
			t.Error("nothing is refused without the folder")
		}
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := l.Check(); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		r := verify(t, text(t, file), "", "")
		wantOK(t, r)
		if r.Records != 1 {
			t.Errorf("report: %+v", r)
		}
	})
}

func TestAFailingSyncRefusesUntilOneSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShaky()
		d.syncing = errIO
		l := New(Options{File: here(t), Refuse: true})
		l.disk = d
		stop := running(t, l)
		l.Record(event(1))
		time.Sleep(3 * time.Second)
		if l.Check() == nil {
			t.Error("nothing is refused")
		}
		d.set(func(d *shaky) { d.syncing = nil })
		time.Sleep(6 * time.Second)
		if err := l.Check(); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
