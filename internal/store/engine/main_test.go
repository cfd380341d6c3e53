package engine_test

import (
	"os"
	"testing"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(victimEnv); address != "" {
		victim(address)
	}
	if address := os.Getenv(minterEnv); address != "" {
		minter(address)
	}
	if address := os.Getenv(submitterEnv); address != "" {
		submitter(address)
	}
	os.Exit(pgtest.Main(m))
}
