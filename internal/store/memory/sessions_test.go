package memory_test

import (
	"testing"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/conformance"
	"github.com/penstock-mcp/penstock/internal/store/memory"
)

func TestSessionsInMemoryConform(t *testing.T) {
	conformance.Sessions(t, func(_ *testing.T, b conformance.Bounds) store.Sessions {
		return memory.NewSessions(b.Max, b.MaxFor, b.Idle, b.Now)
	})
}
