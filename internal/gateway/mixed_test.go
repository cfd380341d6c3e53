package gateway

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// echoes answers a call with its own marker, as often as it asks for, as JSON
// or as an event stream behind a notification.
func echoes(w responseWriter, _ *request, h heard) bool {
	if h.method != "tools/call" {
		return false
	}
	var m struct {
		Params struct {
			Arguments struct {
				Marker string `json:"marker"`
				Times  int    `json:"times"`
				Stream bool   `json:"stream"`
			} `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal([]byte(h.body), &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return true
	}
	a := m.Params.Arguments
	msg := `{"jsonrpc":"2.0","id":` + h.id + `,"result":{"text":"` + strings.Repeat(a.Marker, a.Times) + `"}}`
	if !a.Stream {
		reply(w, 200, msg)
		return true
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":"+h.id+",\"progress\":1,\"message\":\""+a.Marker+"\"}}\n\ndata: "+msg+"\n\n")
	return true
}

// Buffers are pooled and connections shared; still no call sees a byte of
// another, whatever sizes, forms, eras and departures come together.
func TestCallsAtOnceNeverMix(t *testing.T) {
	h := serving(t, map[string]*up{"m": {on: echoes}, "l": {legacy: true, on: echoes}}, "limits: {in_flight_per_principal: 1000}")
	front := httptest.NewServer(h.Handler())
	t.Cleanup(front.Close)
	client := front.Client()
	session, _ := h.session("2025-06-18", `{}`)
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range 25 {
				marker := fmt.Sprintf("<%d.%d>", worker, i)
				times := []int{1, 100, 5000, 12000, 40000}[random.IntN(5)]
				stream, legacy := random.IntN(2) == 0, random.IntN(2) == 0
				name := []string{"m__add", "l__add"}[random.IntN(2)]
				meta := metaOpen + `,"progressToken":"` + marker + `"}`
				if legacy {
					meta = `"_meta":{"progressToken":"` + marker + `"}`
				}
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{"marker":%q,"times":%d,"stream":%v},%s}}`, marker, name, marker, times, stream, meta)
				ctx, leave := context.WithCancel(t.Context())
				if random.IntN(8) == 0 {
					time.AfterFunc(time.Duration(random.IntN(3000))*time.Microsecond, leave)
				}
				err := checkEcho(ctx, client, front.URL+"/mcp", session, name, body, marker, times, legacy)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				leave()
			}
		})
	}
	wg.Wait()
}

func checkEcho(ctx context.Context, client *http.Client, url, session, name, body, marker string, times int, legacy bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if legacy {
		r.Header.Set("Mcp-Session-Id", session)
	} else {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", name)
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", marker, err)
	}
	events := strings.Split(strings.TrimSuffix(string(b), "\n\n"), "\n\n")
	last := strings.TrimPrefix(events[len(events)-1], "event: message\ndata: ")
	want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"text":"%s"`, marker, strings.Repeat(marker, times))
	if !strings.HasPrefix(last, want) || strings.Count(string(b), "<") != strings.Count(string(b), marker) {
		return fmt.Errorf("%s: HTTP %d, %d bytes: %.200s", marker, resp.StatusCode, len(b), last)
	}
	return nil
}
