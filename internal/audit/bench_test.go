package audit

import (
	"io"
	"strings"
	"testing"
	"time"
)

// BenchmarkRecord is what a request pays; the writer runs beside it and takes
// its part of the processors.
func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		name string
		e    *Event
	}{
		{"plain", event(7)},
		{"arguments", withArguments(event(7))},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := New(Options{Stdout: io.Discard, QueueBytes: 256 << 20})
			stop := running(b, l)
			b.ReportAllocs()
			for b.Loop() {
				l.Record(c.e)
			}
			b.StopTimer()
			lost := l.Stats().Lost
			_ = stop()
			b.ReportMetric(float64(lost)/float64(b.N), "lost/op")
		})
	}
}

func BenchmarkRecordParallel(b *testing.B) {
	l := New(Options{Stdout: io.Discard, QueueBytes: 256 << 20})
	stop := running(b, l)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		e := event(7)
		for pb.Next() {
			l.Record(e)
		}
	})
	b.StopTimer()
	_ = stop()
}

// BenchmarkForm is the line alone.
func BenchmarkForm(b *testing.B) {
	e := event(7)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = appendEvent(dst[:0], e, time.Now)
	}
	b.SetBytes(int64(len(dst)))
}

// BenchmarkWrite is the writer alone: numbers, hashes, batches, and a real file.
func BenchmarkWrite(b *testing.B) {
	for _, key := range []string{"", "secret"} {
		b.Run("key="+key, func(b *testing.B) {
			file := here(b)
			l := New(Options{File: file, Key: []byte(key), QueueBytes: 1 << 40, MaxSize: 1 << 40})
			e := event(7)
			size := lineLength(&line{body: appendEvent(nil, e, time.Now)})
			b.SetBytes(int64(size))
			w := newWriter(l)
			defer w.close()
			b.ResetTimer()
			for n := 0; n < b.N; n += 1000 {
				b.StopTimer()
				for range min(1000, b.N-n) {
					l.Record(e)
				}
				b.StartTimer()
				if err := w.flush(time.Time{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	s := chronicle(b, Options{File: here(b)}, 0, 1000)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		if r, err := Verify(strings.NewReader(s), "f", nil, ""); err != nil || !r.OK() {
			b.Fatal(err, r.Problems)
		}
	}
}

func withArguments(e *Event) *Event {
	e.Arguments = []byte(`{"owner":"penstock","repo":"penstock","issue_number":9007199254740993,"labels":["a","b"],"body":"` + strings.Repeat("text ", 40) + `"}`)
	return e
}

func TestAllocRecordTakesOneAllocationAtMost(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	for _, e := range []*Event{event(1), withArguments(event(1))} {
		l := New(Options{Stdout: io.Discard, QueueBytes: 256 << 20})
		w := newWriter(l)
		n := testing.AllocsPerRun(1000, func() {
			l.Record(e)
			if l.queued.Load() > batchBytes {
				if err := w.flush(time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
		})
		if n > 1 {
			t.Errorf("%v allocations", n)
		}
	}
}
