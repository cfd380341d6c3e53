package neutral_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// TestMain makes the test binary be the provider and the worker, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case neutral.WorkerCommand:
			err = neutral.Work(os.Getenv, os.Stdin)
		case neutral.UpstreamCommand:
			exe, _ := os.Executable()
			err = neutral.Serve(context.Background(), neutral.Options{Root: os.Args[3], Worker: []string{exe, neutral.WorkerCommand}}, os.Stdin, os.Stdout)
		default:
			goleak.VerifyTestMain(m)
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
