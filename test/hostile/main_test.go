package hostile_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// formEnv in the environment, with the value long, asks for the full number of
// what is repeated.
const formEnv = "PENSTOCK_CHAOS"

// times is how often something is done in the short form and in the long one.
func times(short, long int) int {
	if os.Getenv(formEnv) == "long" {
		return long
	}
	return short
}

// withDatabase ends the database server of the tests after they ran.
type withDatabase struct{ *testing.M }

// Run implements goleak.TestingM.
func (m withDatabase) Run() int { return pgtest.Main(m.M) }

// TestMain lets this binary be a child of a gateway, and also holds that nothing
// the gateway started outlives it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case childRole:
			serveChild(os.Args[2:])
			return
		case grandchildRole:
			select {}
		}
	}
	// Most tests wait for something rather than compute; -parallel still counts.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(withDatabase{m}, goleak.Cleanup(func(code int) {
		if built != "" {
			_ = os.RemoveAll(built)
		}
		os.Exit(code)
	}))
}
