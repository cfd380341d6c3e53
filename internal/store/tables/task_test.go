package tables_test

import (
	"testing"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/conformance"
	"github.com/penstock-mcp/penstock/internal/store/sqlite"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

// No store is opened so, for memory: keeps tasks without a database; but what
// else it keeps are tables in memory, and these would serve.
func TestTasksInSQLiteInMemoryConform(t *testing.T) {
	conformance.Tasks(t, func(t *testing.T, b conformance.Bounds) store.Tasks {
		return tables.NewTasks(tables.OpenDB(t, sqlite.Memory), tables.TaskBounds{Max: b.Max, MaxFor: b.MaxFor, Cached: 100}, b.Now)
	})
}
