package demo

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Methods of both dialects of tasks.
const (
	tasksGet    = "tasks/get"
	tasksUpdate = "tasks/update"
	tasksCancel = "tasks/cancel"
	tasksResult = "tasks/result"
	tasksList   = "tasks/list"
)

// maxSynchronous is how long a call that may not become a task may take.
const maxSynchronous = 10 * time.Second

// modernJobs serves jobs under 2026-07-28 (checklist 1.7).
type modernJobs struct {
	*JobServer
	modern *modern // finishes results
}

// ServeHTTP answers one POST in the order of checklist T1 and 8.4.
func (m *modernJobs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "this server has no sessions and no streams to get", http.StatusMethodNotAllowed)
		return
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	msg, failure := parseMessage(body)
	if !m.arrived(r, msg, body) {
		return
	}
	if failure != nil {
		write(w, r, http.StatusBadRequest, response(nil, nil, failure), false)
		return
	}
	if msg.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	caps, failure := m.admit(r, msg)
	var result []byte
	if failure == nil {
		if msg.Method == mcp.Listen {
			failure = m.listen(w, r, msg, caps)
			if failure == nil {
				return
			}
		} else {
			result, failure = m.answer(r, msg, caps)
		}
	}
	if failure == nil {
		write(w, r, http.StatusOK, response(msg.ID, result, nil), false)
		return
	}
	status := http.StatusOK
	if e, known := fault.Lookup(failure.Code); known {
		status = e.HTTP
	}
	if errors.Is(failure, errIncompleteMeta) {
		status = http.StatusBadRequest
	}
	write(w, r, status, response(msg.ID, nil, failure), false)
}

