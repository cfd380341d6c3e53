package audit

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

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
	l := split(text(t, file))
	wantProblem(t, verify(t, strings.Join(append(l[:5:5], l[7:]...), ""), "", ""), 6, "there is none before it")
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
