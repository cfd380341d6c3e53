package demo

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// metaRelatedTask names the task that a message belongs to (2025-11-25).
const metaRelatedTask = "io.modelcontextprotocol/related-task"

// jobPage is how many tasks one page of tasks/list holds.
const jobPage = 20

// legacyJobs serves jobs under 2025-11-25 with sessions (checklist 8).
type legacyJobs struct {
	*JobServer
	legacy *legacy // keeps the sessions
}

// ServeHTTP answers one request of a session.
func (l *legacyJobs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		l.post(w, r)
	case http.MethodGet, http.MethodDelete:
		if !l.arrived(r, nil, nil) {
			return
		}
		s, ok := l.legacy.session(w, r)
		switch {
		case !ok:
		case r.Method == http.MethodGet:
			l.get(w, r, s)
		default:
			l.legacy.sessions.end(s.id)
			s.visit.end()
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "no such method", http.StatusMethodNotAllowed)
	}
}

func (l *legacyJobs) post(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	msg, failure := parseMessage(body)
	if !l.arrived(r, msg, body) {
		return
	}
	if failure != nil {
		write(w, r, http.StatusBadRequest, response(nil, nil, failure), false)
		return
	}
	if msg.Method == mcp.Initialize && msg.ID != nil {
		l.initialize(w, r, msg)
		return
	}
	s, ok := l.legacy.session(w, r)
	if !ok {
		return
	}
	switch {
	case msg.ID == nil:
		if msg.Method == mcp.Cancelled {
			var p struct {
				ID jsontext.Value `json:"requestId"`
			}
			if decodeParams(msg.Params, &p) == nil {
				s.visit.cancel(string(p.ID))
			}
		}
		w.WriteHeader(http.StatusAccepted)
	case msg.Method == "":
		l.answered(r, s, msg, body)
		w.WriteHeader(http.StatusAccepted)
	default:
		l.request(w, r, s, msg)
	}
}

// initialize opens a session of 2025-11-25, whatever the client asks for: older
// revisions know no tasks.
func (l *legacyJobs) initialize(w http.ResponseWriter, r *http.Request, msg *message) {
	var p struct {
		Version      string         `json:"protocolVersion"`
		Capabilities jsontext.Value `json:"capabilities"`
	}
	failure := decodeParams(msg.Params, &p)
	if failure == nil && p.Version == "" {
		failure = fault.New(fault.InvalidParams, "initialize needs a protocolVersion")
	}
	caps, err := mcp.ParseClientCaps(p.Capabilities.Clone())
	if failure == nil && err != nil {
		failure = fault.Wrap(err, fault.InvalidParams, "the client capabilities are malformed")
	}
	if failure != nil {
		write(w, r, http.StatusOK, response(msg.ID, nil, failure), true)
		return
	}
	s := l.legacy.sessions.open(mcp.V20251125)
	s.visit = newVisit(caps)
	w.Header().Set(mcp.HeaderSession, s.id)
	write(w, r, http.StatusOK, response(msg.ID, fmt.Appendf(nil,
		`{"protocolVersion":"%s","capabilities":{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":%s,"instructions":"%s"}`,
		mcp.V20251125, jobInfo, jobInstructions), nil), true)
}

// answered takes a client's response to a question. What answers nothing is
// passed over, and an error means that the user was not asked.
func (l *legacyJobs) answered(r *http.Request, s *session, msg *message, body []byte) {
	var p struct {
		Result jsontext.Value `json:"result"`
	}
	id, err := strconv.ParseInt(string(msg.ID), 10, 64)
	if err != nil || json.Unmarshal(body, &p) != nil {
		return
	}
	q, ok := s.visit.answered(id)
	if !ok {
		return
	}
	a := jobAnswer{Action: "cancel"}
	if p.Result != nil {
		a = readAnswer(p.Result)
	}
	// A task that is gone by now has no use for the answer.
	_ = l.jobs.answer(ownerOf(r.Header.Get("Authorization")), q.job, map[string]jobAnswer{q.key: a})
}

// request answers one request of a session.
func (l *legacyJobs) request(w http.ResponseWriter, r *http.Request, s *session, msg *message) {
	ctx, end, ok := s.visit.begin(r.Context(), string(msg.ID))
	if !ok {
		write(w, r, http.StatusOK, response(msg.ID, nil, fault.New(fault.InvalidRequest, "a request of this id is in flight")), true)
		return
	}
	defer end()
	owner := ownerOf(r.Header.Get("Authorization"))
	if msg.Method == tasksResult {
		l.result(ctx, w, r, s, msg, owner)
		return
	}
	result, failure := l.answer(ctx, s, msg, owner)
	if ctx.Err() != nil {
		return // cancelled, and nobody waits for an answer
	}
	write(w, r, http.StatusOK, response(msg.ID, result, failure), true)
}

func (l *legacyJobs) answer(ctx context.Context, s *session, msg *message, owner string) ([]byte, *fault.Error) {
	switch msg.Method {
	case mcp.Ping:
		return []byte(`{}`), nil
	case mcp.ToolsList:
		return list(msg.Params, "tools", l.tools, func(t jobTool) string {
			return strings.TrimSuffix(t.def, "}") + `,"execution":{"taskSupport":"` + string(t.support) + `"}}`
		})
	case mcp.ToolsCall:
		return l.call(ctx, s, msg, owner)
	case tasksList:
		return l.list(msg, owner)
	case tasksGet, tasksCancel:
		var p struct {
			TaskID string `json:"taskId"`
		}
		failure := decodeParams(msg.Params, &p)
		if failure != nil {
			return nil, failure
		}
		look := l.jobs.look
		if msg.Method == tasksCancel {
			look = l.jobs.kill
		}
		v, failure := look(owner, p.TaskID)
		if failure != nil {
			return nil, failure
		}
		return marshal(v.legacy())
	}
	return nil, fault.New(fault.MethodNotFound, "unknown method %q", msg.Method)
}

