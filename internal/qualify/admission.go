package qualify

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// admit has submissions refused that must not be dispatched: of another schema,
// of another capability than the alias names, under no lease, and with an effect
// that is milder than the route's. It belongs to check 2.
func (q *qualification) admit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	for code, spoil := range map[string]func(*job, *durable.Submission){
		"TASK_SCHEMA_UNSUPPORTED": func(_ *job, s *durable.Submission) {
			s.SchemaVersion = durable.Penstock.Schema("task-submission") + "0"
		},
		"TASK_PROVIDER_VERSION_UNSUPPORTED": func(_ *job, s *durable.Submission) { s.ProviderInterfaceVersion = durable.Sum(nil).String() },
		"TASK_EFFECT_MISMATCH":              func(_ *job, s *durable.Submission) { s.PermittedEffect = durable.ReadOnly },
		"TASK_INPUT_IDENTITY_MISMATCH":      func(_ *job, s *durable.Submission) { s.InputSHA256 = durable.Sum(nil) },
		"CAPABILITY_NOT_FOUND":              func(j *job, _ *durable.Submission) { j.alias += "_other" },
		"LEASE_CAPABILITY_OUTSIDE_CONE":     func(j *job, _ *durable.Submission) { j.lease = "00000000-0000-4000-8000-000000000000" },
	} {
		j, err := q.job(wish{name: "refused", input: `{}`, deadline: 20 * time.Second})
		if err != nil {
			return failed(Admission, err)
		}
		var s durable.Submission
		if err := json.Unmarshal(j.document, &s); err != nil {
			return failed(Admission, err)
		}
		spoil(j, &s)
		if j.document, err = json.Marshal(s); err != nil {
			return failed(Admission, err)
		}
		want := durable.Penstock.Code(code)
		if _, err := q.caller.submit(ctx, j); err == nil || !strings.HasSuffix(err.Error(), want) {
			return failed(Admission, fmt.Errorf("want %s, got %w", want, orAccepted(err)))
		}
	}
	n, err := q.count()
	if err != nil {
		return err
	}
	if n[neutral.Submission] != 0 {
		return failedf(Admission, "the provider was asked")
	}
	return nil
}
