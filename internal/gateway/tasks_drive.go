package gateway

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/observe"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// errNeedsTask is a modern upstream that runs a call as a task alone, for a client
// that cannot have one. Nothing ran.
var errNeedsTask = errors.New("the upstream runs the call as a task only")

// drivenError is the task that an upstream made of a call which the gateway drives.
type drivenError struct{ made making }

func (*drivenError) Error() string { return "the upstream made a task of the call" }

// offering says whose a task is that an upstream may make of a call.
type offering uint8

const (
	noTask   offering = iota // it was not offered any
	withheld                 // it was not offered the client's, for the store cannot commit
	forIt                    // the client's, who is answered with it
	forDrive                 // the gateway's, which drives it for the client
)

func (o *outbound) offered() offering {
	switch {
	case o.driven:
		return forDrive
	case o.tasks:
		return forIt
	case o.withheld:
		return withheld
	}
	return noTask
}

// made reports whether the upstream may make a task of the call.
func (o offering) made() bool { return o == forIt || o == forDrive }

// drives reports whether the gateway drives tasks for the client of a call, who
// cannot have them (DESIGN section 9, checklist 8.6).
func (g *Gateway) drives(x *north.Exchange) bool {
	if x.Method.Name != mcp.ToolsCall {
		return false
	}
	switch g.doc.Tasks.Drive {
	case "legacy":
		return x.Era == mcp.Legacy
	case "on":
		return x.Era == mcp.Legacy || !g.declaresTasks(x)
	}
	return false
}

var requiredTasksPath = []string{"requiredCapabilities", "extensions", mcp.ExtensionTasks}

// needsTask reports whether an upstream's refusal says that it wants to make a task
// of the call.
func needsTask(s *wire.Answer) bool {
	return len(at(s.ErrorData.Of(s.Raw), requiredTasksPath)) > 0
}

// takeOver has the call made again in the gateway's own name, as one whose task is
// driven.
func (o *outbound) takeOver(ctx context.Context) (*task.Slot, error) {
	slot, err := o.g.tasks.Reserve(ctx, o.x.Principal.Key, o.g.taskLimits())
	if err != nil {
		o.g.metrics.Task("not_offered")
		return nil, noRoom(err, "upstream %q runs this call as a task only, and no more tasks can be remembered now", o.t.Upstream).
			WithHint("nothing ran; try again later")
	}
	o.tasks, o.driven = true, true
	return slot, nil
}

// withTasks is a raw capability set with the tasks extension.
func withTasks(caps []byte) []byte {
	extension := wire.Member{Name: mcp.ExtensionTasks, Value: emptyObject}
	found := wire.Span{}
	err := wire.MemberSpans(caps, func(name []byte, at wire.Span) bool {
		if isName(name, "extensions") {
			found = at
		}
		return true
	})
	if err != nil {
		return caps
	}
	if found.Ok() {
		return wire.Splice(nil, caps, wire.InsertMembers(caps, found, extension))
	}
	return wire.Splice(nil, caps, wire.InsertMembers(caps, wire.Span{End: len(caps)},
		wire.Member{Name: "extensions", Value: []byte(`{"` + mcp.ExtensionTasks + `":{}}`)}))
}

// Bounds on how often a driven task is asked for, and how often when its upstream
// does not say.
const (
	minPoll   = 200 * time.Millisecond
	maxPoll   = 30 * time.Second
	usualPoll = time.Second
)

var (
	pollPath          = []string{"pollIntervalMs"}
	statusPath        = []string{"status"}
	statusMessagePath = []string{"statusMessage"}
	updatedPath       = []string{"lastUpdatedAt"}
	resultPath        = []string{"result"}
	errorPath         = []string{"error"}
	inputRequestsPath = []string{"inputRequests"}
)

// pollOf is how long a task's upstream wants nobody to ask.
func pollOf(task []byte) time.Duration {
	ms, err := strconv.ParseFloat(string(at(task, pollPath)), 64)
	if err != nil || ms != ms || ms <= 0 {
		return usualPoll
	}
	if ms > float64(maxPoll.Milliseconds()) {
		return maxPoll
	}
	return max(time.Duration(ms)*time.Millisecond, minPoll)
}

