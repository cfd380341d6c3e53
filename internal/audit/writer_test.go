package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestNoAuditRecordsNothingAndRefusesNothing(t *testing.T) {
	var l *Log
	l.Record(event(1))
	if err := l.Check(); err != nil {
		t.Error(err)
	}
	if l.Stats() != (Stats{}) || l.Probe() != nil {
		t.Error("a nil Log has done something")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestARestartFollowsTheLastLine(t *testing.T) {
	file := here(t)
	one := chronicle(t, Options{File: file, Instance: "a"}, 0, 3)
	s := chronicle(t, Options{File: file, Instance: "b"}, 3, 2)
	wantOK(t, verify(t, s, "", ""))
	l := split(s)
	header, ok := parse([]byte(strings.TrimSuffix(l[5], "\n")))
	if !ok || header.header == nil || header.seq != 0 || header.header.Instance != "b" {
		t.Fatalf("no header of a new run: %s", l[5])
	}
	if before := split(one); header.header.Previous != hashOf(before[len(before)-1]) {
		t.Errorf("it follows %s", header.header.Previous)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A process can be killed at any byte of a write.
func TestAfterACrashAtAnyByteTheNextRunGoesOn(t *testing.T) {
	file := here(t)
	for _, n := range []int{0, 3} { // 0: the header itself is torn
		whole := chronicle(t, Options{File: file}, 0, n)
		l := split(whole)
		from := len(whole) - len(l[len(l)-1]) - len(l[len(l)-2])
		for cut := from; cut <= len(whole); cut++ {
			if err := os.WriteFile(file, []byte(whole[:cut]), 0o600); err != nil {
				t.Fatal(err)
			}
			s := chronicle(t, Options{File: file}, 10, 2)
			r := verify(t, s, "", "")
			kept := strings.Count(whole[:cut], "\n")
			torn := cut > 0 && whole[cut-1] != '\n' && (cut == len(whole) || whole[cut] != '\n')
			switch {
			case !torn:
				wantOK(t, r)
			case len(r.Problems) != 1:
				t.Fatalf("cut at %d: %v", cut, r.Problems)
			default:
				wantProblem(t, r, kept+1, "the header in line "+fmt.Sprint(kept+2))
			}
			if !strings.HasPrefix(s, whole[:cut]) {
				t.Fatalf("cut at %d: what was there is not kept", cut)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

func TestATornLineIsFoundThroughAnotherOne(t *testing.T) {
	file := here(t)
	s := chronicle(t, Options{File: file}, 0, 3)
	if err := os.WriteFile(file, []byte(s+`{"seq":0,"pen`+"\n"+`{"seq":0,"penst`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := verify(t, chronicle(t, Options{File: file}, 3, 1), "", "")
	wantProblem(t, r, 6, "the header in line 8")
	wantProblem(t, r, 7, "the header in line 8")
	if len(r.Problems) != 2 {
		t.Errorf("problems: %v", r.Problems)
	}
}

func TestAFileOfSomethingElseIsNotWrittenTo(t *testing.T) {
	file := here(t)
	if err := os.WriteFile(file, []byte("upstreams: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{File: file})
		if err := l.Probe(); err == nil || !strings.Contains(err.Error(), "not an audit file") {
			t.Errorf("probe: %v", err)
		}
		stop := running(t, l)
		time.Sleep(time.Second)
		if !l.Stats().Failing {
			t.Error("not failing")
		}
		if err := stop(); err == nil {
			t.Error("Run tells nothing")
		}
	})
	if s := text(t, file); s != "upstreams: {}\n" {
		t.Errorf("the file: %q", s)
	}
}

func TestRotationLosesNothingUnderLoad(t *testing.T) {
	file := here(t)
	l := New(Options{File: file, MaxSize: 20_000, Flush: time.Millisecond, Key: []byte("k"), QueueBytes: 64 << 20})
	stop := running(t, l)
	const callers, each = 8, 250
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				l.Record(event(c*each + i))
			}
		})
	}
	wg.Wait()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	names := rotated(t, file)
	r, err := VerifyFiles(names, []byte("k"), "")
	if err != nil {
		t.Fatal(err)
	}
	wantOK(t, r)
	s := l.Stats()
	if r.Records != callers*each || s.Written != callers*each || s.Lost != 0 || s.Queued != 0 || r.Chains != 1 || int(s.Rotations) != len(names)-1 || len(names) < 10 {
		t.Errorf("%+v %+v in %d files", r, s, len(names))
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Size() > 20_000 {
			t.Errorf("%s: %d bytes, %v", name, info.Size(), err)
		}
	}
	missing := append(names[:3:3], names[4:]...)
	if r, err = VerifyFiles(missing, []byte("k"), ""); err != nil || r.OK() {
		t.Errorf("a missing file is not found: %v", err)
	}
}

// rotated returns the files of an audit record, the oldest first.
func rotated(t testing.TB, file string) []string {
	t.Helper()
	names, err := filepath.Glob(file + ".*") // sorted
	if err != nil {
		t.Fatal(err)
	}
	return append(names, file)
}

func TestTheOrderOfOneCallerIsKept(t *testing.T) {
	s := chronicle(t, Options{File: here(t)}, 0, 500)
	for i, line := range split(s)[1:501] {
		if !strings.Contains(line, fmt.Sprintf(`"request":"%d"`, i)) {
			t.Fatalf("line %d: %s", i, line)
		}
	}
}

func TestARotationNeverReplacesAFile(t *testing.T) {
	file := here(t)
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	old := file + ".20261130T120000Z-001"
	if err := os.WriteFile(old, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	chronicle(t, Options{File: file, MaxSize: 1000, Now: func() time.Time { return at }}, 0, 5)
	if text(t, old) != "mine" {
		t.Error("a file was replaced")
	}
	if _, err := os.Stat(file + ".20261130T120000Z-002"); err != nil {
		t.Error(err)
	}
}

func TestACrashBetweenTheHalvesOfARotationBreaksNoChain(t *testing.T) {
	file := here(t)
	chronicle(t, Options{File: file}, 0, 3)
	for _, name := range []string{".20261130T120000Z-009", ".20261130T120000Z-010"} {
		chronicle(t, Options{File: file}, 0, 3)
		if err := os.Rename(file, file+name); err != nil {
			t.Fatal(err)
		}
	}
	chronicle(t, Options{File: file}, 3, 3)
	r, err := VerifyFiles(rotated(t, file), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	wantOK(t, r)
}

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

func TestAFileThatCannotBeRotatedGrowsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := here(t)
		d := newShaky()
		d.renaming = syscall.EACCES
		l := New(Options{File: file, MaxSize: 1000})
		l.disk = d
		stop := running(t, l)
		for i := range 20 {
			l.Record(event(i))
		}
		time.Sleep(time.Second)
		if s := l.Stats(); s.Written != 20 || s.Failures == 0 || s.Failing {
			t.Errorf("stats: %+v", s)
		}
		d.set(func(d *shaky) { d.renaming = nil })
		time.Sleep(time.Minute)
		l.Record(event(20))
		time.Sleep(time.Second)
		if s := l.Stats(); s.Rotations != 1 {
			t.Errorf("stats: %+v", s)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		r, err := VerifyFiles(rotated(t, file), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		wantOK(t, r)
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

func TestWritesAreBatchedAndSyncsComeOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShaky()
		l := New(Options{File: here(t), Flush: 100 * time.Millisecond})
		l.disk = d
		stop := running(t, l)
		for i := range 1000 { // ten seconds
			l.Record(event(i))
			time.Sleep(10 * time.Millisecond)
		}
		d.set(func(d *shaky) {
			if d.writes < 90 || d.writes > 110 || d.syncs < 9 || d.syncs > 13 {
				t.Errorf("%d writes, %d syncs", d.writes, d.syncs)
			}
		})
		time.Sleep(2 * time.Second)
		var writes, syncs int
		d.set(func(d *shaky) { writes, syncs = d.writes, d.syncs })
		time.Sleep(time.Hour)
		d.set(func(d *shaky) {
			if d.writes != writes || d.syncs != syncs {
				t.Errorf("an idle Log touches the disk")
			}
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAWholeBatchDoesNotWaitForTheFlush(t *testing.T) {
	l := New(Options{File: here(t), Flush: time.Hour})
	stop := running(t, l)
	for i := range 200 {
		l.Record(event(i))
	}
	until(t, "a write", func() bool { return l.Stats().Written > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFailsBeforeTheQueueIsFull(t *testing.T) {
	for _, refuse := range []bool{true, false} {
		l := New(Options{File: here(t), Refuse: refuse, QueueBytes: 16 << 10})
		n := 0
		for ; l.Check() == nil && n < 100; n++ {
			l.Record(event(n))
		}
		s := l.Stats()
		if refuse && (s.Lost != 0 || n == 100) || !refuse && s.Lost == 0 {
			t.Errorf("refuse %v: %d recorded, %+v", refuse, n, s)
		}
		stop := running(t, l)
		until(t, "a write", func() bool { return l.Stats().Queued == 0 })
		if err := l.Check(); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestASecondLogWaitsUntilTheFirstLetsGoOfTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := here(t)
		first, second := New(Options{File: file}), New(Options{File: file, Refuse: true})
		stopFirst := running(t, first)
		first.Record(event(1))
		time.Sleep(time.Second)
		if err := second.Probe(); err != nil {
			t.Error(err)
		}
		stopSecond := running(t, second)
		second.Record(event(2))
		time.Sleep(time.Second)
		if err := second.Check(); err != nil {
			t.Errorf("while it is replaced: %v", err)
		}
		first.Record(event(3))
		if err := stopFirst(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if s := second.Stats(); s.Written != 1 || s.Failures != 0 {
			t.Errorf("stats: %+v", s)
		}
		if err := stopSecond(); err != nil {
			t.Fatal(err)
		}
		r := verify(t, text(t, file), "", "")
		wantOK(t, r)
		if r.Records != 3 || r.Chains != 2 {
			t.Errorf("report: %+v", r)
		}
	})
}

func TestAFileThatSomebodyElseKeepsIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := here(t)
		first, second := New(Options{File: file}), New(Options{File: file, Refuse: true})
		stopFirst := running(t, first)
		time.Sleep(time.Second)
		stopSecond := running(t, second)
		time.Sleep(10 * time.Second)
		if second.Check() == nil {
			t.Error("nothing is refused")
		}
		if err := stopSecond(); !errors.Is(err, errLocked) {
			t.Errorf("Run: %v", err)
		}
		if err := stopFirst(); err != nil {
			t.Error(err)
		}
	})
}

func TestLogsOfTwoFilesDoNotMeet(t *testing.T) {
	a, b := here(t), here(t)
	first, second := New(Options{File: a}), New(Options{File: b})
	stopFirst, stopSecond := running(t, first), running(t, second)
	for i := range 50 {
		first.Record(event(i))
		second.Record(event(i))
	}
	if err := errors.Join(stopFirst(), stopSecond()); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{a, b} {
		r := verify(t, text(t, file), "", "")
		wantOK(t, r)
		if r.Records != 50 {
			t.Errorf("report: %+v", r)
		}
	}
}

func TestTheEndIsBoundedAndTellsWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShaky()
		d.room = 0
		l := New(Options{File: here(t)})
		l.disk = d
		stop := running(t, l)
		for i := range 7 {
			l.Record(event(i))
		}
		time.Sleep(time.Second)
		began := time.Now()
		err := stop()
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "7 events") {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took > finishWithin {
			t.Errorf("it took %v", took)
		}
		l.Record(event(8))
		if s := l.Stats(); s.Lost != 8 || s.Queued != 0 || s.Written != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestAWriteThatDoesNotReturnDoesNotHoldTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShaky()
		d.blocked = make(chan struct{})
		l := New(Options{File: here(t), Refuse: true, QueueBytes: 16 << 10})
		l.disk = d
		stop := running(t, l)
		time.Sleep(time.Second)
		for i := range 40 {
			l.Record(event(i)) // does not wait
		}
		if l.Check() == nil {
			t.Error("nothing is refused with a full queue")
		}
		began := time.Now()
		if err := stop(); err == nil || time.Since(began) > finishWithin+2*time.Second {
			t.Errorf("Run: %v after %v", err, time.Since(began))
		}
		close(d.blocked)
		time.Sleep(2 * finishWithin)
	})
}

func TestRunIsRefusedASecondTime(t *testing.T) {
	l := New(Options{Stdout: &pipe{room: -1}})
	stop := running(t, l)
	until(t, "the first", l.started.Load)
	if err := l.Run(t.Context()); err == nil {
		t.Error("it ran twice")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
