package hostile_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also holds that nothing the gateway started outlives it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built != "" {
			_ = os.RemoveAll(built)
		}
		os.Exit(code)
	}))
}
