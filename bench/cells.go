package main

import (
	"fmt"
	"strings"
	"time"
)

// task is what the clients of a cell do.
type task int

const (
	calls    task = iota // tools/call, again and again
	lists                // a whole walk of tools/list, again and again
	sessions             // open sessions that then do nothing
	starts               // start the hop and make one call
	polls                // tasks/get, again and again
)

// cell is one thing that is measured.
type cell struct {
	name      string
	about     string
	task      task
	client    era
	upstream  era
	upstreams int // behind Penstock; a plain hop has one
	tools     int // of each upstream
	form      form
	size      int // of the text of a result, in bytes as it stands in JSON
	clients   int // at the same time; for sessions: how many
	n         int // operations in one run; for starts: how many starts
	live      int // for polls: tasks that are there
	callers   int // for polls: whose they are, in turns
	goals     map[figure]goal
}

// figure is something that a run measures.
type figure string

const (
	cpu     figure = "CPU per call"
	pollCPU figure = "CPU per poll"
	fewCPU  figure = "CPU per poll, 10 tasks"
	walkCPU figure = "CPU per list"
	peak    figure = "peak memory"
	held    figure = "memory per session"
	ready   figure = "start to first answer"
)

// goal is what a figure should not exceed (DESIGN section 14).
type goal struct {
	ratio float64 // to the plain hop; or
	at    float64 // in the figure's unit
}

// figures are those that a cell's table shows.
func (c *cell) figures() []figure {
	switch c.task {
	case lists:
		return []figure{walkCPU}
	case sessions:
		return []figure{held}
	case starts:
		return []figure{ready}
	case polls:
		return []figure{fewCPU, pollCPU}
	}
	if c.size >= 1<<20 {
		return []figure{cpu, peak}
	}
	return []figure{cpu}
}

// plainToo reports whether a plain hop can do what the cell asks for: it cannot
// merge lists.
func (c *cell) plainToo() bool { return c.task != lists }

// at is the cell's i-th upstream.
func (c *cell) at(i int) place {
	return place{era: c.upstream, form: c.form, tools: c.tools, n: i}
}

// shrunk returns the cell with a share of its operations, for a quick look; the
// figures of short runs are coarse, for CPU time comes in steps of 10 ms.
func (c cell) shrunk(share float64) cell {
	c.n = max(1, int(float64(c.n)*share))
	switch c.task {
	case sessions:
		c.clients = max(1, int(float64(c.clients)*share))
	case polls:
		c.live = max(few, int(float64(c.live)*share))
	}
	return c
}

func ratio(r float64) map[figure]goal { return map[figure]goal{cpu: {ratio: r}} }

// allCells are sized so that each run uses about a second of CPU time: that is
// a hundred steps of the clock which measures it.
func allCells() []cell {
	var all []cell
	small := func(name, about string, client, upstream era, f form, clients, n int, g map[figure]goal) {
		all = append(all, cell{
			name: name, about: about, task: calls, client: client, upstream: upstream,
			upstreams: 10, tools: 50, form: f, size: 1 << 10, clients: clients, n: n, goals: g,
		})
	}
	for _, e := range []era{legacy, modern} {
		for _, clients := range []int{1, 16, 64} {
			n := 24000
			if clients == 1 {
				n = 16000
			}
			var g map[figure]goal
			if clients == 16 {
				g = ratio(map[era]float64{legacy: 0.8, modern: 0.9}[e])
			}
			small(fmt.Sprintf("call-1k-%s-c%d", e, clients), fmt.Sprintf("%s client and upstreams, 1 KB, %d at once", e, clients), e, e, text, clients, n, g)
		}
	}
	small("call-1k-legacy-to-modern", "legacy client, modern upstreams, 1 KB, 16 at once", legacy, modern, text, 16, 24000, nil)
	small("call-1k-modern-to-legacy", "modern client, legacy upstreams, 1 KB, 16 at once", modern, legacy, text, 16, 24000, nil)
	small("call-1k-events", "modern, 1 KB by event stream behind 3 progress events, 16 at once", modern, modern, events, 16, 16000, nil)

	large := func(name string, f form, size, n int, g map[figure]goal) {
		all = append(all, cell{
			name: name, about: fmt.Sprintf("modern, %d KB of %s, 8 at once", size>>10, f), task: calls,
			client: modern, upstream: modern, upstreams: 10, tools: 50, form: f, size: size, clients: 8, n: n, goals: g,
		})
	}
	large("call-100k-text", text, 100<<10, 8000, ratio(1.2))
	large("call-100k-rows", rows, 100<<10, 8000, ratio(1.7))
	memory := goal{at: 40 << 20}
	large("call-5m-text", text, 5<<20, 320, map[figure]goal{cpu: {ratio: 1.5}, peak: memory})
	large("call-5m-rows", rows, 5<<20, 320, map[figure]goal{cpu: {ratio: 2.5}, peak: memory})

	list := func(upstreams, tools, n int, g float64) {
		all = append(all, cell{
			name: fmt.Sprintf("list-%dx%d", upstreams, tools), about: fmt.Sprintf("whole tools/list of %d upstreams with %d tools each, warm, 8 at once", upstreams, tools),
			task: lists, client: modern, upstream: modern, upstreams: upstreams, tools: tools, form: text, clients: 8, n: n,
			goals: map[figure]goal{walkCPU: {at: g}},
		})
	}
	list(10, 50, 6000, float64(300*time.Microsecond))
	list(100, 20, 2000, float64(time.Millisecond))

	for _, e := range []era{modern, legacy} {
		all = append(all, cell{
			name: "idle-" + string(e), about: fmt.Sprintf("idle legacy session after one call, connection included, %s upstreams", e),
			task: sessions, client: legacy, upstream: e, upstreams: 10, tools: 50, form: text, size: 16, clients: 1000, n: 1,
			goals: map[figure]goal{held: {at: 35 << 10}},
		})
	}
	all = append(all, cell{
		name: "task-get", about: "modern, tasks/get among 100,000 live tasks of 1,000 callers, 100 upstreams, 8 at once; and among 10",
		task: polls, client: modern, upstream: modern, upstreams: 100, tools: 5, form: tasks, clients: 8, n: 24000, live: 100_000, callers: 1000,
	})
	all = append(all, cell{
		name: "start", about: "start of the process to the first answered call, 10 upstreams",
		task: starts, client: modern, upstream: modern, upstreams: 10, tools: 50, form: text, size: 16, clients: 1, n: 5,
		goals: map[figure]goal{ready: {at: float64(30 * time.Millisecond)}},
	})
	return all
}

// choose returns the cells whose names begin with one of the comma-separated
// selectors, in their own order; an empty list chooses all.
func choose(all []cell, selectors string) ([]cell, error) {
	if selectors == "" {
		return all, nil
	}
	wanted := strings.Split(selectors, ",")
	used := make([]bool, len(wanted))
	var chosen []cell
	for _, c := range all {
		take := false
		for i, w := range wanted {
			if w != "" && strings.HasPrefix(c.name, w) {
				used[i], take = true, true
			}
		}
		if take {
			chosen = append(chosen, c)
		}
	}
	for i, w := range wanted {
		if !used[i] {
			return nil, fmt.Errorf("no cell's name begins with %q; -list shows them", w)
		}
	}
	return chosen, nil
}
