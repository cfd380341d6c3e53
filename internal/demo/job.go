package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// jobState is where a job stands. What comes from jobCompleted on is the end.
type jobState uint8

const (
	jobWorking jobState = iota
	jobInputRequired
	jobCompleted
	jobFailed
	jobCancelled
)

// String is the state as both dialects spell it.
func (s jobState) String() string {
	return [...]string{"working", "input_required", "completed", "failed", "cancelled"}[s]
}

func (s jobState) terminal() bool { return s >= jobCompleted }

const (
	// maxAskings bounds how often one question is put to a client that answers
	// nonsense; after that it counts as declined.
	maxAskings = 3
	// maxJobAnswer bounds one answer that a job remembers, in bytes.
	maxJobAnswer = 8 << 10
)

// work is what a job does: its stages one after the other, and what comes of it.
type work struct {
	stages []stage
	// finish makes the result: a value, or an error that becomes a result with
	// isError, or a *fault.Error that is a JSON-RPC error.
	finish func(answers map[string]jobAnswer) (any, error)
}

// stage is a time of work, told by a message, after which questions may be asked.
type stage struct {
	message string
	lasts   time.Duration
	asks    []jobQuestion
}

// jobQuestion is an elicitation in form mode.
type jobQuestion struct {
	name    string
	message string
	schema  string // requestedSchema, raw JSON
	// check says what is wrong with accepted content, if anything.
	check func(content jsontext.Value) error
}

// jobAnswer is what a client said to a question.
type jobAnswer struct {
	Action  string         `json:"action"`
	Content jsontext.Value `json:"content,omitzero"`
}

func (a jobAnswer) accepted() bool { return a.Action == "accept" }

// asked is a question that waits for its answer, under a key that no other
// question of the job ever has.
type asked struct {
	key      string
	question jobQuestion
	times    int
	// carrier is the stream that put it to a legacy client, nil while none does.
	carrier *feed
}

// job is one piece of work with a state. Whoever looks at it advances it to the
// time of looking, so that it needs no goroutine. It is guarded by jobs.mu.
type job struct {
	id, owner, session, tool string
	seq                      uint64 // place in the order of creation

	state            jobState
	message          string
	created, updated time.Time
	ttl, poll        time.Duration

	work    work
	stage   int       // index of the current one
	next    time.Time // when it has been worked through; zero: it waits for answers
	stopAt  time.Time // when a cancel takes effect; zero: never
	asks    []*asked  // outstanding, in the order of asking
	keys    int       // how many were ever used
	answers map[string]jobAnswer

	result  []byte // of jobCompleted: a CallToolResult, raw JSON
	isError bool   // what result says
	failure *fault.Error

	notify func(*job) // called after each change
}

// jobView is a job at one moment. It is immutable.
type jobView struct {
	id, session, tool string
	seq               uint64
	state             jobState
	message           string
	created, updated  time.Time
	ttl, poll         time.Duration // a ttl below 0 is unlimited
	asks              []asked
	result            []byte
	isError           bool
	failure           *fault.Error
}

func (j *job) view() jobView {
	v := jobView{
		id: j.id, session: j.session, tool: j.tool, seq: j.seq, state: j.state, message: j.message, created: j.created, updated: j.updated,
		ttl: j.ttl, poll: j.poll, result: j.result, isError: j.isError, failure: j.failure,
	}
	for _, a := range j.asks {
		v.asks = append(v.asks, *a)
	}
	return v
}

// begin starts the first stage. It tells nobody: nobody knows of the job yet.
func (j *job) begin(now time.Time) {
	j.created, j.updated = now, now
	if j.answers == nil {
		j.answers = map[string]jobAnswer{}
	}
	if len(j.work.stages) == 0 {
		j.next = now
		return
	}
	j.message = j.work.stages[0].message
	j.next = now.Add(j.work.stages[0].lasts)
}

// advance does what was to be done until now, in order.
func (j *job) advance(now time.Time) {
	for !j.state.terminal() {
		stops := !j.stopAt.IsZero() && !j.stopAt.After(now)
		if j.next.IsZero() || j.next.After(now) || (stops && j.stopAt.Before(j.next)) {
			if stops {
				j.cancel(j.stopAt)
			}
			return
		}
		at := j.next
		if j.stage >= len(j.work.stages) {
			j.end(at)
			return
		}
		asks := j.work.stages[j.stage].asks
		if j.stage++; len(asks) == 0 {
			j.resume(at)
			continue
		}
		j.next = time.Time{}
		for _, q := range asks {
			j.ask(q, 1)
		}
		j.changed(at, jobInputRequired, "waiting for an answer")
	}
}

// due is when advance will next have something to do; zero: not before somebody
// answers or cancels.
func (j *job) due() time.Time {
	if j.state.terminal() {
		return time.Time{}
	}
	if j.next.IsZero() || (!j.stopAt.IsZero() && j.stopAt.Before(j.next)) {
		return j.stopAt
	}
	return j.next
}

// resume works on with the current stage, or ends the job.
func (j *job) resume(at time.Time) {
	if j.stage >= len(j.work.stages) {
		j.end(at)
		return
	}
	j.next = at.Add(j.work.stages[j.stage].lasts)
	j.changed(at, jobWorking, j.work.stages[j.stage].message)
}

