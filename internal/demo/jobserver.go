package demo

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Defaults of JobOptions.
const (
	defaultJobTTL   = time.Hour
	defaultJobPoll  = time.Second
	defaultJobGrace = 250 * time.Millisecond
	defaultMaxTasks = 1000
)

// JobOptions says how a job server behaves. The zero value is good for people.
type JobOptions struct {
	// Now is the clock that jobs go by; nil: time.Now. Who sets it calls Poke
	// after it has jumped, for open streams sleep by the clock of the machine.
	Now func() time.Time
	// IDs makes the ids of tasks; nil: unguessable ones. An id that is taken fails the call.
	IDs func() string
	// TTL is how long a task is kept from its creation, and the most that a legacy
	// client gets; 0: an hour; negative: for ever.
	TTL time.Duration
	// Poll is the interval that clients are told to ask in; 0: a second.
	Poll time.Duration
	// Latency is how long every message waits before it is looked at.
	Latency time.Duration
	// Pace is how long each stage of every job lasts, instead of what its tool says; 0: what it says.
	Pace time.Duration
	// Grace is how long the extension's tasks/cancel takes to have its effect,
	// while the job may still end otherwise; 0: a quarter of a second.
	Grace time.Duration
	// MaxTasks bounds the tasks that are kept; the oldest that has ended makes
	// room, and where none has the call fails. 0: 1000.
	MaxTasks int
	// Notify sends notifications/tasks to whoever listens for a task, or
	// notifications/tasks/status on the GET stream of the session that made it.
	// Without it a listener is acknowledged no task and a GET stream is silent.
	Notify bool
	// Conformance adds the tools that the official scenarios call.
	Conformance bool
	// Log is called for every message that arrives, before it is answered, one
	// call at a time. For tests: it is shown credentials.
	Log func(JobCall)
}

// JobCall is one message as it arrived at a job server.
type JobCall struct {
	HTTPMethod    string // POST; GET and DELETE of a session have no message
	Method        string // "" for a client's response
	Name          string // the header Mcp-Name, as it was sent
	Session       string // the header Mcp-Session-Id
	Authorization string // the header
	Header        http.Header
	Body          []byte // the whole message, raw JSON
}

// JobServer is an MCP server whose tools take a while: its calls become tasks
// that are asked about, answered and cancelled. It starts no goroutines: whoever
// looks at a task advances it by the clock. It is safe for concurrent use.
//
// A task belongs to the Authorization header that it was made with; requests
// without the header share theirs. Nobody else can see it.
type JobServer struct {
	options JobOptions
	jobs    *jobs
	tools   []jobTool
	serve   func(http.ResponseWriter, *http.Request)
	seal    []byte // signs requestState

	logging sync.Mutex // held while Log runs
}

// Jobs returns a job server that speaks 2026-07-28 with the extension
// io.modelcontextprotocol/tasks: the server decides which calls become tasks, of
// clients that declare the extension on the request.
func Jobs(o JobOptions) *JobServer {
	s := newJobServer(o)
	s.serve = (&modernJobs{s, &modern{&offer{info: jobInfo, instructions: jobInstructions}}}).ServeHTTP
	return s
}

// LegacyJobs returns a job server that speaks 2025-11-25 with sessions and its
// experimental tasks: the client decides, within what a tool's
// execution.taskSupport allows.
func LegacyJobs(o JobOptions) *JobServer {
	s := newJobServer(o)
	s.serve = (&legacyJobs{s, &legacy{}}).ServeHTTP
	return s
}

const (
	jobInfo         = `{"name":"jobs","title":"Job Shop","version":"1.0.0","description":"Work that takes a while."}`
	jobInstructions = "These tools take a while. Ask about a task no more often than it says, and answer what it asks."
)

func newJobServer(o JobOptions) *JobServer {
	if o.TTL == 0 {
		o.TTL = defaultJobTTL
	}
	if o.Poll == 0 {
		o.Poll = defaultJobPoll
	}
	if o.Grace == 0 {
		o.Grace = defaultJobGrace
	}
	if o.MaxTasks == 0 {
		o.MaxTasks = defaultMaxTasks
	}
	s := &JobServer{options: o, jobs: newJobs(o), tools: jobTools(), seal: []byte(rand.Text())}
	if o.Conformance {
		s.tools = append(s.tools, fixtureTools()...)
	}
	return s
}

// ServeHTTP answers one request in the server's dialect.
func (s *JobServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.jobs.closing:
		http.Error(w, "this server is closed", http.StatusServiceUnavailable)
	default:
		s.serve(w, r)
	}
}

// Poke makes every open stream and every waiting call look at the clock again.
func (s *JobServer) Poke() { s.jobs.poke() }

// Close ends every open stream and every waiting call; what comes later is
// refused. It may be called more than once.
func (s *JobServer) Close() { s.jobs.close() }

// arrived logs a message and lets the latency pass. It reports false when the
// caller has gone.
func (s *JobServer) arrived(r *http.Request, msg *message, body []byte) bool {
	if s.options.Log != nil {
		c := JobCall{
			HTTPMethod: r.Method, Name: r.Header.Get(mcp.HeaderName), Session: r.Header.Get(mcp.HeaderSession),
			Authorization: r.Header.Get("Authorization"), Header: r.Header.Clone(), Body: body,
		}
		if msg != nil {
			c.Method = msg.Method
		}
		s.logging.Lock()
		s.options.Log(c)
		s.logging.Unlock()
	}
	if s.options.Latency <= 0 {
		return true
	}
	timer := time.NewTimer(s.options.Latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-s.jobs.closing:
	}
	return false
}

// tool returns the tool of that name, or nil.
func (s *JobServer) tool(name string) *jobTool {
	for i := range s.tools {
		if s.tools[i].name == name {
			return &s.tools[i]
		}
	}
	return nil
}

// toolCall is what a tools/call has.
type toolCall struct {
	Name      string                    `json:"name"`
	Arguments jsontext.Value            `json:"arguments"`
	Task      jsontext.Value            `json:"task"` // 2025-11-25 alone
	Answers   map[string]jsontext.Value `json:"inputResponses"`
	State     *string                   `json:"requestState"`
}
