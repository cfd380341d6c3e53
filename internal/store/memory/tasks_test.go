package memory_test

import (
	"testing"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/conformance"
	"github.com/penstock-mcp/penstock/internal/store/memory"
)

func TestTasksInMemoryConform(t *testing.T) {
	conformance.Tasks(t, func(_ *testing.T, b conformance.Bounds) store.Tasks {
		return memory.NewTasks(b.Max, b.MaxFor, b.Now)
	})
}
