package artifact

import "github.com/penstock-mcp/penstock/internal/durable"

// Expected is what a caller knows of the work that it asked for.
type Expected struct {
	PublicTask    string
	RequestDigest string
	LogicalTask   string
	Attempt       string
	Correlation   string
	Key           string
	Input         durable.Digest // of the canonical form of the input
}

// identities is Expected as it is to be found in a file.
func (e *Expected) identities() map[string]string {
	return map[string]string{
		"publicTaskId": e.PublicTask, "requestSha256": e.RequestDigest, "logicalTaskId": e.LogicalTask,
		"attemptId": e.Attempt, "correlationId": e.Correlation, "idempotencyKey": e.Key,
	}
}
