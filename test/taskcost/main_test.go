package taskcost_test

import (
	"os"
	"testing"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
