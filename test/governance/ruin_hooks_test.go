package governance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// judge is a hook behind HTTP that can be killed and brought back at the same address, and misbehave.
type judge struct {
	t       testing.TB
	address string

	mu      sync.Mutex // guards what follows
	server  *http.Server
	done    chan struct{}
	decides func(w http.ResponseWriter, r *http.Request, q *hookQuestion)
	asked   []hookQuestion
}

// hookQuestion is what a hook is asked.
type hookQuestion struct {
	Hook, Event, Server, Upstream, Name, Original string
	Principal                                     struct {
		Issuer, Tenant, Subject string
		Scopes                  []string
	}
	Arguments, Result json.RawMessage
}

// allow lets everything pass.
func allow(w http.ResponseWriter, _ *http.Request, _ *hookQuestion) {
	decide(w, `{"decision":"allow"}`)
}

// decide answers with a decision.
func decide(w http.ResponseWriter, decision string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, decision)
}

func newJudge(t testing.TB) *judge {
	t.Helper()
	j := &judge{t: t, address: "127.0.0.1:0", decides: allow}
	j.start()
	t.Cleanup(j.kill)
	return j
}

// start listens, at the same address as before.
func (j *judge) start() {
	j.t.Helper()
	var ln net.Listener
	var err error
	for range 100 {
		if ln, err = net.Listen("tcp", j.address); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		j.t.Fatal(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.address = ln.Addr().String()
	j.server, j.done = &http.Server{Handler: j}, make(chan struct{})
	go func(s *http.Server, done chan struct{}) {
		defer close(done)
		_ = s.Serve(ln)
	}(j.server, j.done)
}

// kill ends it in the middle of whatever it does. A second one does nothing.
func (j *judge) kill() {
	j.mu.Lock()
	s, done := j.server, j.done
	j.server = nil
	j.mu.Unlock()
	if s != nil {
		_ = s.Close()
		<-done
	}
}

func (j *judge) url() string { return "http://" + j.address + "/decide" }

// decide makes it decide so from now on.
func (j *judge) decide(f func(w http.ResponseWriter, r *http.Request, q *hookQuestion)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decides = f
}

// questions are what it was asked at an event.
func (j *judge) questions(event string) []hookQuestion {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []hookQuestion
	for _, q := range j.asked {
		if q.Event == event {
			out = append(out, q)
		}
	}
	return out
}

// ServeHTTP implements http.Handler.
func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q hookQuestion
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, "no question", http.StatusBadRequest)
		return
	}
	j.mu.Lock()
	j.asked = append(j.asked, q)
	f := j.decides
	j.mu.Unlock()
	f(w, r, &q)
}

// hooking is a hook of a document.
func hooking(id string, j *judge, onError, more string, events ...string) string {
	return fmt.Sprintf("  - {id: %s, url: %q, events: [%s], timeout: 1s, on_error: %s%s}\n", id, j.url(), strings.Join(events, ", "), onError, more)
}

// tally counts what clients saw.
type tally struct {
	mu      sync.Mutex // guards what follows
	served  []string
	refused map[string]int // texts, to the code
	strange []string
}

func (c *tally) note(text string, r *reaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.Code != 0:
		if c.refused == nil {
			c.refused = map[string]int{}
		}
		c.refused[text] = r.Code
	case r.Err == nil && r.Status == http.StatusOK && r.Result != nil && !r.IsError:
		c.served = append(c.served, text)
	default:
		c.strange = append(c.strange, text+": "+r.String())
	}
}

// sofar is how many were served by now.
func (c *tally) sofar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.served)
}

// settle holds that nothing strange came, and tells how much of each did. The load must have ended.
func (c *tally) settle(t *testing.T) (served, refused int) {
	t.Helper()
	if len(c.strange) > 0 {
		t.Errorf("%d strange answers, such as %s", len(c.strange), c.strange[0])
	}
	return len(c.served), len(c.refused)
}

