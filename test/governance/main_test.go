package governance_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// withDatabase ends the database server of the tests after they ran.
type withDatabase struct{ *testing.M }

// Run implements goleak.TestingM.
func (m withDatabase) Run() int { return pgtest.Main(m.M) }

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(withDatabase{m}, goleak.Cleanup(func(code int) {
		if folder != "" {
			_ = os.RemoveAll(folder)
		}
		os.Exit(code)
	}))
}
