package observe

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// steady fails the test if f allocates. Pools and sampled instrumentation of the
// race detector allocate on their own.
func steady(t *testing.T, what string, f func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	if n := testing.AllocsPerRun(500, f); n != 0 {
		t.Errorf("%s allocates %v times", what, n)
	}
}
