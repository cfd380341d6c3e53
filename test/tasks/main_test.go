package tasks_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// formEnv in the environment, with the value long, asks for the full number of what is repeated.
const formEnv = "PENSTOCK_CHAOS"

// times is how often something is done in the short form and in the long one.
func times(short, long int) int {
	if os.Getenv(formEnv) == "long" {
		return long
	}
	return short
}

func TestMain(m *testing.M) {
	// Most tests wait for something rather than compute; -parallel still counts.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("within %s it did not happen that %s", within, what)
		}
	}
}
