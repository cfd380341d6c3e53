package durable_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// built is a folder for what is built for the tests.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "durable-worker"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(built); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
