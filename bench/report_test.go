package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheTableShowsMediansRatiosAndGoals(t *testing.T) {
	cells, err := choose(allCells(), "call-1k-modern-c16,call-5m-text,list-100x20,idle-modern,start")
	if err != nil {
		t.Fatal(err)
	}
	r := newReport(cells, 3, time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC))
	r.Machine, r.Cores, r.Go = "test", 2, "go1.26"
	add := func(i int, hop string, others float64, f figure, values ...float64) {
		for k, v := range values {
			samples := r.Cells[i].Samples
			if k == len(samples[hop]) {
				samples[hop] = append(samples[hop], &sample{Values: map[figure]float64{}, Others: others})
			}
			samples[hop][k].Values[f] = v
		}
	}
	add(0, plainName, 0.2, cpu, 90e3, 300e3, 100e3)
	add(0, penstockName, 0.2, cpu, 80e3, 70e3, 10e3)
	add(1, plainName, 0.2, cpu, 2.25e6)
	add(1, plainName, 0.2, peak, 11<<20)
	add(1, penstockName, 1.7, cpu, 2e6, 2.5e6)
	add(1, penstockName, 1.7, peak, 17<<20, 19<<20)
	add(2, penstockName, 0.2, walkCPU, 0.52e6)
	r.Cells[3].Failed[penstockName] = "a wrong answer"
	add(3, plainName, 0.2, held, 47<<10)
	add(4, penstockName, 0.2, ready, 11.4e6)
	var got strings.Builder
	if err := r.write(&got); err != nil {
		t.Fatal(err)
	}
	want := `2026-11-29 08:00 UTC, 2 cores (test), go1.26, medians of 3

| cell | figure | plain | penstock | ratio | goal |
|---|---|---:|---:|---:|---:|
| call-1k-modern-c16 | CPU per call | 100 us | 70 us | 0.70 | 0.9 x |
| call-5m-text | CPU per call | 2.25 ms | 2.25 ms | 1.00 | 1.5 x |
| call-5m-text | peak memory | 11 MB | 18 MB | 1.64 | 40 MB |
| list-100x20 | CPU per list |  | 0.52 ms |  | 1.00 ms |
| idle-modern | memory per session | 47.0 KB | failed |  | 35.0 KB |
| start | start to first answer |  | 11 ms |  | 30 ms |

Other processes of this machine kept 0.2 cores busy meanwhile (median; at most 1.7).
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
