package governance_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// withDatabase ends the database server of the tests after they ran.
type withDatabase struct{ *testing.M }

// Run implements goleak.TestingM.
func (m withDatabase) Run() int { return pgtest.Main(m.M) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(withDatabase{m}) }
