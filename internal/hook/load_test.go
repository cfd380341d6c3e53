package hook

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// Every call has one outcome, and what on_error says is what happens to all that
// the hook could not answer, whenever it is killed.
func TestKillingAnEndpointUnderLoadDoesWhatOnErrorSays(t *testing.T) {
	for _, allow := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var answered atomic.Int32
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			saying(`{"decision":"allow"}`)(w, r)
			answered.Add(1)
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = s.Serve(l) })
		b := newBench(t, Hook{ID: "dlp", URL: "http://" + l.Addr().String(), Timeout: ample, AllowOnError: allow})
		const callers, each = 8, 100
		var passed, refused, other atomic.Int32
		killed := make(chan struct{})
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for i := range each {
					if i == each/2 {
						<-killed // the first half runs into it, the second comes after it
					}
					_, err := b.Run(t.Context(), call(ToolBefore))
					switch code(err) {
					case 0:
						passed.Add(1)
					case fault.HookFailed:
						refused.Add(1)
					default:
						other.Add(1)
						t.Error(err)
					}
				}
			})
		}
		for deadline := time.Now().Add(ample); answered.Load() < callers && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		_ = s.Close()
		close(killed)
		wg.Wait()
		serving.Wait()
		n := b.count()
		failed := n["error_allowed"] + n["error_denied"]
		t.Logf("allow %v: %v", allow, n)
		if n["allow"]+failed != callers*each || failed < callers*each/2 || n["allow"] < callers/2 {
			t.Errorf("told %v", n)
		}
		if allow && (refused.Load() != 0 || n["error_denied"] != 0) {
			t.Errorf("%d are refused, told %v", refused.Load(), n)
		}
		if !allow && (int(refused.Load()) != failed || int(passed.Load()) != n["allow"] || n["error_allowed"] != 0) {
			t.Errorf("%d are refused, %d pass, told %v", refused.Load(), passed.Load(), n)
		}
	}
}

func TestCallsAtOnceDoNotMix(t *testing.T) {
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Arguments json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		saying(`{"decision":"allow","arguments":{"was":`+string(asked.Arguments)+`}}`)(w, r)
	})
	b := newBench(t, Hook{URL: url}, Hook{Func: adding("f")})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 20 {
				c := call(ToolBefore)
				own := fmt.Sprintf(`{"i":"%d.%d"}`, i, j)
				c.Arguments = []byte(own)
				rewrote, err := b.Run(t.Context(), c)
				if want := `{"seen":{"was":` + own + `},"by":"f"}`; err != nil || !rewrote || string(c.Arguments) != want {
					t.Errorf("%s, want %s, %v", c.Arguments, want, err)
				}
			}
		})
	}
	wg.Wait()
}
