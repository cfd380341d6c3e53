package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
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
