package demo

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxListened bounds the task ids of one listener.
const maxListened = 1000

// eventStream writes server-sent events to one client.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// startStream begins a stream. Without a message the headers go out at once.
func startStream(w http.ResponseWriter) *eventStream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w, http.NewResponseController(w)}
	s.flush()
	return s
}

// send writes one message. A client that has gone is noticed by its context.
func (s *eventStream) send(body []byte) {
	_, _ = fmt.Fprintf(s.w, "event: message\ndata: %s\n\n", bytes.ReplaceAll(body, []byte("\n"), nil))
	s.flush()
}

// alive shows that the stream is.
func (s *eventStream) alive() {
	_, _ = s.w.Write([]byte(": still here\n\n"))
	s.flush()
}

func (s *eventStream) flush() { _ = s.control.Flush() }

// streams reports whether a client takes an event stream.
func streams(r *http.Request) bool {
	_, stream, _ := mcp.Accepts(r.Header.Values("Accept"))
	return stream
}

// listen serves subscriptions/listen until the client goes or the server closes
// (checklist 58 to 61, 77). It fails only before it has written anything.
func (m *modernJobs) listen(w http.ResponseWriter, r *http.Request, msg *message, caps mcp.ClientCaps) *fault.Error {
	var p struct {
		Notifications *struct {
			TaskIDs []string `json:"taskIds"`
		} `json:"notifications"`
	}
	if failure := decodeParams(msg.Params, &p); failure != nil {
		return failure
	}
	if p.Notifications == nil {
		return fault.New(fault.InvalidParams, "notifications must say what to listen for")
	}
	ids := p.Notifications.TaskIDs
	if len(ids) > 0 && !caps.HasExtension(mcp.ExtensionTasks) {
		return missing(true, false)
	}
	if len(ids) > maxListened {
		return fault.New(fault.InvalidParams, "listen for at most %d tasks", maxListened)
	}
	if !streams(r) {
		http.Error(w, "accept text/event-stream", http.StatusNotAcceptable)
		return nil
	}
	owner := ownerOf(r.Header.Get("Authorization"))
	if !m.options.Notify {
		ids = nil
	}
	known, f, end := m.jobs.listenTo(owner, ids)
	defer end()
	meta := fmt.Sprintf(`{"%s":%s}`, mcp.MetaSubscriptionID, msg.ID)
	agreed, failure := marshal(struct {
		TaskIDs []string `json:"taskIds,omitempty"`
	}{known})
	if failure != nil {
		return failure
	}
	stream := startStream(w)
	stream.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"%s","params":{"_meta":%s,"notifications":%s}}`, mcp.Acknowledged, meta, agreed))
	for {
		happened, ok := m.jobs.await(r.Context(), f)
		if !ok {
			break
		}
		if len(happened) == 0 {
			stream.alive()
		}
		for i := range happened {
			params, failure := marshal(happened[i].detailed(meta))
			if failure != nil {
				return nil // nothing that this server makes
			}
			stream.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/tasks","params":%s}`, params))
		}
	}
	if r.Context().Err() == nil {
		stream.send(response(msg.ID, fmt.Appendf(nil, `{"resultType":"complete","_meta":%s}`, meta), nil))
	}
	return nil
}
