package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `Measures Penstock beside a plain reverse proxy and prints a Markdown table.

  go run ./bench [flags]

The first figure of each cell is the CPU time of the hop's process; read the
ratio, and read docs/performance.md. Exit status: 0 fine, 1 something failed or
an answer was wrong, 2 wrong usage.

`

// options are the flags.
type options struct {
	repeats  int
	cells    []cell
	penstock string
	out      string
	settle   time.Duration
}

// errListed ends a run that only had to show the cells.
var errListed = errors.New("listed")

func parseOptions(args []string, stdout, stderr io.Writer) (*options, error) {
	o := &options{settle: 2 * time.Second}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.IntVar(&o.repeats, "r", 3, "how often each cell runs over each hop; the table shows medians")
	selectors := flags.String("cells", "", "only the cells whose names begin with one of these, separated by `COMMAS`")
	flags.StringVar(&o.penstock, "penstock", "", "`PATH` of the binary to measure (default: built from this tree)")
	flags.StringVar(&o.out, "o", "", "also write every sample as JSON to this `FILE`")
	share := flags.Float64("scale", 1, "share of the operations of each run: less is quicker and coarser")
	list := flags.Bool("list", false, "show the cells and end")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	wrong := func(err error) error {
		fmt.Fprintln(stderr, "bench:", err)
		return err
	}
	switch {
	case flags.NArg() > 0:
		return nil, wrong(fmt.Errorf("unexpected %q", flags.Arg(0)))
	case o.repeats < 1:
		return nil, wrong(errors.New("-r must be at least 1"))
	case *share <= 0:
		return nil, wrong(errors.New("-scale must be more than 0"))
	}
	chosen, err := choose(allCells(), *selectors)
	if err != nil {
		return nil, wrong(err)
	}
	for _, c := range chosen {
		o.cells = append(o.cells, c.shrunk(*share))
	}
	if *list {
		for _, c := range o.cells {
			fmt.Fprintf(stdout, "%-26s %s\n", c.name, c.about)
		}
		return nil, errListed
	}
	return o, nil
}

// run is the program, but for its exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if play, ok := roles[args[0]]; ok {
			if err := play(ctx, args[1:], stderr); err != nil {
				fmt.Fprintf(stderr, "bench %s: %v\n", args[0], err)
				return 1
			}
			return 0
		}
	}
	o, err := parseOptions(args, stdout, stderr)
	switch {
	case errors.Is(err, errListed) || errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	r, err := o.measure(ctx, stderr)
	if r != nil {
		err = errors.Join(err, r.write(stdout))
		if o.out != "" {
			err = errors.Join(err, r.save(o.out))
		}
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench: interrupted")
		return 1
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// measure runs every cell over every hop, in turns, and reports progress to
// log. What failed is in the report too, which is nil when nothing could run.
func (o *options) measure(ctx context.Context, log io.Writer) (_ *report, err error) {
	if _, err := busyTime(); err != nil {
		return nil, fmt.Errorf("this needs the /proc of Linux: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary := o.penstock
	if binary == "" {
		fmt.Fprintln(log, "bench: building penstock")
		if binary, err = buildPenstock(ctx, dir); err != nil {
			return nil, err
		}
	}
	up, err := start(ctx, "upstream", program, "upstream")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, up.stop()) }()
	r := newReport(o.cells, o.repeats, time.Now())
	work := &runner{upstream: up, settle: o.settle}
	hops := []hop{plainHop(program), penstockHop(binary, dir)}
	return r, o.turns(ctx, r, work, hops, log)
}

// turns lets each cell run over each hop, repeat by repeat, the hops in turns:
// what changes on the machine meanwhile then falls on all of them.
func (o *options) turns(ctx context.Context, r *report, work *runner, hops []hop, log io.Writer) error {
	var failures []error
	for repeat := range o.repeats {
		for i := range r.Cells {
			m := &r.Cells[i]
			for turn := range hops {
				h := &hops[(turn+repeat+i)%len(hops)]
				if h.name == plainName && !m.cell.plainToo() || m.Failed[h.name] != "" {
					continue
				}
				s, err := work.run(ctx, &m.cell, h)
				if ctx.Err() != nil {
					return errors.Join(append(failures, ctx.Err())...)
				}
				if err != nil {
					m.Failed[h.name] = err.Error()
					failures = append(failures, fmt.Errorf("%s over %s: %w", m.Name, h.name, err))
					continue
				}
				m.Samples[h.name] = append(m.Samples[h.name], s)
				fmt.Fprintln(log, progress(repeat, m, h, s))
			}
		}
	}
	return errors.Join(failures...)
}

// progress is a line for somebody who waits.
func progress(repeat int, m *measured, h *hop, s *sample) string {
	line := fmt.Sprintf("%d %-26s %-8s", repeat+1, m.Name, h.name)
	for _, f := range m.cell.figures() {
		line += fmt.Sprintf("  %s %s", f, f.format(s.Values[f]))
	}
	if s.Rate > 0 {
		line += fmt.Sprintf("  p50 %v p99 %v  %.0f/s", time.Duration(s.P50).Round(time.Microsecond), time.Duration(s.P99).Round(time.Microsecond), s.Rate)
	}
	return line
}
