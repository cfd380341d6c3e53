package main

import "testing"

// The goal of a collection, as Go makes it of a percentage, is what is live and what
// it may grow by.
func TestTheHeapGrowsByWhatItMay(t *testing.T) {
	for _, live := range []int{0, 1 << 10, 100 << 10, 1 << 20, 3 << 20, 4 << 20, 5 << 20, 50 << 20, 5 << 30} {
		percent := percentFor(live)
		goal := max(live+live/100*percent, (4<<20)/100*percent)
		want := live + max(leastGrowth, live)
		if percent < 1 || goal < want*9/10 || goal > want {
			t.Errorf("with %d live: %d %%, a goal of %d, want %d", live, percent, goal, want)
		}
	}
}
