package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestADeviceThatIsAlwaysFullIsAFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	defer full.Close()
	for _, o := range []Options{{File: "/dev/full", Refuse: true}, {Stdout: full, Refuse: true}} {
		synctest.Test(t, func(t *testing.T) {
			l := New(o)
			stop := running(t, l)
			l.Record(event(1))
			time.Sleep(time.Second)
			if l.Check() == nil {
				t.Error("nothing is refused")
			}
			if err := stop(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Run: %v", err)
			}
			if s := l.Stats(); s.Lost != 1 || s.Written != 0 {
				t.Errorf("stats: %+v", s)
			}
		})
	}
}

// A real file system fills in the middle of load, and gets room again.
func TestARealDiskThatIsFullLosesWhatIsCountedAndGoesOn(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	ballast := filepath.Join(folder, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 128<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "audit.jsonl")
	l := New(Options{File: file, QueueBytes: 32 << 10, Refuse: true, Flush: time.Millisecond, Key: []byte("k")})
	stop := running(t, l)
	const callers = 4
	var recorded, refused [callers]int
	var load sync.WaitGroup
	end := make(chan struct{})
	for c := range callers {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
				}
				if l.Check() != nil {
					refused[c]++
				}
				l.Record(event(i))
				recorded[c]++
			}
		})
	}
	until(t, "losses", func() bool { s := l.Stats(); return s.Lost > 0 && s.Failing })
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	until(t, "room", func() bool { return !l.Stats().Failing })
	close(end)
	load.Wait()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s := l.Stats()
	r := verify(t, text(t, file), "k", "")
	wantOK(t, r)
	total, refusals := 0, 0
	for c := range callers {
		total += recorded[c]
		refusals += refused[c]
	}
	if s.Written+s.Lost != uint64(total) || uint64(r.Records) != s.Written || r.Lost != s.Lost || refusals == 0 {
		t.Errorf("%d recorded, %d refused, %+v, in the file %d and %d lost", total, refusals, s, r.Records, r.Lost)
	}
	if strings.Contains(text(t, file), "\x00") {
		t.Error("the file has holes")
	}
}