// call makes a task of a call where the client says so and the tool lets it.
func (l *legacyJobs) call(ctx context.Context, s *session, msg *message, owner string) ([]byte, *fault.Error) {
	var p toolCall
	if failure := decodeParams(msg.Params, &p); failure != nil {
		return nil, failure
	}
	t := l.tool(p.Name)
	if t == nil {
		return nil, fault.New(fault.InvalidParams, "unknown tool %q", p.Name).WithHint("see tools/list")
	}
	if p.Arguments == nil {
		p.Arguments = jsontext.Value("{}")
	}
	asTask := p.Task != nil && p.Task.Kind() != 'n'
	switch {
	case asTask && t.support == taskForbidden:
		return nil, fault.New(fault.MethodNotFound, "%s cannot be called as a task", t.name)
	case !asTask && t.support == taskRequired:
		return nil, fault.New(fault.MethodNotFound, "%s can be called as a task only", t.name)
	}
	w, err := t.plan(func() []jobView { return l.jobs.list(owner) }, p.Arguments)
	if err != nil {
		if asTask {
			return nil, fault.Wrap(err, fault.InvalidParams, "%s", err)
		}
		return marshal(toolResult{Content: text(err.Error()), IsError: true})
	}
	if len(t.first) > 0 {
		w.stages = append([]stage{{message: "asking first", asks: t.first}}, w.stages...)
	}
	w = w.withPace(l.options.Pace)
	if !asTask {
		return l.jobs.run(ctx, w)
	}
	if w.asking() && !s.visit.caps.CanBeAsked(mcp.CreateElicitation, "") {
		w = work{finish: func(map[string]jobAnswer) (any, error) {
			return nil, fmt.Errorf("%s has to ask, and this client cannot be asked", t.name)
		}}
	}
	ttl, failure := l.ttl(p.Task)
	if failure != nil {
		return nil, failure
	}
	v, failure := l.jobs.create(&job{owner: owner, session: s.id, tool: t.name, work: w, ttl: ttl})
	if failure != nil {
		return nil, failure
	}
	return marshal(struct {
		Task legacyTask `json:"task"`
	}{v.legacy()})
}

// ttl is how long a task is kept whose client asks for that: no longer than the
// server likes, and 0 for as long as that.
func (l *legacyJobs) ttl(task jsontext.Value) (time.Duration, *fault.Error) {
	var p struct {
		TTL *float64 `json:"ttl"`
	}
	if failure := decodeParams(task, &p); failure != nil {
		return 0, failure
	}
	if p.TTL == nil {
		return 0, nil
	}
	if *p.TTL < 1 {
		return 0, fault.New(fault.InvalidParams, "a ttl is a number of milliseconds")
	}
	most := l.options.TTL
	if most < 0 {
		most = 365 * 24 * time.Hour
	}
	return time.Duration(min(*p.TTL, float64(most.Milliseconds()))) * time.Millisecond, nil
}

// list answers tasks/list with a page of the owner's tasks, oldest first.
func (l *legacyJobs) list(msg *message, owner string) ([]byte, *fault.Error) {
	var p struct {
		Cursor *string `json:"cursor"`
	}
	if failure := decodeParams(msg.Params, &p); failure != nil {
		return nil, failure
	}
	after := uint64(0)
	if p.Cursor != nil {
		raw, err := base64.RawURLEncoding.DecodeString(*p.Cursor)
		if err == nil {
			after, err = strconv.ParseUint(string(raw), 10, 64)
		}
		if err != nil {
			return nil, fault.Wrap(err, fault.InvalidParams, "unknown cursor")
		}
	}
	out := struct {
		Tasks []legacyTask `json:"tasks"`
		Next  string       `json:"nextCursor,omitzero"`
	}{Tasks: []legacyTask{}}
	var last uint64
	for _, v := range l.jobs.list(owner) {
		if v.seq <= after {
			continue
		}
		if len(out.Tasks) == jobPage {
			out.Next = base64.RawURLEncoding.EncodeToString(strconv.AppendUint(nil, last, 10))
			break
		}
		out.Tasks, last = append(out.Tasks, v.legacy()), v.seq
	}
	return marshal(out)
}

// legacyTask is the Task of 2025-11-25.
type legacyTask struct {
	TaskID  string `json:"taskId"`
	Status  string `json:"status"`
	Message string `json:"statusMessage,omitzero"`
	Created string `json:"createdAt"`
	Updated string `json:"lastUpdatedAt"`
	TTL     *int64 `json:"ttl"`
	Poll    int64  `json:"pollInterval"`
}

// legacy is the job as a Task. A tool that says isError has failed.
func (v *jobView) legacy() legacyTask {
	status := v.state.String()
	if v.isError {
		status = jobFailed.String()
	}
	return legacyTask{v.id, status, v.message, jobTime(v.created), jobTime(v.updated), v.ttlMillis(), v.poll.Milliseconds()}
}
