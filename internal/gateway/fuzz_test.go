package gateway

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// Whatever an upstream puts into its result, held whole or streamed, a client
// of event streams gets one event or a cut, and a valid result arrives.
func FuzzAResultNeverBreaksItsFrame(f *testing.F) {
	for _, result := range []string{
		`{}`, `{"content":[]}`, "{\n\"a\":\r\n1}", "{\"a\":\"\n\nevent: x\ndata: {}\n\n\"}", `[1]`, `null`, `"a"`, `{"a":`, `{"_meta":{"io.modelcontextprotocol/serverInfo":1}}`,
		`{"resultType":"complete"}`, `{"resultType":"input_required","requestState":"a"}`, `{"_meta":5}`, `{"_meta":{},"_meta":{}}`, `{"content":[{"uri":"a"}]}}`, `{},"x":1`, "{\"\r\":1}",
	} {
		for _, pad := range []uint8{0, 70} {
			f.Add([]byte(result), pad, true)
			f.Add([]byte(result), pad, false)
		}
	}
	var answer atomic.Pointer[string]
	u := &up{}
	u.on = func(w responseWriter, _ *request, h heard) bool {
		if h.method != "tools/call" {
			return false
		}
		reply(w, 200, strings.Replace(*answer.Load(), "$ID", h.id, 1))
		return true
	}
	h := serving(f, map[string]*up{"u": u})
	f.Fuzz(func(t *testing.T, result []byte, pad uint8, first bool) {
		long := `"pad":"` + strings.Repeat("a", int(pad)<<10) + `",`
		msg := `{"jsonrpc":"2.0","id":$ID,` + long + `"result":` + string(result) + `}`
		if !first {
			msg = `{"result":` + string(result) + `,` + long + `"id":$ID,"jsonrpc":"2.0"}`
		}
		answer.Store(&msg)
		u.mu.Lock()
		u.seen = nil
		u.mu.Unlock()
		g := (&house{h.Gateway, t}).modern("tools/call", "u__add", `"name":"u__add"`, "Accept", "text/event-stream")
		data, ok := strings.CutPrefix(g.body, "event: message\ndata: ")
		if g.cut && g.body == "" {
			return
		}
		if g.status != 200 {
			if !jsontext.Value(g.body).IsValid() {
				t.Fatalf("HTTP %d %q", g.status, g.body)
			}
			return
		}
		data, end := strings.CutSuffix(data, "\n\n")
		if !ok || end == g.cut || strings.ContainsAny(data, "\r\n") {
			t.Fatalf("cut %v: %.300q", g.cut, g.body)
		}
		valid := jsontext.Value(msg[:0] + strings.Replace(msg, "$ID", `"x"`, 1)).IsValid()
		if valid && !g.cut && !jsontext.Value(data).IsValid() {
			t.Fatalf("%.300q became %.300q", msg, data)
		}
		if plain := bytes.HasPrefix(result, []byte("{")) && !bytes.Contains(result, []byte("resultType")) && !bytes.ContainsAny(result, "\\_"); valid && plain && (g.cut || strings.Contains(data, `"error":{"code":-3`)) {
			t.Fatalf("a valid result is refused, cut %v: %.300q became %.300q", g.cut, msg, data)
		}
	})
}
