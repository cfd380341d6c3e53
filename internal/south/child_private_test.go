package south

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

const elicits = `{"elicitation":{"form":{}}}`

func keyOf(name string) SessionKey {
	return SessionKey{Server: "default", Principal: [32]byte{1}, Caps: elicits, North: name}
}

// user answers questions with its own name and what it was asked.
func user(name string) func(context.Context, *wire.Answer) ([]byte, error) {
	return func(_ context.Context, s *wire.Answer) ([]byte, error) {
		return reply(s, name+"<"+questionOf(s)+">"), nil
	}
}

// questionOf is the message of an elicitation.
func questionOf(s *wire.Answer) (message string) {
	_ = wire.Members(s.Params.Of(s.Raw), func(n, v []byte) bool {
		if string(n) == "message" {
			message, _ = wire.String(v)
		}
		return true
	})
	return message
}

func reply(s *wire.Answer, answer string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"text":%q}}}`, s.ID.Of(s.Raw), answer)
}

type onRequest = func(context.Context, *wire.Answer) ([]byte, error)

func consult(t *testing.T, u *Upstream, key, name, args string, f onRequest) string {
	t.Helper()
	got, err := toolCall{name: name, args: args, key: keyOf(key), onRequest: f}.send(t.Context(), u)
	if err != nil {
		t.Fatalf("%s of %s: %v", name, key, err)
	}
	return got
}

func pidOf(t *testing.T, u *Upstream, key string) int {
	t.Helper()
	pid, err := strconv.Atoi(consult(t, u, key, "pid", "", user(key)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// Checklist 7.1, T52.
func TestEachKeyThatCanBeAskedHasAProcessOfItsOwnThatKnowsItsCapabilities(t *testing.T) {
	u, _ := startChild(t, "legacy")
	a, b := pidOf(t, u, "a"), pidOf(t, u, "b")
	common, err := strconv.Atoi(mustCall(t, u, "pid", ""))
	if err != nil {
		t.Fatal(err)
	}
	if a == b || a == common || b == common || pidOf(t, u, "a") != a {
		t.Errorf("processes %d, %d and the shared one %d", a, b, common)
	}
	other := keyOf("a")
	other.Caps = `{"sampling":{}}`
	for _, c := range []struct {
		key  SessionKey
		f    onRequest
		want string
	}{
		{keyOf("a"), user("a"), elicits},
		{other, user("a"), `{"sampling":{}}`},
		{keyOf("a"), nil, "{}"}, // a request that takes no questions needs no process
		{SessionKey{}, user("a"), "{}"},
	} {
		if got, err := (toolCall{name: "caps", key: c.key, onRequest: c.f}).send(t.Context(), u); err != nil || got != c.want {
			t.Errorf("%+v: declared %s, %v", c.key, got, err)
		}
	}
	if s := u.State(); s.Sessions != 3 || s.PID != common || s.Starts != 1 || s.State != "up" {
		t.Errorf("state %+v", s)
	}
	l, err := u.Link(t.Context(), keyOf("c"))
	if err != nil || !l.Child() || l.Era != mcp.Legacy || !hasMember(l.Capabilities(), "tools") {
		t.Errorf("link %+v, %v", l, err)
	}
	if n := u.State().Sessions; n != 3 {
		t.Errorf("a link alone started a process: %d", n)
	}
}

func TestAModernChildIsOneForAllWhoCanBeAsked(t *testing.T) {
	u, _ := startChild(t, "modern")
	if a, b := pidOf(t, u, "a"), pidOf(t, u, "b"); a != b || u.State().Sessions != 0 || u.State().PID != a {
		t.Errorf("processes %d and %d, %+v", a, b, u.State())
	}
}

// Checklist 7.3: however calls interleave, a question reaches the caller whose
// call it is, and the answer the process that asked.
func TestQuestionsOfPrivateProcessesNeverCross(t *testing.T) {
	u, _ := startChild(t, "legacy")
	const keys, callers, calls = 6, 3, 8
	var wg sync.WaitGroup
	for k := range keys {
		for c := range callers {
			wg.Go(func() {
				me := fmt.Sprintf("key%d-caller%d", k, c)
				random := rand.New(rand.NewPCG(uint64(k), uint64(c))) //nolint:gosec // repeatable
				for n := range calls {
					token := fmt.Sprintf("%s-call%d", me, n)
					times := random.IntN(3) + 1
					seen := 0
					f := func(_ context.Context, s *wire.Answer) ([]byte, error) {
						if got, want := questionOf(s), fmt.Sprintf("%s/%d", token, seen); got != want {
							t.Errorf("%s was asked %q, want %q", token, got, want)
						}
						seen++
						time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
						return reply(s, token), nil
					}
					name, want := "ask", strings.TrimSpace(strings.Repeat(token+" ", times))
					if random.IntN(4) == 0 {
						name, want = "ask-both", token+" "+token
					}
					args := fmt.Sprintf(`{"text":%q,"times":%d}`, token, times)
					got, err := toolCall{name: name, args: args, key: keyOf(fmt.Sprint(k)), onRequest: f}.send(t.Context(), u)
					if err != nil || got != want {
						t.Errorf("%s: %q, %v, want %q", token, got, err, want)
					}
				}
			})
		}
		wg.Go(func() { // and those who cannot be asked, beside them
			for n := range calls {
				want := fmt.Sprint("quiet", k, n)
				if got, err := (toolCall{name: "echo", args: fmt.Sprintf(`{"text":%q}`, want)}).send(t.Context(), u); err != nil || got != want {
					t.Errorf("%s: %q, %v", want, got, err)
				}
			}
		})
	}
	wg.Wait()
	if n := u.State().Sessions; n != keys {
		t.Errorf("%d processes for %d keys", n, keys)
	}
}

// Calls of one key run one at a time, in the order in which they came; the wait is
// not counted as the call's own time.
func TestCallsOfOnePrivateProcessTakeTurns(t *testing.T) {
	u, _ := startChild(t, "legacy")
	pidOf(t, u, "a")
	open, answer := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		f := func(_ context.Context, s *wire.Answer) ([]byte, error) {
			close(open)
			<-answer
			return reply(s, "first"), nil
		}
		if got := consult(t, u, "a", "ask", "", f); got != "first" {
			t.Errorf("first got %q", got)
		}
	})
	<-open
	var mu sync.Mutex
	var order []int
	p := u.child.privates.byKey[keyOf("a")]
	for i := range 5 {
		wg.Go(func() {
			got, err := toolCall{
				name: "ask", key: keyOf("a"), timeout: 5 * time.Second,
				onRequest: func(_ context.Context, s *wire.Answer) ([]byte, error) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
					return reply(s, fmt.Sprint(i)), nil
				},
			}.send(t.Context(), u)
			if err != nil || got != fmt.Sprint(i) {
				t.Errorf("call %d: %q, %v", i, got, err)
			}
		})
		eventually(t, 5*time.Second, "the call to wait", func() bool {
			u.child.privates.mu.Lock()
			defer u.child.privates.mu.Unlock()
			return p.users == i+2
		})
		time.Sleep(5 * time.Millisecond) // from joining to the queue is a step
	}
	_, err := toolCall{name: "echo", key: keyOf("a"), timeout: 100 * time.Millisecond, onRequest: user("a")}.send(t.Context(), u)
	childFault(t, err, fault.AtCapacity)
	close(answer)
	wg.Wait()
	if got := fmt.Sprint(order); got != "[0 1 2 3 4]" {
		t.Errorf("order %s", got)
	}
}

func TestTheClockStandsStillWhileAQuestionOfAChildIsOpen(t *testing.T) {
	u, _ := startChild(t, "legacy")
	pidOf(t, u, "a")
	slow := func(ctx context.Context, s *wire.Answer) ([]byte, error) {
		select {
		case <-time.After(700 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return user("a")(ctx, s)
	}
	got, err := toolCall{name: "ask", args: `{"text":"x","times":2}`, key: keyOf("a"), timeout: 400 * time.Millisecond, onRequest: slow}.send(t.Context(), u)
	if err != nil || got != "a<x/0> a<x/1>" {
		t.Errorf("%q, %v", got, err)
	}
}

// Checklist 136, 137.
func TestAPrivateProcessIsAnsweredAtOnceWhatBelongsToNoCall(t *testing.T) {
	u, log := startChild(t, "legacy")
	consult(t, u, "a", "ask-later", `{"text":"late"}`, user("a"))
	waitFor(t, log, "answered q1 -32602")
	f := func(ctx context.Context, s *wire.Answer) ([]byte, error) {
		waitFor(t, log, "answered p1 0")
		return user("a")(ctx, s)
	}
	if got := consult(t, u, "a", "ask-and-ping", `{"text":"?"}`, f); got != "a<?>" {
		t.Errorf("got %q", got)
	}
}