// drive follows the task that was made of a call to its end, within the call's
// deadline, and answers the call with what came of it. Whoever gives up, or is too
// late, has the task cancelled.
func (o *outbound) drive(ctx context.Context, m *member, made making, slot *task.Slot) error {
	g := o.g
	stored, id, err := g.mint(ctx, o.x, o.v, m, o.t, o.link, made)
	slot.Release() // the record is counted now
	if err != nil {
		return err
	}
	g.metrics.Task("driven")
	o.x.Trail.Detail = "task driven"
	o.x.StayAlive()
	defer o.x.Rest()
	d := driving{outbound: o, m: m, id: id, wait: made.poll, answered: map[string]bool{}}
	if o.link.Era == mcp.Legacy {
		d.bridge = g.bridgeOver(o.v, m, stored, id, o.link, callerOf(o.x))
	}
	d.start()
	for {
		if err := d.pause(ctx); err != nil {
			return d.leave(ctx, err)
		}
		s, err := d.poll(ctx)
		if err != nil {
			return d.leave(ctx, err)
		}
		if s == nil {
			continue // it could not be asked; the next time it may
		}
		g.tasks.Saw(stored, lifeOf(s, mcp.Modern))
		ended, err := d.look(ctx, s)
		if ended || err != nil {
			return err
		}
	}
}

// driving is a driven task on its way.
type driving struct {
	*outbound
	bridge   *bridge // to a task of 2025-11-25; nil: it is one of the extension
	m        *member
	id       string
	wait     time.Duration // to the next poll
	calm     time.Duration // how long it may go without a change
	late     time.Time     // when it is over unless something changes
	last     time.Time     // when it is over whatever changes
	seen     []byte        // how it was when last seen
	message  string        // what it last said
	told     int           // of progress
	answered map[string]bool
}

func (d *driving) start() {
	now := time.Now()
	if d.calm = time.Duration(d.g.doc.Upstreams[d.m.key].Timeout); d.calm <= 0 {
		d.calm = time.Duration(d.g.doc.Limits.CallTimeout)
	}
	d.late, d.last = now.Add(d.calm), now.Add(max(d.calm, time.Duration(d.g.doc.Limits.CallTimeoutMax)))
}

// end is when the call is over.
func (d *driving) end() time.Time {
	if d.late.Before(d.last) {
		return d.late
	}
	return d.last
}

var errDriveLate = errors.New("the task did not end within the call's deadline")

// pause waits for the next poll, with a little jitter, so that calls which began
// together do not poll together.
func (d *driving) pause(ctx context.Context) error {
	wait := d.wait + time.Duration(rand.Int64N(int64(d.wait)/5+1)) //nolint:gosec // nobody has to be unable to guess it
	left := time.Until(d.end())
	over := time.NewTimer(min(wait, left))
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if wait >= left {
		return errDriveLate
	}
	return nil
}

// poll asks how the task is. Nil is an upstream that could not be asked this time;
// an error that the upstream answers with ends the call.
func (d *driving) poll(ctx context.Context) (*wire.Answer, error) {
	if d.m.rate != nil {
		if _, ok := d.m.rate.Take(time.Now()); !ok {
			return nil, nil
		}
	}
	within, cancel := context.WithDeadline(ctx, d.end())
	defer cancel()
	whole, err := d.ask(within)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case within.Err() != nil:
		return nil, errDriveLate
	default:
		d.g.log.Debug("a driven task could not be asked for", "upstream", d.m.key, "error", err)
		return nil, nil
	}
	s := &wire.Answer{}
	if err := wire.Scan(whole, s); err != nil {
		return nil, invalid(d.m, err)
	}
	return s, nil
}

func (d *driving) ask(ctx context.Context) ([]byte, error) {
	if d.bridge != nil {
		return d.bridge.detail(ctx)
	}
	began := time.Now()
	whole, err := sendWhole(ctx, d.link, d.g.ownTaskRequest(d.link, mcp.TasksGet, d.id))
	d.g.metrics.UpstreamCall(d.m.key, mcp.TasksGet, callOutcome(err), time.Since(began))
	return whole, err
}

// leave ends a call whose task has not ended: it is cancelled.
func (d *driving) leave(ctx context.Context, why error) error {
	d.g.cancelQuietly(ctx, d.x, d.v, d.m, d.link, d.id)
	if errors.Is(why, errDriveLate) {
		return fault.Wrap(why, fault.UpstreamTimeout, "the task that upstream %q made of the call did not end in time", d.m.key).
			WithHint("it was cancelled, and may have run; check before calling again")
	}
	return why
}

