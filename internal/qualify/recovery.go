package qualify

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// primaryDelay is how long the primary task works: long enough for the router to
// be opened again and asked while it does.
const primaryDelay = 2 * time.Second

// loseAcknowledgement is check 2: a lease, and a submission whose answer the
// caller loses; then caller, router and store are closed.
func (q *qualification) loseAcknowledgement(ctx context.Context) error {
	if err := q.reopen(ctx); err != nil {
		return err
	}
	if err := q.obtainLease(ctx); err != nil {
		return err
	}
	if err := q.admit(ctx); err != nil {
		return err
	}
	j, err := q.job(wish{name: "primary", input: `{"z":[3,1.0,"ü"],"a":{"y":null,"x":9007199254740993}}`, deadline: 20 * time.Second, delay: primaryDelay})
	if err != nil {
		return failed(Submission, err)
	}
	q.primary = j
	within, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if err := q.caller.lose(within, mcp.ToolsCall, called(durable.Penstock.Tool("submit"), j.arguments())); err != nil {
		return failed(Submission, err)
	}
	if err := q.closeRouter(); err != nil {
		return failed(Router, err)
	}
	n, err := q.count()
	if err != nil {
		return err
	}
	if n[neutral.Submission] != 1 {
		return failedf(Submission, "the provider has seen %d submissions, not 1", n[neutral.Submission])
	}
	q.e.Execution.AcknowledgementLost = true
	return nil
}

func (q *qualification) obtainLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var granted struct {
		Structured struct {
			ID string `json:"leaseId"`
		} `json:"structuredContent"`
	}
	err := q.caller.tool(ctx, durable.Penstock.Tool("lease"), map[string]any{
		"aliases": []string{q.target.Alias}, "sideEffects": []durable.Effect{durable.NonIdempotentWrite}, "ttlMs": jobRetention.Milliseconds(),
	}, &granted)
	if err != nil {
		return failed(Lease, err)
	}
	if q.lease = granted.Structured.ID; q.lease == "" {
		return failedf(Lease, "there is no id")
	}
	return nil
}

// recover is check 3: another router over the same file and the same live
// connection answers the same submission with the task that there is.
func (q *qualification) recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	session, err := q.connected(ctx)
	if err != nil {
		return failed(Recovery, err)
	}
	if session != q.session {
		return failedf(Recovery, "the connection with the provider is another one")
	}
	if err := q.reopen(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	// What the lost answer said stands in the file, whatever the router says now.
	stored, err := q.router.routes.Find(ctx, q.who.Principal, q.who.Tenant, "key-"+q.primary.name)
	if err != nil {
		return failed(Recovery, err)
	}
	handle, err := q.caller.submit(ctx, q.primary)
	if err != nil {
		return failed(Recovery, err)
	}
	if handle.ID != stored.ID || !durable.IsPublicID(handle.ID) {
		return failedf(Recovery, "the task is %q, and was %q", handle.ID, stored.ID)
	}
	n, err := q.count()
	if err != nil {
		return err
	}
	if n[neutral.Submission] != 1 || n[neutral.WorkerStart] > 1 {
		return failedf(Recovery, "the task was submitted to the provider %d times and started %d times", n[neutral.Submission], n[neutral.WorkerStart])
	}
	q.task = handle
	q.e.Execution.RouterReopened, q.e.Execution.IdentityPreserved = true, true
	return nil
}

// changeInput is check 4: the key with another input is refused.
func (q *qualification) changeInput(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	j, err := q.job(wish{name: q.primary.name, input: `{"z":"changed"}`, deadline: 20 * time.Second})
	if err != nil {
		return failed(ChangedInput, err)
	}
	want := durable.Penstock.Code("TASK_IDEMPOTENCY_CONFLICT")
	if _, err := q.caller.submit(ctx, j); !refusedWith(err, want) {
		return failedf(ChangedInput, "want %s, got %w", want, orAccepted(err))
	}
	q.e.Execution.ChangedInput = RefusedInput{Accepted: false, Code: want}
	return nil
}

// update is check 5: an update is refused, and does not reach the provider.
func (q *qualification) update(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	want := durable.Penstock.Code("TASK_UPDATE_UNSUPPORTED_DURABLE")
	_, err := q.caller.ask(ctx, mcp.TasksUpdate, map[string]any{"taskId": q.task.ID, "inputResponses": map[string]any{}})
	if !refusedWith(err, want) {
		return failedf(Update, "want %s, got %w", want, orAccepted(err))
	}
	n, err := q.count()
	if err != nil {
		return err
	}
	if n[neutral.Update] != 0 {
		return failedf(Update, "the provider was told of it")
	}
	q.e.Execution.Update = RefusedUpdate{Forwarded: false, Code: want}
	return nil
}

var errAccepted = errors.New("it was accepted")

// orAccepted is the error, or that there is none.
func orAccepted(err error) error {
	if err == nil {
		return errAccepted
	}
	return err
}

// refusedWith tells whether the router refused the params with a code.
func refusedWith(err error, code string) bool {
	var r *rpcError
	return errors.As(err, &r) && r.Code == -32602 && r.Message == code
}

// complete is check 6: the task ends well, and the router claims no more than
// that its upstream said so.
func (q *qualification) complete(ctx context.Context) error {
	s, err := q.caller.await(ctx, q.task.ID, requestTime)
	if err != nil {
		return failed(Completion, err)
	}
	route := &s.Meta.Route
	got := BrokerOutcome{route.ExecutionState, route.PolicyAcceptance, route.VerificationStatus}
	want := BrokerOutcome{"upstream_reported", durable.Penstock.Evaluated(), "not_performed"}
	if s.Status != "completed" || s.ID != q.task.ID || got != want {
		return failedf(Completion, "task %s is %s (%s) with %+v, want completed with %+v", s.ID, s.Status, s.Message, got, want)
	}
	q.task = s
	q.e.Execution.PrimaryTerminalStatus, q.e.Execution.PrimaryOutcome = s.Status, got
	return nil
}

// verify is check 7: the artifacts are the task's, and it ran once.
func (q *qualification) verify(context.Context) error {
	if err := q.seams.judge(q.folder(q.primary), q.primary.expected(q.task)); err != nil {
		return failed(Artifacts, err)
	}
	n, err := q.count()
	if err != nil {
		return err
	}
	x := &q.e.Execution
	x.UpstreamSubmissions, x.WorkerStarts, x.WorkerEffects = n[neutral.Submission], n[neutral.WorkerStart], n[neutral.WorkerEffect]
	x.DuplicateEffects = x.WorkerEffects - 1
	if x.UpstreamSubmissions != 1 || x.WorkerStarts != 1 || x.WorkerEffects != 1 {
		return failedf(Counts, "%d submissions, %d starts and %d effects, want one of each", x.UpstreamSubmissions, x.WorkerStarts, x.WorkerEffects)
	}
	q.e.Artifacts.Valid = "VERIFIED"
	return nil
}