func (j *job) ask(q jobQuestion, times int) {
	j.keys++
	j.asks = append(j.asks, &asked{key: fmt.Sprintf("%s-%d", q.name, j.keys), question: q, times: times})
}

// answer takes the answers to what is outstanding and passes over all others. An
// answer of no use has its question asked again, under another key.
func (j *job) answer(now time.Time, answers map[string]jobAnswer) {
	j.advance(now)
	if j.state != jobInputRequired {
		return
	}
	open, taken := j.asks, false
	j.asks = nil
	for _, a := range open {
		got, ok := answers[a.key]
		if !ok {
			j.asks = append(j.asks, a)
			continue
		}
		taken = true
		if !a.question.fits(got) {
			if a.times < maxAskings {
				j.ask(a.question, a.times+1)
				continue
			}
			got = jobAnswer{Action: "decline"}
		}
		j.answers[a.question.name] = got
	}
	switch {
	case !taken:
	case len(j.asks) == 0:
		j.resume(now)
	default:
		j.changed(now, jobInputRequired, j.message)
	}
}

// end makes the result.
func (j *job) end(at time.Time) {
	result, isError, failure := finished(j.work, j.answers)
	if failure != nil {
		j.failure = failure
		j.changed(at, jobFailed, failure.Message)
		return
	}
	j.result, j.isError = result, isError
	message := "done"
	if isError {
		message = "done, and it did not work out"
	}
	j.changed(at, jobCompleted, message)
}

// cancel ends the job without a result.
func (j *job) cancel(at time.Time) {
	j.changed(at, jobCancelled, "cancelled by request")
}

func (j *job) changed(at time.Time, to jobState, message string) {
	j.state, j.message = to, message
	if at.After(j.updated) {
		j.updated = at
	}
	if to.terminal() {
		j.asks, j.answers, j.work, j.next, j.stopAt = nil, nil, work{}, time.Time{}, time.Time{}
	}
	if j.notify != nil {
		j.notify(j)
	}
}

func (j *job) expired(now time.Time) bool { return j.ttl > 0 && !now.Before(j.created.Add(j.ttl)) }

// finished is the result of work as a CallToolResult.
func finished(w work, answers map[string]jobAnswer) (result []byte, isError bool, failure *fault.Error) {
	value, err := w.finish(answers)
	out := toolResult{}
	switch e := err.(type) { //nolint:errorlint // a tool that means a JSON-RPC error returns just that
	case nil:
		if s, plain := value.(string); plain {
			out.Content = text(s)
			break
		}
		if out.Structured, failure = marshal(value); failure != nil {
			return nil, false, failure
		}
		out.Content = text(string(out.Structured))
	case *fault.Error:
		return nil, false, e
	default:
		out.Content, out.IsError = text(err.Error()), true
	}
	result, failure = marshal(out)
	return result, out.IsError, failure
}

// total is how long work takes when nobody has to be waited for.
func (w work) total() time.Duration {
	var sum time.Duration
	for _, s := range w.stages {
		sum += s.lasts
	}
	return sum
}

// asking reports whether work asks anything.
func (w work) asking() bool {
	return slices.ContainsFunc(w.stages, func(s stage) bool { return len(s.asks) > 0 })
}

// withPace is work each of whose stages takes that long; 0 leaves it alone.
func (w work) withPace(pace time.Duration) work {
	if pace <= 0 {
		return w
	}
	w.stages = slices.Clone(w.stages)
	for i := range w.stages {
		w.stages[i].lasts = pace
	}
	return w
}

// params are those of the elicitation; meta is a raw object to send as _meta, or empty.
func (q jobQuestion) params(meta string) jsontext.Value {
	quoted, failure := marshal(q.message)
	if failure != nil {
		quoted = []byte(`""`)
	}
	out := fmt.Appendf(nil, `{"mode":"form","message":%s,"requestedSchema":%s`, quoted, q.schema)
	if meta != "" {
		out = append(append(out, `,"_meta":`...), meta...)
	}
	return append(out, '}')
}

// readAnswers reads answers by key. What is no answer to an elicitation becomes
// the zero one, which is of no use to any question; ok says that there is none.
func readAnswers(raw map[string]jsontext.Value) (answers map[string]jobAnswer, ok bool) {
	answers, ok = make(map[string]jobAnswer, len(raw)), true
	for key, value := range raw {
		a := readAnswer(value)
		answers[key], ok = a, ok && a.Action != ""
	}
	return answers, ok
}

func readAnswer(raw jsontext.Value) jobAnswer {
	var a jobAnswer
	if len(raw) > maxJobAnswer || json.Unmarshal(raw, &a) != nil {
		return jobAnswer{}
	}
	switch a.Action {
	case "accept", "decline", "cancel":
		a.Content = a.Content.Clone()
		return a
	}
	return jobAnswer{}
}

// fits reports whether an answer is one to this question.
func (q jobQuestion) fits(a jobAnswer) bool {
	return a.Action != "" && (!a.accepted() || q.check(a.Content) == nil)
}