// admit checks everything about a request that is not about its parameters, and
// returns what its client can do.
func (m *modernJobs) admit(r *http.Request, msg *message) (caps mcp.ClientCaps, failure *fault.Error) {
	if msg.Method == "" {
		return caps, fault.New(fault.InvalidRequest, "a client posts requests and notifications only")
	}
	if failure := checkMeta(r, msg); failure != nil {
		return caps, failure
	}
	named := &mcp.Method{}
	switch msg.Method {
	case mcp.Discover, mcp.ToolsList, mcp.Listen, tasksGet, tasksUpdate, tasksCancel:
	case mcp.ToolsCall:
		named.Header = mcp.FromName
	default:
		return caps, fault.New(fault.MethodNotFound, "unknown method %q", msg.Method)
	}
	if failure := checkNames(r, msg, named); failure != nil {
		return caps, failure
	}
	var p struct {
		TaskID string `json:"taskId"`
		Meta   struct {
			Capabilities jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
	if failure := decodeParams(msg.Params, &p); failure != nil {
		return caps, failure
	}
	caps, err := mcp.ParseClientCaps(p.Meta.Capabilities)
	if err != nil {
		return caps, fault.Wrap(errIncompleteMeta, fault.InvalidParams, "the client capabilities are malformed")
	}
	switch msg.Method {
	case tasksGet, tasksUpdate, tasksCancel:
		v := r.Header.Values(mcp.HeaderName)
		if len(v) != 1 {
			return caps, fault.New(fault.HeaderMismatch, "one Mcp-Name header must hold the taskId")
		}
		if got, err := mcp.DecodeHeader(v[0]); err != nil || got != p.TaskID {
			return caps, fault.New(fault.HeaderMismatch, "the header Mcp-Name differs from params.taskId")
		}
		if !caps.HasExtension(mcp.ExtensionTasks) {
			return caps, missing(true, false)
		}
	}
	return caps, nil
}

// missing is the refusal of a request whose client does not declare what it needs.
func missing(tasks, elicitation bool) *fault.Error {
	data := `{"requiredCapabilities":{`
	if elicitation {
		data += `"elicitation":{"form":{}}`
	}
	if tasks && elicitation {
		data += `,`
	}
	if tasks {
		data += `"extensions":{"` + mcp.ExtensionTasks + `":{}}`
	}
	return fault.New(fault.MissingCapability, "Missing required client capability").WithData([]byte(data + `}}`))
}

func (m *modernJobs) answer(r *http.Request, msg *message, caps mcp.ClientCaps) ([]byte, *fault.Error) {
	owner := ownerOf(r.Header.Get("Authorization"))
	var p struct {
		TaskID  string                    `json:"taskId"`
		Answers map[string]jsontext.Value `json:"inputResponses"`
	}
	switch msg.Method {
	case mcp.Discover:
		out := fmt.Appendf(nil, `{"supportedVersions":["%s"],"capabilities":{"tools":{},"extensions":{"%s":{}}},"instructions":"%s"}`,
			mcp.LatestModern, mcp.ExtensionTasks, jobInstructions)
		return m.modern.complete(msg.Method, out), nil
	case mcp.ToolsList:
		out, failure := list(msg.Params, "tools", m.tools, func(t jobTool) string { return t.def })
		return m.whole(msg.Method, out, failure)
	case mcp.ToolsCall:
		return m.call(r, msg, caps, owner)
	}
	if failure := decodeParams(msg.Params, &p); failure != nil {
		return nil, failure
	}
	switch msg.Method {
	case tasksUpdate:
		if p.Answers == nil {
			return nil, fault.New(fault.InvalidParams, "tasks/update needs inputResponses")
		}
		answers, _ := readAnswers(p.Answers) // of no use: asked again
		return m.whole(msg.Method, []byte(`{}`), m.jobs.answer(owner, p.TaskID, answers))
	case tasksCancel:
		return m.whole(msg.Method, []byte(`{}`), m.jobs.cancel(owner, p.TaskID))
	}
	v, failure := m.jobs.look(owner, p.TaskID)
	if failure != nil {
		return nil, failure
	}
	out, failure := marshal(v.detailed(""))
	return m.whole(msg.Method, out, failure)
}

// whole is a complete result, unless there is a failure.
func (m *modernJobs) whole(method string, result []byte, failure *fault.Error) ([]byte, *fault.Error) {
	if failure != nil {
		return nil, failure
	}
	return m.modern.complete(method, result), nil
}

// call makes a task of a call whose client can have one, and runs it while the
// client waits where that is short.
func (m *modernJobs) call(r *http.Request, msg *message, caps mcp.ClientCaps, owner string) ([]byte, *fault.Error) {
	var p toolCall
	if failure := decodeParams(msg.Params, &p); failure != nil {
		return nil, failure
	}
	t := m.tool(p.Name)
	if t == nil {
		return nil, fault.New(fault.InvalidParams, "unknown tool %q", p.Name).WithHint("see tools/list")
	}
	if p.Arguments == nil {
		p.Arguments = jsontext.Value("{}")
	}
	w, err := t.plan(func() []jobView { return m.jobs.list(owner) }, p.Arguments)
	if err != nil {
		out, failure := marshal(toolResult{Content: text(err.Error()), IsError: true})
		return m.whole(msg.Method, out, failure)
	}
	w = w.withPace(m.options.Pace)
	declared := caps.HasExtension(mcp.ExtensionTasks)
	needsTask := !declared && (t.support == taskRequired || w.total() > maxSynchronous)
	needsAnswers := (len(t.first) > 0 || w.asking()) && !caps.CanBeAsked(mcp.CreateElicitation, "")
	if needsTask || needsAnswers {
		return nil, missing(needsTask, needsAnswers)
	}
	answers, ask, failure := m.round(t, owner, &p)
	if failure != nil || ask != nil {
		return ask, failure
	}
	if !declared || t.support == taskForbidden {
		out, failure := m.jobs.run(r.Context(), w)
		return m.whole(msg.Method, out, failure)
	}
	v, failure := m.jobs.create(&job{owner: owner, tool: t.name, work: w, answers: answers})
	if failure != nil {
		return nil, failure
	}
	return marshal(struct {
		ResultType string `json:"resultType"`
		modernTask
		Meta jsontext.Value `json:"_meta"`
	}{"task", v.modern(), jsontext.Value(`{"` + mcp.MetaServerInfo + `":` + jobInfo + `}`)})
}

// round asks what has to be known before there is a task, statelessly: ask is
// the result that does. answers are there once all are in.
func (m *modernJobs) round(t *jobTool, owner string, p *toolCall) (answers map[string]jobAnswer, ask []byte, failure *fault.Error) {
	if len(t.first) == 0 {
		return nil, nil, nil
	}
	state := m.state(t.name, owner)
	got, ok := map[string]jobAnswer{}, true
	if p.Answers != nil {
		if p.State == nil || !hmac.Equal([]byte(*p.State), []byte(state)) {
			return nil, nil, fault.New(fault.InvalidParams, "requestState is not the one that was given")
		}
		if got, ok = readAnswers(p.Answers); !ok {
			return nil, nil, fault.New(fault.InvalidParams, "inputResponses are malformed")
		}
	}
	answers = map[string]jobAnswer{}
	requests := map[string]inputRequest{}
	for _, q := range t.first {
		a, ok := got[q.name]
		if !ok || !q.fits(a) {
			requests[q.name] = inputRequest{mcp.CreateElicitation, q.params("")}
			continue
		}
		answers[q.name] = a
	}
	if len(requests) == 0 {
		return answers, nil, nil
	}
	ask, failure = marshal(struct {
		ResultType string                  `json:"resultType"`
		Requests   map[string]inputRequest `json:"inputRequests"`
		State      string                  `json:"requestState"`
		Meta       jsontext.Value          `json:"_meta"`
	}{"input_required", requests, state, jsontext.Value(`{"` + mcp.MetaServerInfo + `":` + jobInfo + `}`)})
	return nil, ask, failure
}

// state is the requestState for a tool and an owner, which nobody can make up.
func (m *modernJobs) state(tool, owner string) string {
	sum := hmac.New(sha256.New, m.seal)
	_, _ = fmt.Fprintf(sum, "%s\n%s", tool, owner)
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// modernTask is the extension's Task.
type modernTask struct {
	TaskID  string `json:"taskId"`
	Status  string `json:"status"`
	Message string `json:"statusMessage,omitzero"`
	Created string `json:"createdAt"`
	Updated string `json:"lastUpdatedAt"`
	TTL     *int64 `json:"ttlMs"`
	Poll    int64  `json:"pollIntervalMs"`
}

// inputRequest is a request of the server within a result.
type inputRequest struct {
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

// detailedTask is a Task with what its status has.
type detailedTask struct {
	Meta jsontext.Value `json:"_meta,omitzero"`
	modernTask
	Requests map[string]inputRequest `json:"inputRequests,omitzero"`
	Result   jsontext.Value          `json:"result,omitzero"`
	Error    jsontext.Value          `json:"error,omitzero"`
}

func (v *jobView) modern() modernTask {
	return modernTask{v.id, v.state.String(), v.message, jobTime(v.created), jobTime(v.updated), v.ttlMillis(), v.poll.Milliseconds()}
}

// ttlMillis is null for a job that never expires.
func (v *jobView) ttlMillis() *int64 {
	if v.ttl <= 0 {
		return nil
	}
	ms := v.ttl.Milliseconds()
	return &ms
}

// detailed is the DetailedTask. The result within is a whole CallToolResult, with
// its resultType, which one official client insists on.
func (v *jobView) detailed(meta string) detailedTask {
	out := detailedTask{modernTask: v.modern()}
	if meta != "" {
		out.Meta = jsontext.Value(meta)
	}
	switch v.state {
	case jobInputRequired:
		out.Requests = map[string]inputRequest{}
		for _, a := range v.asks {
			out.Requests[a.key] = inputRequest{mcp.CreateElicitation, a.question.params("")}
		}
	case jobCompleted:
		out.Result = append(jsontext.Value(`{"resultType":"complete",`), v.result[1:]...)
	case jobFailed:
		out.Error = rpcError(v.failure)
	}
	return out
}

// rpcError is a failure as a JSON-RPC error object.
func rpcError(failure *fault.Error) jsontext.Value {
	out, bad := marshal(struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data,omitzero"`
	}{int(failure.Code), failure.Public(), failure.Data})
	if bad != nil {
		return jsontext.Value(`{"code":-32603,"message":"internal error"}`)
	}
	return out
}
