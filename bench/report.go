package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// report is everything that a whole run measured.
type report struct {
	Date    time.Time  `json:"date"`
	Machine string     `json:"machine"`
	Cores   int        `json:"cores"`
	Go      string     `json:"go"`
	Repeats int        `json:"repeats"`
	Cells   []measured `json:"cells"`
}

// measured are the samples of one cell.
type measured struct {
	cell    cell
	Name    string               `json:"name"`
	About   string               `json:"about"`
	Samples map[string][]*sample `json:"samples"` // by hop
	Failed  map[string]string    `json:"failed,omitempty"`
}

func newReport(cells []cell, repeats int, now time.Time) *report {
	r := &report{
		Date: now.UTC().Truncate(time.Second), Machine: processor(), Cores: runtime.NumCPU(),
		Go: runtime.Version(), Repeats: repeats, Cells: make([]measured, 0, len(cells)),
	}
	for _, c := range cells {
		r.Cells = append(r.Cells, measured{cell: c, Name: c.name, About: c.about, Samples: map[string][]*sample{}, Failed: map[string]string{}})
	}
	return r
}

// processor is the name that the machine gives its processor.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if name, found := strings.CutPrefix(line, "model name"); found {
				return strings.Trim(name, " \t\n:")
			}
		}
	}
	return runtime.GOARCH
}

// median returns the middle of the values, or the mean of the two in the
// middle; values must not be empty.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// median returns the middle of what the runs over a hop measured.
func (m *measured) median(hop string, f figure) (float64, bool) {
	var values []float64
	for _, s := range m.Samples[hop] {
		if v, ok := s.Values[f]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	return median(values), true
}

// write prints the table.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores (%s), %s, medians of %d\n\n", r.Date.Format("2006-01-02 15:04 MST"), r.Cores, r.Machine, r.Go, r.Repeats)
	b.WriteString("| cell | figure | plain | penstock | ratio | goal |\n|---|---|---:|---:|---:|---:|\n")
	for i := range r.Cells {
		m := &r.Cells[i]
		for _, f := range m.cell.figures() {
			plain, hasPlain := m.median(plainName, f)
			ours, hasOurs := m.median(penstockName, f)
			times := ""
			if hasPlain && hasOurs && plain > 0 {
				times = fmt.Sprintf("%.2f", ours/plain)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", m.Name, f, m.shown(plainName, f, plain, hasPlain), m.shown(penstockName, f, ours, hasOurs), times, m.cell.goals[f].in(f))
		}
	}
	for i := range r.Cells {
		m := &r.Cells[i]
		if share, ok := m.growth(); ok {
			fmt.Fprintf(&b, "\n%s: a poll among %d tasks costs %.2f of one among %d; the goal is at most %.1f.\n", m.Name, m.cell.live, share, few, grown)
		}
	}
	if middle, worst, any := r.others(); any {
		fmt.Fprintf(&b, "\nOther processes of this machine kept %.1f cores busy meanwhile (median; at most %.1f).\n", middle, worst)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// growth returns what a poll costs among many tasks, of what it costs among few, over
// Penstock.
func (m *measured) growth() (share float64, ok bool) {
	var all []float64
	for _, s := range m.Samples[penstockName] {
		if s.Values[fewCPU] > 0 {
			all = append(all, s.Values[pollCPU]/s.Values[fewCPU])
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return median(all), true
}

// shown is a figure of a hop as the table has it.
func (m *measured) shown(hop string, f figure, value float64, has bool) string {
	switch {
	case m.Failed[hop] != "":
		return "failed"
	case !has:
		return ""
	}
	return f.format(value)
}

// others returns the median and the most of what other processes used during
// the runs.
func (r *report) others() (middle, worst float64, any bool) {
	var all []float64
	for i := range r.Cells {
		for _, samples := range r.Cells[i].Samples {
			for _, s := range samples {
				all = append(all, s.Others)
			}
		}
	}
	if len(all) == 0 {
		return 0, 0, false
	}
	return median(all), slices.Max(all), true
}

// format writes a value in the figure's unit.
func (f figure) format(value float64) string {
	switch f {
	case cpu, pollCPU, fewCPU:
		if value >= float64(time.Millisecond) {
			return fmt.Sprintf("%.2f ms", value/1e6)
		}
		return fmt.Sprintf("%.0f us", value/1e3)
	case walkCPU:
		return fmt.Sprintf("%.2f ms", value/1e6)
	case peak:
		return fmt.Sprintf("%.0f MB", value/(1<<20))
	case held:
		return fmt.Sprintf("%.1f KB", value/(1<<10))
	case ready:
		return fmt.Sprintf("%.0f ms", value/1e6)
	}
	return fmt.Sprint(value)
}

// in writes the goal for a figure, or nothing where there is none.
func (g goal) in(f figure) string {
	switch {
	case g.ratio > 0:
		return fmt.Sprintf("%.1f x", g.ratio)
	case g.at > 0:
		return f.format(g.at)
	}
	return ""
}

// save writes every sample as JSON.
func (r *report) save(path string) error {
	raw, err := json.Marshal(r, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}
