package demo

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// object is a JSON object that a test reads.
type object = map[string]any

func decode(t testing.TB, raw []byte) object {
	t.Helper()
	out := object{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return out
}

// streaming is a ResponseWriter whose body can be read while it is written.
type streaming struct {
	mu   sync.Mutex // guards what follows
	head http.Header
	code int
	body bytes.Buffer
	done bool
}

func (s *streaming) Header() http.Header { return s.head }
func (s *streaming) Flush()              {}

func (s *streaming) WriteHeader(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code = code
}

func (s *streaming) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body.Write(b)
}

// stream sends a request whose answer is a stream, and returns what is written and
// how its client leaves.
func stream(t *testing.T, h http.Handler, r *http.Request) (s *streaming, leave func()) {
	ctx, cancel := context.WithCancel(t.Context())
	s = &streaming{head: http.Header{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(s, r.WithContext(ctx))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done = true
	}()
	return s, func() { cancel(); <-ended }
}

// messages takes the messages that have come since it was last called.
func (s *streaming) messages(t *testing.T) []object {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []object
	for line := range strings.Lines(s.body.String()) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, decode(t, []byte(data)))
		}
	}
	s.body.Reset()
	return out
}

func (s *streaming) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

func jobRequest(body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Del(headers[i]); headers[i+1] != "" {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	return r
}

// A job goes only where the protocol lets it go, whatever is done to it and when.
func TestAJobKeepsTheRulesOfItsStates(t *testing.T) {
	epoch := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		now := epoch
		table := newJobs(JobOptions{
			Now: func() time.Time { return now }, TTL: time.Hour, Poll: time.Second, MaxTasks: 4,
			Grace: time.Duration(rapid.IntRange(0, 3000).Draw(t, "grace")) * time.Millisecond,
		})
		w := work{finish: [](func(map[string]jobAnswer) (any, error)){
			func(map[string]jobAnswer) (any, error) { return "fine", nil },
			func(map[string]jobAnswer) (any, error) { return nil, fmt.Errorf("not fine") },
			func(map[string]jobAnswer) (any, error) { return nil, fault.New(fault.Internal, "broken") },
		}[rapid.IntRange(0, 2).Draw(t, "end")]}
		for i := range rapid.IntRange(0, 4).Draw(t, "stages") {
			s := stage{message: fmt.Sprint("stage ", i), lasts: time.Duration(rapid.IntRange(0, 2000).Draw(t, "lasts")) * time.Millisecond}
			for range rapid.IntRange(0, 2).Draw(t, "asks") {
				s.asks = append(s.asks, nameQuestion("name"))
			}
			w.stages = append(w.stages, s)
		}
		first, failure := table.create(&job{owner: "me", work: w})
		if failure != nil || first.state != jobWorking {
			t.Fatalf("%v, %v", first, failure)
		}
		f, end := table.listen(func(*job) bool { return true })
		defer end()
		last, keys, killed, asked := first, map[string]bool{}, false, map[string]int{}
		step := func(v jobView) {
			if last.state.terminal() {
				t.Fatalf("%s after the end, %s", v.state, last.state)
			}
			if v.created != first.created || v.updated.Before(last.updated) || v.updated.After(now) || v.id != first.id {
				t.Fatalf("%+v after %+v", v, last)
			}
			if (v.state == jobInputRequired) != (len(v.asks) > 0) {
				t.Fatalf("%s with %d questions", v.state, len(v.asks))
			}
			if (v.state == jobCompleted) != (v.result != nil) || (v.state == jobFailed) != (v.failure != nil) {
				t.Fatalf("%+v", v)
			}
			if v.state == jobCancelled && !killed {
				t.Fatal("nobody cancelled it")
			}
			open := map[string]bool{}
			for _, a := range v.asks {
				open[a.key] = true
				if !keys[a.key] {
					asked[a.key]++
				}
			}
			for key := range keys { // what is no longer open never comes back
				if !open[key] {
					delete(keys, key)
				}
			}
			for key := range open {
				if !keys[key] && asked[key] > 1 {
					t.Fatalf("the key %s is used again", key)
				}
				keys[key] = true
			}
			last = v
		}
		drain := func() {
			happened, _ := table.gather(f)
			for _, v := range happened {
				step(v)
			}
			v, failure := table.look("me", first.id)
			if failure != nil || v.state != last.state || len(v.asks) != len(last.asks) || v.updated != last.updated {
				t.Fatalf("%+v, %v, but %+v was told", v, failure, last)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { drain() },
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "wait")) * time.Millisecond)
				if now.Sub(epoch) > 50*time.Minute {
					t.Skip("it would expire")
				}
			},
			"answer": func(t *rapid.T) {
				answers := map[string]jobAnswer{"nobody asked": {Action: "accept"}}
				for _, a := range last.asks {
					answers[a.key] = rapid.SampledFrom([]jobAnswer{
						{}, {Action: "decline"}, {Action: "accept"}, {Action: "accept", Content: jsontext.Value(`{"name":"x"}`)},
					}).Draw(t, "answer")
					if rapid.Bool().Draw(t, "partly") {
						break
					}
				}
				if failure := table.answer("me", first.id, answers); failure != nil {
					t.Fatal(failure)
				}
			},
			"cancel": func(t *rapid.T) {
				killed = true
				if failure := table.cancel("me", first.id); failure != nil {
					t.Fatal(failure)
				}
			},
			"kill": func(t *rapid.T) {
				ended := last.state.terminal()
				v, failure := table.kill("me", first.id)
				if ended && failure == nil {
					t.Fatal("what has ended was cancelled")
				}
				if failure == nil && v.state != jobCancelled {
					t.Fatalf("cancelled, and %s", v.state)
				}
				killed = killed || failure == nil
			},
		})
	})
}

func TestTheTableOfJobsIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	table := newJobs(JobOptions{Now: func() time.Time { return now }, TTL: time.Minute, MaxTasks: 3})
	create := func(lasts time.Duration) (jobView, *fault.Error) {
		return table.create(&job{work: work{stages: []stage{{lasts: lasts}}, finish: says("x").finish}})
	}
	first, _ := create(time.Second)
	second, _ := create(2 * time.Second)
	third, _ := create(time.Hour)
	if _, failure := create(0); failure == nil {
		t.Fatal("a fourth job while three are unfinished")
	}
	now = now.Add(2 * time.Second)
	fourth, failure := create(time.Hour)
	if failure != nil {
		t.Fatal(failure)
	}
	if _, failure := table.look("", first.id); failure == nil {
		t.Error("the oldest that had ended did not make room")
	}
	if _, failure := table.look("", second.id); failure != nil {
		t.Error("more than needed was forgotten")
	}
	now = now.Add(58 * time.Second)
	if _, failure := table.look("", second.id); failure == nil || failure.Code != fault.InvalidParams || !strings.Contains(failure.Message, "expired") {
		t.Errorf("after its time: %v", failure)
	}
	if v, failure := table.look("", fourth.id); failure != nil || v.state != jobWorking {
		t.Errorf("%v, %v", v, failure)
	}
	for range 3 { // the third job expired with the second, unfinished
		if _, failure = create(time.Hour); failure != nil {
			break
		}
	}
	if failure == nil || len(table.order) != 3 || len(table.byID) != 3 || table.byID[third.id] != nil {
		t.Errorf("%d jobs, %v", len(table.order), failure)
	}
}

func TestIDsAreNotGuessedAndNotTakenTwice(t *testing.T) {
	table := newJobs(JobOptions{TTL: time.Minute, MaxTasks: 9})
	seen := map[string]bool{}
	for range 9 {
		v, failure := table.create(&job{work: says("x")})
		if failure != nil || len(v.id) < 26 || seen[v.id] {
			t.Fatalf("%q, %v", v.id, failure)
		}
		seen[v.id] = true
	}
	table = newJobs(JobOptions{TTL: time.Minute, MaxTasks: 9, IDs: func() string { return "job-1" }})
	if v, failure := table.create(&job{work: says("x")}); failure != nil || v.id != "job-1" {
		t.Fatalf("%q, %v", v.id, failure)
	}
	if _, failure := table.create(&job{work: says("x")}); failure == nil {
		t.Error("an id was given twice")
	}
}

func TestALatencyAndACloseReachEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{Latency: time.Second, Conformance: true})
		start := time.Now()
		if _, got := modernJob(t, s, "tools/call", `"name":"greet","arguments":{"name":"Ann"}`); time.Since(start) != time.Second || got["result"] == nil {
			t.Errorf("after %v: %v", time.Since(start), got)
		}
		w, leave := stream(t, s, modernRequest("tools/call", `"name":"slow_compute","arguments":{"seconds":9}`, `{}`))
		defer leave()
		time.Sleep(3 * time.Second)
		s.Close()
		s.Close()
		synctest.Wait()
		if !w.ended() {
			t.Error("a call outlives the server")
		}
		if code, _ := modernJob(t, s, "tools/list", ``); code != http.StatusServiceUnavailable {
			t.Errorf("%d after the close", code)
		}
	})
}

// A test's clock may jump: what is open sees it when it is poked.
func TestAPokeMakesStreamsLookAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now := time.Unix(0, 0)
		s := Jobs(JobOptions{Notify: true, Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
		id := newTask(t, s, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		w, leave := stream(t, s, modernRequest("subscriptions/listen", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, id), jobCaps))
		defer leave()
		synctest.Wait()
		_ = w.messages(t)
		mu.Lock()
		now = now.Add(time.Minute)
		mu.Unlock()
		s.Poke()
		synctest.Wait()
		var told []string
		for _, m := range w.messages(t) {
			told = append(told, m["params"].(object)["lastUpdatedAt"].(string))
		}
		if got := strings.Join(told, " "); got != "1970-01-01T00:00:01.000Z 1970-01-01T00:00:03.000Z 1970-01-01T00:00:07.000Z 1970-01-01T00:00:08.000Z" {
			t.Error(got)
		}
	})
}

func TestThePaceReplacesWhatToolsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Jobs(JobOptions{Pace: time.Millisecond, TTL: -1})
		id := newTask(t, s, `"name":"bake_cake","arguments":{"flavor":"lemon"}`)
		time.Sleep(4 * time.Millisecond)
		if got := task(t, s, id); got["status"] != "completed" || got["ttlMs"] != nil {
			t.Errorf("%v", got)
		}
		time.Sleep(10000 * time.Hour)
		_ = task(t, s, id)
	})
}
