package taskslegacy_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that nothing that a gateway started outlives it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
