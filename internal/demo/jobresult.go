package demo

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// result serves tasks/result: what the call would have returned, once there is
// that. Until then the client's stream carries what the task asks; a client that
// takes no stream is not asked.
func (l *legacyJobs) result(ctx context.Context, w http.ResponseWriter, r *http.Request, s *session, msg *message, owner string) {
	var p struct {
		TaskID string `json:"taskId"`
	}
	failure := decodeParams(msg.Params, &p)
	var v jobView
	if failure == nil {
		v, failure = l.jobs.look(owner, p.TaskID)
	}
	if failure != nil || v.state.terminal() {
		write(w, r, http.StatusOK, l.final(msg, &v, failure), true)
		return
	}
	f, end := l.jobs.listen(func(j *job) bool { return j.id == p.TaskID })
	defer end()
	var stream *eventStream
	if streams(r) {
		stream = startStream(w)
	}
	for {
		var questions []asked
		if stream != nil && s.visit.caps.CanBeAsked(mcp.CreateElicitation, "") {
			v, questions, failure = l.jobs.carry(f, owner, p.TaskID)
		} else {
			v, failure = l.jobs.look(owner, p.TaskID)
		}
		if failure != nil || v.state.terminal() {
			break
		}
		for i := range questions {
			id := s.visit.ask(waitingFor{p.TaskID, questions[i].key})
			stream.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}`, id, mcp.CreateElicitation, questions[i].question.params(relatedTask(v.id))))
		}
		happened, ok := l.jobs.await(ctx, f)
		if !ok {
			return // the client may ask again
		}
		if len(happened) == 0 && stream != nil {
			stream.alive()
		}
	}
	if stream == nil {
		write(w, r, http.StatusOK, l.final(msg, &v, failure), true)
		return
	}
	stream.send(l.final(msg, &v, failure))
}

// relatedTask is the _meta that ties a message to a task.
func relatedTask(id string) string {
	quoted, failure := marshal(id)
	if failure != nil {
		quoted = []byte(`""`)
	}
	return fmt.Sprintf(`{"%s":{"taskId":%s}}`, metaRelatedTask, quoted)
}

// final is the response of a job that has ended, or of one that failed to be found.
func (l *legacyJobs) final(msg *message, v *jobView, failure *fault.Error) []byte {
	switch {
	case failure != nil:
	case v.state == jobFailed:
		failure = v.failure
	case v.state == jobCancelled:
		failure = fault.New(fault.Internal, "the task was cancelled")
	default:
		return response(msg.ID, append(jsontext.Value(`{"_meta":`+relatedTask(v.id)+`,`), v.result[1:]...), nil)
	}
	return response(msg.ID, nil, failure)
}

// get serves the one GET stream of a session: how its tasks change, if the
// server tells.
func (l *legacyJobs) get(w http.ResponseWriter, r *http.Request, s *session) {
	if !streams(r) {
		http.Error(w, "accept text/event-stream", http.StatusNotAcceptable)
		return
	}
	ctx, end, ok := s.visit.begin(r.Context(), getStream)
	if !ok {
		http.Error(w, "this session has its stream", http.StatusConflict)
		return
	}
	defer end()
	f, unlisten := l.jobs.listen(func(j *job) bool { return l.options.Notify && j.session == s.id })
	defer unlisten()
	stream := startStream(w)
	for {
		happened, ok := l.jobs.await(ctx, f)
		if !ok {
			return
		}
		if len(happened) == 0 {
			stream.alive()
		}
		for i := range happened {
			params, failure := marshal(happened[i].legacy())
			if failure != nil {
				return // nothing that this server makes
			}
			stream.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":%s}`, params))
		}
	}
}
