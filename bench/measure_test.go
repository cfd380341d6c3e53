package main

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// needProc skips what only Linux can measure.
func needProc(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs the /proc of Linux")
	}
}

func TestCPUTimeIsReadBehindTheNameOfTheProgram(t *testing.T) {
	stat := `17 (a) S ( b) R 1 17 17 0 -1 4194560 100 0 0 0 250 50 3 4 20 0 9 0 100 1000 10 18446744073709551615`
	got, err := parseStat([]byte(stat))
	if err != nil || got != 3*time.Second {
		t.Errorf("%v, %v; want 3s", got, err)
	}
	for _, broken := range []string{"", "17 (a) R 1 2", strings.Replace(stat, "250", "x", 1)} {
		if got, err := parseStat([]byte(broken)); err == nil {
			t.Errorf("%q: %v and no error", broken, got)
		}
	}
}

func TestAMeterSeesTheWorkOfAProcess(t *testing.T) {
	needProc(t)
	self := os.Getpid()
	m, err := newMeter(self, self)
	if err != nil {
		t.Fatal(err)
	}
	spin := 0
	for time.Since(m.begin) < 150*time.Millisecond || spin == 0 {
		for range 1000 {
			spin++
		}
	}
	used, passed, _, err := m.stop()
	if err != nil {
		t.Fatal(err)
	}
	// Generous: on a busy machine this process gets only part of a core.
	if used < 2*tick || passed < 150*time.Millisecond {
		t.Errorf("used %v in %v", used, passed)
	}
}

func TestThePeakIsNoLessThanWhatIsResident(t *testing.T) {
	needProc(t)
	now, err := memoryOf(os.Getpid(), "VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	most, err := memoryOf(os.Getpid(), "VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	if now < 1<<20 || most < now/2 {
		t.Errorf("resident %d, peak %d", now, most)
	}
	if _, err := memoryOf(os.Getpid(), "VmNothing"); err == nil {
		t.Error("a figure that does not exist is read")
	}
}
