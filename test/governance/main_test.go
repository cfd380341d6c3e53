package governance_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if folder != "" {
			_ = os.RemoveAll(folder)
		}
		os.Exit(code)
	}))
}
