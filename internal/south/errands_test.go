package south

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An upstream that leaves the configuration waits for its errands while calls in
// flight begin others; the race detector judges.
func TestErrandsBeginWhileTheyAreWaitedFor(t *testing.T) {
	var (
		e     errands
		ran   atomic.Int64
		begun atomic.Int64
		wg    sync.WaitGroup
	)
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				if e.begin(func() { ran.Add(1) }) {
					begun.Add(1)
				}
			}
		})
		wg.Go(func() {
			for range 500 {
				e.settle(t.Context(), time.Minute)
			}
		})
	}
	wg.Wait()
	e.close()
	if ran.Load() != 8000 || begun.Load() != 8000 {
		t.Errorf("%d begun, %d ran", begun.Load(), ran.Load())
	}
	if e.begin(func() { ran.Add(1) }) || ran.Load() != 8000 {
		t.Error("an errand began after the end")
	}
}

func TestErrandsAreWaitedForWithinBounds(t *testing.T) {
	var e errands
	e.settle(t.Context(), time.Minute) // nothing is under way
	release := make(chan struct{})
	e.begin(func() { <-release })
	begun := time.Now()
	e.settle(t.Context(), 20*time.Millisecond)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	e.settle(gone, time.Minute)
	if took := time.Since(begun); took < 20*time.Millisecond || took > 10*time.Second {
		t.Errorf("waited for %v", took)
	}
	closed := make(chan struct{})
	go func() {
		e.close()
		close(closed)
	}()
	select {
	case <-closed:
		t.Fatal("closed before the errand was over")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	<-closed
}
