package counting

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// ServeHTTP serves 2026-07-28 without sessions.
func (w *Worker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, 1<<20))
	if err != nil || json.Unmarshal(body, &q) != nil {
		http.Error(rw, "this is no request", http.StatusBadRequest)
		return
	}
	if q.ID == nil {
		rw.WriteHeader(http.StatusAccepted)
		return
	}
	const head = `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"counting","version":"1"}},`
	var a answer
	f := Honest
	switch q.Method {
	case "server/discover":
		a.result = json.RawMessage(head + `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	case "tools/list":
		a.result = json.RawMessage(head + `"tools":[` + Tool + `]}`)
	default:
		if f = w.next(q.Method); f == LostBefore {
			panic(http.ErrAbortHandler)
		}
		a = w.serve(q.Method, q.Params, f)
	}
	switch f {
	case LostAfter:
		panic(http.ErrAbortHandler)
	case Late:
		<-r.Context().Done()
		return
	}
	out := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, a.result)
	if a.err != nil {
		out = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, q.ID, a.err.Code, a.err.Message)
	}
	if f == Twice {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(rw, "data: %s\n\ndata: %s\n\n", out, out)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(rw, out)
}
