package engine

import (
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

// WithoutCache are the tasks of s as a process reads them that has hardly any of
// them cached.
func WithoutCache(s *Store) store.Tasks {
	return tables.NewTasks(s.db, tables.TaskBounds{Max: s.o.Tasks, MaxFor: s.o.TasksPerPrincipal, Cached: 1}, s.o.Now)
}
