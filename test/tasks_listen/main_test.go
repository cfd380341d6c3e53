package tasks_listen_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // they wait most of the time
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}
