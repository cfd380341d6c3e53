package qualify

import (
	"context"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// A task that works for longer than its deadline lets it.
const (
	shortDeadline = 2500 * time.Millisecond
	longWork      = 5 * time.Second
	afterDeadline = 50 * time.Millisecond
)

// passDeadline is check 9: a deadline cancels nothing until somebody asks. The
// first to ask has the intent persisted and the worker told; nothing comes of
// the task any more.
func (q *qualification) passDeadline(ctx context.Context) error {
	before, err := q.count()
	if err != nil {
		return err
	}
	polled := q.caller.polls
	j, err := q.job(wish{name: "overdue", input: `{}`, deadline: shortDeadline, delay: longWork})
	if err != nil {
		return failed(Deadline, err)
	}
	within, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	handle, err := q.caller.submit(within, j)
	if err != nil {
		return failed(Deadline, err)
	}
	if err := sleep(within, time.Until(j.deadline)+afterDeadline); err != nil {
		return failed(Deadline, err)
	}
	n, err := q.count()
	if err != nil {
		return err
	}
	d := &q.e.Cancellation
	d.Enforcement, d.Scheduler = "poll-driven", false
	d.PollsBefore = q.caller.polls - polled
	d.AcknowledgementsBefore, d.TerminationsBefore, d.EffectsBefore = n.since(before, neutral.CancelAck), n.since(before, neutral.Termination), n.since(before, neutral.WorkerEffect)
	if d.PollsBefore+d.AcknowledgementsBefore+d.TerminationsBefore+d.EffectsBefore != 0 {
		return failedf(Deadline, "before anybody asked there were %d polls, %d acknowledgements, %d terminations and %d effects",
			d.PollsBefore, d.AcknowledgementsBefore, d.TerminationsBefore, d.EffectsBefore)
	}
	if err := q.trigger(within, handle.ID); err != nil {
		return err
	}
	return q.cancelled(ctx, handle.ID, before)
}

// trigger is the first poll behind the deadline.
func (q *qualification) trigger(ctx context.Context, id string) error {
	first, err := q.caller.poll(ctx, id)
	if err != nil {
		return failed(Deadline, err)
	}
	stored, err := q.router.routes.Get(ctx, id)
	if err != nil {
		return failed(Deadline, err)
	}
	d := &q.e.Cancellation
	d.TriggerStatus, d.TriggerMessage, d.PersistedIntent = first.Status, first.Message, stored.Phase
	const requested = string(durable.CancelRequested)
	want := durable.Penstock.Code("TASK_RUNTIME_BOUND_REACHED")
	if first.Status != "working" || first.Message != want || first.Meta.Route.Phase != requested || stored.Phase != requested {
		return failedf(Deadline, "the first poll found %s (%s) in phase %s, persisted as %s; want working (%s) in %s",
			first.Status, first.Message, first.Meta.Route.Phase, stored.Phase, want, requested)
	}
	return nil
}

// cancelled is the end behind the first poll.
func (q *qualification) cancelled(ctx context.Context, id string, before counts) error {
	last, err := q.caller.await(ctx, id, requestTime)
	if err != nil {
		return failed(Cancellation, err)
	}
	n, err := q.count()
	if err != nil {
		return err
	}
	d := &q.e.Cancellation
	d.TerminalStatus = last.Status
	d.AcknowledgementsAfter, d.TerminationsAfter, d.EffectsAfterTermination = n.since(before, neutral.CancelAck), n.since(before, neutral.Termination), n.since(before, neutral.WorkerEffect)
	if last.Status != "cancelled" || d.AcknowledgementsAfter < 1 || d.TerminationsAfter < 1 || d.EffectsAfterTermination != 0 {
		return failedf(Cancellation, "the task is %s (%s) behind %d acknowledgements, %d terminations and %d effects",
			last.Status, last.Message, d.AcknowledgementsAfter, d.TerminationsAfter, d.EffectsAfterTermination)
	}
	return nil
}
