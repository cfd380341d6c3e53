package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the test binary play the roles that the program starts itself
// for, and one more: a proxy that lies.
func TestMain(m *testing.M) {
	roles["liar"] = playLiar
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	// Under the race detector a process sleeps a second before it ends; the
	// children of this one inherit that they do not.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// playLiar passes everything on and changes one letter of every text.
func playLiar(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("liar", flag.ContinueOnError)
	target := flags.String("upstream", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	u, err := url.Parse(*target)
	if err != nil {
		return err
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(bytes.Replace(body, []byte("gauge"), []byte("gouge"), 1)))
		return err
	}
	l, err := announce(ctx, "127.0.0.1:0", stderr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: proxy}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// tiny are all cells with hardly anything to do.
func tiny() []cell {
	var some []cell
	for _, c := range allCells() {
		c = c.shrunk(0.001)
		c.clients = min(c.clients, 3)
		some = append(some, c)
	}
	return some
}

func TestEveryCellGetsRightAnswersOverEveryHop(t *testing.T) {
	needProc(t)
	var log strings.Builder
	o := &options{repeats: 1, cells: tiny(), settle: time.Millisecond}
	r, err := o.measure(t.Context(), &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	for _, m := range r.Cells {
		want := map[string]int{penstockName: 1}
		if m.cell.plainToo() {
			want[plainName] = 1
		}
		got := map[string]int{}
		for hop, samples := range m.Samples {
			got[hop] = len(samples)
			for _, s := range samples {
				if s.N < 1 {
					t.Errorf("%s over %s: %d operations", m.Name, hop, s.N)
				}
				for _, f := range m.cell.figures() {
					if _, ok := s.Values[f]; !ok {
						t.Errorf("%s over %s: no %s", m.Name, hop, f)
					}
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: samples by hop (-want +got):\n%s", m.Name, diff)
		}
	}
	path := t.TempDir() + "/samples.json"
	if err := r.save(path); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(path); err != nil || !bytes.Contains(raw, []byte(`"call-5m-rows"`)) {
		t.Errorf("the saved samples lack a cell: %v", err)
	}
}

func TestOneWrongByteFailsTheRunAndTheTableSaysSo(t *testing.T) {
	needProc(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	up, err := start(t.Context(), "upstream", program, "upstream")
	if err != nil {
		t.Fatal(err)
	}
	defer up.stop()
	liar := plainHop(program)
	liar.argv = func(_ *cell, upstream string) ([]string, error) {
		return []string{program, "liar", "-upstream", upstream}, nil
	}
	for _, name := range []string{"call-1k-legacy-c1", "call-100k-text", "call-1k-events"} {
		cells, err := choose(tiny(), name)
		if err != nil {
			t.Fatal(err)
		}
		o := &options{repeats: 1, cells: cells}
		r := newReport(cells, 1, time.Now())
		err = o.turns(t.Context(), r, &runner{upstream: up}, []hop{liar}, io.Discard)
		var wrong *wrongAnswer
		if !errors.As(err, &wrong) {
			t.Errorf("%s: error %v, want a wrong answer", name, err)
		}
		var table strings.Builder
		if err := r.write(&table); err != nil {
			t.Fatal(err)
		}
		if row := "| " + name + " | CPU per call | failed |"; !strings.Contains(table.String(), row) {
			t.Errorf("the table lacks %q:\n%s", row, table.String())
		}
	}
}

func TestTheExitStatusTellsWrongUsageFromHelp(t *testing.T) {
	needProc(t)
	for _, tc := range []struct {
		args   []string
		want   int
		stdout string
		stderr string
	}{
		{args: []string{"-h"}, want: 0, stderr: "ratio"},
		{args: []string{"-list"}, want: 0, stdout: "call-5m-rows"},
		{args: []string{"-cells", "call-1k,nothing"}, want: 2, stderr: `"nothing"`},
		{args: []string{"-r", "0"}, want: 2, stderr: "-r"},
		{args: []string{"-scale", "-1"}, want: 2, stderr: "-scale"},
		{args: []string{"--nonsense"}, want: 2, stderr: "nonsense"},
		{args: []string{"file"}, want: 2, stderr: `"file"`},
		{args: []string{"plain"}, want: 1, stderr: "-upstream"},
		{args: []string{"-penstock", "/does/not/exist", "-r", "1", "-cells", "list-10"}, want: 1, stdout: "failed", stderr: "no such file"},
	} {
		t.Run(fmt.Sprint(tc.args), func(t *testing.T) {
			var stdout, stderr strings.Builder
			if got := run(t.Context(), tc.args, &stdout, &stderr); got != tc.want {
				t.Errorf("exit %d, want %d", got, tc.want)
			}
			if !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("stdout %q, want %q in it; stderr %q, want %q in it", stdout.String(), tc.stdout, stderr.String(), tc.stderr)
			}
		})
	}
}

func TestCellsAreChosenByTheBeginOfTheirNames(t *testing.T) {
	chosen, err := choose(allCells(), "idle,call-5m")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range chosen {
		names = append(names, c.name)
	}
	if diff := cmp.Diff([]string{"call-5m-text", "call-5m-rows", "idle-modern", "idle-legacy"}, names); diff != "" {
		t.Errorf("chosen (-want +got):\n%s", diff)
	}
}