// Tools are under a hook whose failure denies, and prompts under one whose failure allows.
func TestAHookThatFailsInTheMiddleOfLoadDoesWhatItsDocumentDeclares(t *testing.T) {
	t.Parallel()
	with := func(f func(http.ResponseWriter, *http.Request, *hookQuestion)) func(*judge) {
		return func(j *judge) { j.decide(f) }
	}
	beside, ended := together()
	defer ended()
	for name, f := range map[string]struct{ begin, end func(*judge) }{
		"killed":  {(*judge).kill, (*judge).start},
		"hangs":   {with(func(_ http.ResponseWriter, r *http.Request, _ *hookQuestion) { <-r.Context().Done() }), with(allow)},
		"rubbish": {with(func(w http.ResponseWriter, _ *http.Request, _ *hookQuestion) { decide(w, `{"decision":"perhaps"}`) }), with(allow)},
	} {
		beside(t, name, func(t *testing.T) {
			j, m := newJudge(t), newMill(t, false)
			h := build(t, over(m, "hooks:\n"+hooking("strict", j, "deny", "", "tool.before")+hooking("lax", j, "allow", "", "prompt.before")))
			h.known("")
			const hook, requests = "penstock_hook_duration_seconds_count", "penstock_requests_total"
			before, sent := h.counts(), len(m.calls("tools/call"))
			var tools, prompts tally
			stop := make(chan struct{})
			turns := load(t, stop, func(worker, turn int) {
				text := fmt.Sprintf("w%d-%d.", worker, turn)
				tools.note(text, h.do(&query{Params: echo(text)}))
				prompts.note(text, h.do(&query{Method: "prompts/get", Params: `"name":"greet","arguments":{"who":"` + text + `"}`}))
				time.Sleep(5 * time.Millisecond) // others need the machine, too
			})
			time.Sleep(300 * time.Millisecond)
			f.begin(j)
			time.Sleep(2 * time.Second)
			f.end(j)
			// Each hook decides again, by itself.
			for _, id := range []string{"strict", "lax"} {
				allowed := h.counts().sum(hook, `hook="`+id+`"`, `outcome="allow"`)
				wait(t, "recovery of the hook "+id, 10*time.Second, func() bool {
					return h.counts().sum(hook, `hook="`+id+`"`, `outcome="allow"`) > allowed+workers
				})
			}
			close(stop)
			total := int(turns())
			after := h.counts()
			delta := func(name string, labels ...string) int {
				return after.sum(name, labels...) - before.sum(name, labels...)
			}

			served, refused := tools.settle(t)
			if refused == 0 || served == 0 || served+refused != total {
				t.Errorf("of %d calls %d were served and %d refused", total, served, refused)
			}
			for text, code := range tools.refused {
				if n := m.arrived(`"text":"` + text + `"`); code != hookFailed || n != 0 {
					t.Errorf("%s: refused with %d, and sent %d times", text, code, n)
				}
			}
			for what, is := range map[string][2]int{
				"sent":                     {len(m.calls("tools/call")) - sent, served},
				"served, by the requests":  {delta(requests, `method="tools/call"`, `outcome="ok"`), served},
				"refused, by the requests": {delta(requests, `method="tools/call"`, `outcome="failed"`, `code="hook_failed"`), refused},
				"refused, by the hook":     {delta(hook, `hook="strict"`, `outcome="error_denied"`), refused},
				"allowed, by the hook":     {delta(hook, `hook="strict"`, `outcome="allow"`), served},
			} {
				if is[0] != is[1] {
					t.Errorf("tools %s: %d, and clients saw %d", what, is[0], is[1])
				}
			}

			passed, refused := prompts.settle(t)
			if refused != 0 || passed != total {
				t.Errorf("of %d prompts %d were refused, though the hook's failure allows: %v", total, refused, prompts.refused)
			}
			through, allowed := delta(hook, `hook="lax"`, `outcome="error_allowed"`), delta(hook, `hook="lax"`, `outcome="allow"`)
			if through == 0 || through+allowed != passed || delta(requests, `method="prompts/get"`, `outcome="ok"`) != passed {
				t.Errorf("%d prompts were served; the counter of the hook tells %d allowed and %d let through for its failure", passed, allowed, through)
			}
		})
	}
}

func TestAHookThatIsSlowButInTimeRefusesNobody(t *testing.T) {
	t.Parallel()
	j, m := newJudge(t), newMill(t, false)
	j.decide(func(w http.ResponseWriter, r *http.Request, q *hookQuestion) {
		time.Sleep(100 * time.Millisecond)
		allow(w, r, q)
	})
	h := build(t, over(m, "hooks:\n"+strings.Replace(hooking("dlp", j, "deny", "", "tool.before", "tool.after"), "1s", "20s", 1)))
	h.known("")
	var c tally
	stop := make(chan struct{})
	turns := load(t, stop, func(worker, turn int) {
		text := fmt.Sprintf("w%d-%d.", worker, turn)
		c.note(text, h.do(&query{Params: echo(text)}))
	})
	time.Sleep(time.Second)
	close(stop)
	total := int(turns())
	if served, _ := c.settle(t); total != served || served == 0 {
		t.Errorf("%d of %d were served: %v", served, total, c.refused)
	}
}

// decided always decides so.
func decided(decision string) func(http.ResponseWriter, *http.Request, *hookQuestion) {
	return func(w http.ResponseWriter, _ *http.Request, _ *hookQuestion) { decide(w, decision) }
}
