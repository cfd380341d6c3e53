package tables_test

import (
	"testing"

	"github.com/penstock-mcp/penstock/internal/store/sqlite"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

func init() {
	tables.OpenDB = func(t testing.TB, path string) tables.DB {
		t.Helper()
		d, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return d
	}
}
