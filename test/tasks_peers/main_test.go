package taskspeers_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that no process or server that a test started is still waited for.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
