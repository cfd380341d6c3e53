package qualify

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// TestMain makes the test binary be the provider and the worker, also bad ones,
// and sees to it that nothing is left of any qualification.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case neutral.UpstreamCommand:
			err = provide(os.Args[2:])
		case neutral.WorkerCommand:
			err = work(os.Args[2])
		default:
			os.Exit(tests(m))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(tests(m))
}

func tests(m *testing.M) int {
	temporary, err := os.MkdirTemp("", "qualify")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := os.Setenv("TMPDIR", temporary); err != nil {
		panic(err)
	}
	code := m.Run()
	if left, _ := os.ReadDir(temporary); code == 0 && len(left) != 0 {
		fmt.Fprintf(os.Stderr, "left behind: %v\n", left)
		return 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// provider is the command of a provider with a fault, "" for none.
func provider(t *testing.T, fault string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append(promptly, exe, neutral.UpstreamCommand, fault)
}

// promptly has a command end without the pause that the race detector makes.
var promptly = []string{"env", "GORACE=atexit_sleep_ms=0"}[:2:2]

// provide serves with the fault of args: FAULT --root ROOT.
func provide(args []string) error {
	fault, root := args[0], args[2]
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	o := neutral.Options{Root: root, Worker: append(promptly, exe, neutral.WorkerCommand, fault)}
	in, out := io.Reader(os.Stdin), io.Writer(os.Stdout)
	switch fault {
	case "spoils the store":
		if err := os.WriteFile(filepath.Join(filepath.Dir(root), "state.db"), bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
			return err
		}
	case "no tasks":
		out = &rewriter{to: out, old: `"extensions":{"io.modelcontextprotocol/tasks":{}}`, now: `"extensions":{}`}
	case "another tool":
		out = &rewriter{to: out, old: `"tools":[{"name":"normalize_json"`, now: `"tools":[{"name":"x","inputSchema":{"type":"object"}},{"name":"normalize_json"`}
	case "changes":
		out = &rewriter{to: out, old: `"title":"Normalize JSON"`, now: `"title":"Something else"`, spare: 1}
	case "no echo":
		out = &rewriter{to: out, old: `"penstock/taskExecution"`, now: `"other/taskExecution"`}
	case "ignores cancels":
		in = deaf(in, out, root)
	}
	if err := neutral.Serve(context.Background(), o, in, out); err != nil {
		return err
	}
	if fault == "ends badly" {
		return errors.New("for no reason")
	}
	return nil
}

// work is a worker with a fault.
func work(fault string) error {
	root, task := os.Getenv("PENSTOCK_NEUTRAL_ROOT"), os.Getenv("PENSTOCK_NEUTRAL_TASK")
	overdue := os.Getenv("PENSTOCK_NEUTRAL_DELAY_MS") == "5000"
	switch {
	case fault == "fails":
		return errors.New("it does not want to")
	case fault == "impatient" && overdue:
		return neutral.Record(root, neutral.Termination, task)
	}
	if err := neutral.Work(os.Getenv, os.Stdin); err != nil {
		return err
	}
	switch fault {
	case "works twice":
		return neutral.Record(root, neutral.WorkerEffect, task)
	case "lies":
		file := filepath.Join(root, neutral.OutputFolder, os.Getenv("PENSTOCK_NEUTRAL_DIRECTORY"), neutral.ResultFile)
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(file, bytes.Replace(raw, []byte(`"normalized":{`), []byte(`"normalized":{"more":1,`), 1), 0o600)
	}
	return nil
}

// rewriter replaces something in lines, once spare of them have passed.
type rewriter struct {
	to       io.Writer
	old, now string
	spare    int
}

func (r *rewriter) Write(line []byte) (int, error) {
	if strings.Contains(string(line), r.old) {
		if r.spare--; r.spare < 0 {
			line = []byte(strings.Replace(string(line), r.old, r.now, 1))
		}
	}
	return r.to.Write(line)
}

// deaf acknowledges cancels, and keeps them from the provider.
func deaf(in io.Reader, out io.Writer, root string) io.Reader {
	from, to := io.Pipe()
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if id, _, found := bytes.Cut(lines.Bytes(), []byte(`,"method":"tasks/cancel"`)); found {
				_ = neutral.Record(root, neutral.CancelAck, "deaf")
				_, _ = fmt.Fprintf(out, "%s,\"result\":{\"resultType\":\"complete\"}}\n", id)
				continue
			}
			_, _ = to.Write(append(slices.Clone(lines.Bytes()), '\n'))
		}
		_ = to.Close()
	}()
	return from
}
