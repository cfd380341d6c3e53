package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Unix(1_800_000_000, 0)

func principal(n byte) *[32]byte { return &[32]byte{n} }

func TestBurstIsATenthOfAMinutesWorthAndOneAtLeast(t *testing.T) {
	for r, want := range map[Rate]int{
		{600, time.Minute}: 60,
		{10, time.Second}:  60,
		{5, time.Minute}:   1,
		{1, time.Hour}:     1,
		{3600, time.Hour}:  6,
	} {
		b := NewBucket(r, 0)
		got := 0
		for {
			if _, ok := b.Take(start); !ok {
				break
			}
			got++
		}
		if got != want {
			t.Errorf("%d at once at %v, want %d", got, r, want)
		}
	}
}

func TestARefusalTellsWhenTheNextIsThere(t *testing.T) {
	b := NewBucket(Rate{60, time.Minute}, 2)
	for range 2 {
		if _, ok := b.Take(start); !ok {
			t.Fatal("the burst is refused")
		}
	}
	wait, ok := b.Take(start)
	if ok || wait < 990*time.Millisecond || wait > 1010*time.Millisecond {
		t.Fatalf("%v, %v", wait, ok)
	}
	if again, ok := b.Take(start); ok || again != wait {
		t.Errorf("a refusal took something: %v after %v", again, wait)
	}
	if _, ok := b.Take(start.Add(wait)); !ok {
		t.Error("refused after the time that was told")
	}
}

func TestNothingConfiguredLimitsNothing(t *testing.T) {
	if New(Options{}) != nil || NewBucket(Rate{}, 5) != nil {
		t.Fatal("something limits nothing")
	}
	var l *Limiter
	if wait, scope := l.Admit(principal(1), start); wait != 0 || scope != "" {
		t.Error("a limiter that is none refuses")
	}
}

func TestWhoIsOverItsOwnLimitUsesUpNothingOfTheOthers(t *testing.T) {
	l := New(Options{Global: Rate{100, time.Second}, PerPrincipal: Rate{10, time.Second}, Burst: 10})
	for i := range 1000 {
		wait, scope := l.Admit(principal(1), start)
		if (i < 10) != (wait == 0) || i >= 10 && scope != ScopePrincipal {
			t.Fatalf("request %d: %v %q", i, wait, scope)
		}
	}
	// The burst of all is 10, and the flood took exactly its own 10 of it.
	if _, scope := l.Admit(principal(2), start); scope != ScopeGlobal {
		t.Fatalf("scope %q", scope)
	}
	if wait, _ := l.Admit(principal(2), start.Add(10*time.Millisecond)); wait != 0 {
		t.Error("the next of all is refused")
	}
}

func TestARefusalByTheGlobalLimitIsNotChargedToTheCaller(t *testing.T) {
	l := New(Options{Global: Rate{1, time.Hour}, PerPrincipal: Rate{1, time.Hour}, Burst: 3})
	for range 3 {
		l.Admit(principal(1), start)
	}
	for range 50 {
		if _, scope := l.Admit(principal(2), start); scope != ScopeGlobal {
			t.Fatalf("scope %q", scope)
		}
	}
}

func TestIdlePrincipalsAreForgottenAndBusyOnesAreNot(t *testing.T) {
	l := New(Options{PerPrincipal: Rate{1, time.Second}, Burst: 1})
	busy := &[32]byte{0, 0xff}
	now := start
	for i := range 20 * sweepEach {
		now = now.Add(10 * time.Millisecond)
		l.Admit(&[32]byte{0, byte(i), byte(i >> 8), byte(i >> 16), 1}, now)
		if i%50 == 0 {
			l.Admit(busy, now)
			if wait, _ := l.Admit(busy, now); wait == 0 {
				t.Fatal("what was counted of a busy caller is forgotten")
			}
		}
	}
	if held := len(l.shards[0].by); held > 2*sweepEach {
		t.Errorf("%d callers are held", held)
	}
}

func TestPropertyNeverMoreThanTheBurstAndTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{rapid.IntRange(1, 50).Draw(t, "count"), time.Second}
		burst := rapid.IntRange(1, 20).Draw(t, "burst")
		l := New(Options{PerPrincipal: r, Burst: burst})
		now, taken := start, 0
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond)
			if wait, _ := l.Admit(principal(1), now); wait == 0 {
				taken++
			}
			if most := float64(burst) + now.Sub(start).Seconds()*float64(r.Count); float64(taken) > most+1e-6 {
				t.Fatalf("%d admitted, at most %f", taken, most)
			}
		}
	})
}

func TestConcurrentCallersGetExactlyTheBurst(t *testing.T) {
	l := New(Options{Global: Rate{1, time.Hour}, PerPrincipal: Rate{1, time.Hour}, Burst: 100})
	var ok atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 50 {
				if wait, _ := l.Admit(principal(byte(i)), start); wait == 0 {
					ok.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if ok.Load() != 100 {
		t.Errorf("%d admitted", ok.Load())
	}
}

func TestAllocAdmitNeedsNone(t *testing.T) {
	l := New(Options{Global: Rate{1_000_000, time.Second}, PerPrincipal: Rate{1_000_000, time.Second}})
	p := principal(3)
	l.Admit(p, start)
	if n := testing.AllocsPerRun(100, func() { l.Admit(p, start) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdmit(b *testing.B) {
	l := New(Options{Global: Rate{1_000_000_000, time.Minute}, PerPrincipal: Rate{1_000_000_000, time.Minute}})
	p := principal(3)
	b.ReportAllocs()
	for b.Loop() {
		l.Admit(p, time.Now())
	}
}