// look takes what a poll brought. ended says that the call is answered.
func (d *driving) look(ctx context.Context, s *wire.Answer) (ended bool, err error) {
	if s.Error.Ok() { // it knows the task no more, or does not tell
		return true, d.fails(s)
	}
	if err := d.g.judgedAgain(d.x, d.t); err != nil {
		return true, d.leave(ctx, err)
	}
	now := s.Result.Of(s.Raw)
	if id, err := wire.String(s.TaskID.Of(s.Raw)); err != nil || id != d.id {
		return true, d.leave(ctx, fault.New(fault.InvalidAnswer, "upstream %q answered for another task", d.m.key).WithHint("tell the upstream's owner"))
	}
	status, err := wire.String(at(now, statusPath))
	if err != nil {
		return true, d.leave(ctx, invalid(d.m, err))
	}
	d.wait = pollOf(now)
	if err := d.noteChange(now); err != nil {
		return true, d.leave(ctx, err)
	}
	switch status {
	case "working":
		return false, nil
	case "input_required":
		return d.consult(ctx, at(now, inputRequestsPath))
	case "completed":
		return true, d.completed(ctx, at(now, resultPath))
	case "failed":
		return true, d.failed(at(now, errorPath))
	case "cancelled":
		d.x.Trail.Foreign(int(fault.Internal))
		return true, replyError(d.x, fault.Internal, `the task that upstream "`+d.m.key+`" made of the call was cancelled`, []byte(`{"status":"cancelled"}`))
	}
	return true, d.leave(ctx, fault.New(fault.InvalidAnswer, "upstream %q has a task of the unknown status %q", d.m.key, status).WithHint("tell the upstream's owner"))
}

// noteChange gives a task that has changed its time anew, as progress gives it to a
// call, and tells the client what it says.
func (d *driving) noteChange(now []byte) error {
	var seen []byte
	for _, path := range [...][]string{statusPath, statusMessagePath, updatedPath} {
		seen = append(append(seen, at(now, path)...), 0)
	}
	if !bytes.Equal(seen, d.seen) {
		d.seen, d.late = seen, time.Now().Add(d.calm)
	}
	said, err := wire.String(at(now, statusMessagePath))
	if err != nil || said == d.message {
		return nil //nolint:nilerr // it says nothing
	}
	d.message = said
	m := &d.x.Msg
	if !m.ProgressToken.Ok() {
		return nil
	}
	d.told++
	b := append([]byte(`{"jsonrpc":"2.0","method":"`+mcp.Progress+`","params":{"progressToken":`), m.ProgressToken.Of(m.Raw)...)
	b = strconv.AppendInt(append(b, `,"progress":`...), int64(d.told), 10)
	b = wire.AppendString(append(b, `,"message":`...), said)
	safe, err := wire.LineSafe(nil, append(b, '}', '}'))
	if err != nil {
		return nil //nolint:nilerr // it cannot be framed; the call itself goes on
	}
	_, err = d.x.Event(safe)
	return err
}

// completed answers the call with the result of its task.
func (d *driving) completed(ctx context.Context, result []byte) error {
	if len(result) == 0 || result[0] != '{' {
		return fault.New(fault.InvalidAnswer, "upstream %q completed a task without a result", d.m.key).WithHint("the call ran; tell the upstream's owner")
	}
	var s wire.Answer
	whole := enveloped(`,"result":`, result)
	if err := wire.Scan(whole, &s); err != nil {
		return invalid(d.m, err)
	}
	if !isFinal(&s) {
		return fault.New(fault.InvalidAnswer, "upstream %q completed a task with a result of type %s", d.m.key, s.ResultType.Of(s.Raw)).
			WithHint("the call ran; tell the upstream's owner")
	}
	plan := d.g.plan(d.x, d.v, d.m, d.link)
	return d.g.conclude(ctx, d.x, d.v, d.m, d.t, &s, whole, &plan, false)
}

// failed answers the call with the error of its task.
func (d *driving) failed(failure []byte) error {
	if len(failure) == 0 || failure[0] != '{' {
		failure = []byte(`{"code":-32603,"message":"the task failed"}`)
	}
	var s wire.Answer
	if err := wire.Scan(enveloped(`,"error":`, failure), &s); err != nil {
		return invalid(d.m, err)
	}
	return d.fails(&s)
}

// fails answers the call with an error of the upstream's.
func (d *driving) fails(s *wire.Answer) error {
	plan := d.g.plan(d.x, d.v, d.m, d.link)
	err := misaddressed(d.m, d.g.upstreamError(d.x, d.v, d.m, d.t, d.link, s, s.Raw, &plan))
	if errors.Is(err, errNeedsTask) {
		return fault.Wrap(err, fault.InvalidAnswer, "upstream %q refuses tasks that it made", d.m.key).WithHint("tell the upstream's owner")
	}
	return err
}

// enveloped is a message around a part of another; its id is replaced on its way.
func enveloped(member string, value []byte) []byte {
	b := append(make([]byte, 0, len(value)+64), `{"jsonrpc":"2.0","id":0`...)
	b = append(append(b, member...), value...)
	return append(b, '}')
}

// drivenOutcome is how a call went whose task is driven from here on, for the
// metrics.
func drivenOutcome(err error) (string, bool) {
	var made *drivenError
	if errors.Is(err, errNeedsTask) || errors.As(err, &made) {
		return observe.OK, true
	}
	return "", false
}
