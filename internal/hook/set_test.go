package hook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestHooksThatCannotWorkAreRefused(t *testing.T) {
	events := []Event{ToolBefore}
	f := deciding(Verdict{}, nil)
	for name, hooks := range map[string][]Hook{
		"no id":             {{Func: f, Events: events}},
		"no way":            {{ID: "a", Events: events}},
		"two ways":          {{ID: "a", Events: events, Func: f, URL: "http://h"}},
		"no events":         {{ID: "a", Func: f}},
		"unknown event":     {{ID: "a", Func: f, Events: []Event{numEvents}}},
		"same id":           {{ID: "a", Func: f, Events: events}, {ID: "a", Func: f, Events: events}},
		"negative timeout":  {{ID: "a", Func: f, Events: events, Timeout: -1}},
		"negative bytes":    {{ID: "a", Func: f, Events: events, MaxBytes: -1}},
		"other scheme":      {{ID: "a", URL: "ftp://me:hunter2@h/", Events: events}},
		"no host":           {{ID: "a", URL: "http:///hunter2", Events: events}},
		"no URL":            {{ID: "a", URL: "http://me:hunter2@h:port/", Events: events}},
		"relative":          {{ID: "a", URL: "hunter2", Events: events}},
		"the second of two": {{ID: "a", Func: f, Events: events}, {ID: "b", Events: events}},
	} {
		if s, err := New(hooks, Options{}); err == nil || s != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestANilSetWantsNothing(t *testing.T) {
	empty, err := New(nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Set{nil, empty} {
		c := call(ToolAfter)
		rewrote, err := s.Run(t.Context(), c)
		if s.Wants(ToolAfter) || s.Holds(ToolAfter) != 0 || rewrote || err != nil || s.Refuse(t.Context(), ToolAfter, 1) != nil {
			t.Error("it wants something")
		}
		s.Close()
		s.Close()
	}
	if s, err := New([]Hook{{ID: "a", Func: deciding(Verdict{}, nil), Events: everyEvent}}, Options{}); err != nil || s.Wants(200) || s.Holds(200) != 0 {
		t.Error("it wants an event that is none")
	}
}

func TestASetWorksWithoutOptions(t *testing.T) {
	s, err := New([]Hook{{ID: "a", Func: deciding(Verdict{}, errors.New("no")), Events: everyEvent}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), call(ToolBefore)); code(err) != fault.HookFailed {
		t.Error(err)
	}
	if s.all[0].timeout != defaultTimeout || s.Holds(ToolBefore) != defaultMaxBytes {
		t.Errorf("timeout %s, max_bytes %d", s.all[0].timeout, s.Holds(ToolBefore))
	}
}

func TestAHookIsAskedAtItsEventsAlone(t *testing.T) {
	f := deciding(Verdict{Deny: true}, nil)
	b := newBench(t,
		Hook{ID: "a", Func: f, Events: []Event{ToolBefore, ToolBefore}, MaxBytes: 100},
		Hook{ID: "b", Func: f, Events: []Event{PromptAfter, ToolBefore}, MaxBytes: 5000},
		Hook{ID: "c", Func: f, Events: []Event{PromptAfter}, MaxBytes: 7},
	)
	for e, holds := range map[Event]int64{ToolBefore: 5000, ToolAfter: 0, PromptBefore: 0, PromptAfter: 5000, ResourceBefore: 0, ResourceAfter: 0} {
		if b.Wants(e) != (holds > 0) || b.Holds(e) != holds {
			t.Errorf("%s: wants %v, holds %d", e, b.Wants(e), b.Holds(e))
		}
		want := fault.HookRefused
		if holds == 0 {
			want = 0
		}
		if _, err := b.Run(t.Context(), call(e)); code(err) != want {
			t.Errorf("%s: %v", e, err)
		}
	}
	if told := b.told(); strings.Count(told, "a tool.before deny") != 1 || strings.Count(told, "b prompt.after deny") != 1 || strings.Count(told, "\n") != 1 {
		t.Errorf("told %q", told)
	}
}

// adding appends its name to the list in the object.
func adding(name string) Func {
	return func(_ context.Context, c *Call) (Verdict, error) {
		if c.Event.after() {
			return Verdict{Result: fmt.Appendf(nil, `{"seen":%s,"by":%q}`, c.Result, name)}, nil
		}
		return Verdict{Arguments: fmt.Appendf(nil, `{"seen":%s,"by":%q}`, c.Arguments, name)}, nil
	}
}

func TestEachHookSeesWhatTheOneBeforeRewrote(t *testing.T) {
	url := server(t, saying(`{"decision":"allow"}`))
	b := newBench(t,
		Hook{ID: "z", Func: adding("z")}, Hook{ID: "y", URL: url}, Hook{ID: "x", Func: adding("x")},
		Hook{ID: "w", Func: deciding(Verdict{}, errors.New("down")), AllowOnError: true}, Hook{ID: "v", Func: adding("v")},
	)
	for _, e := range everyEvent {
		c := call(e)
		args, result := string(c.Arguments), string(c.Result)
		rewrote, err := b.Run(t.Context(), c)
		if err != nil || !rewrote {
			t.Fatal(rewrote, err)
		}
		chain := func(s string) string {
			for _, n := range []string{"z", "x", "v"} {
				s = fmt.Sprintf(`{"seen":%s,"by":%q}`, s, n)
			}
			return s
		}
		if e.after() {
			result = chain(result)
		} else {
			args = chain(args)
		}
		if string(c.Arguments) != args || string(c.Result) != result {
			t.Errorf("%s: %s and %s", e, c.Arguments, c.Result)
		}
		want := strings.ReplaceAll("z E rewrite\ny E allow\nx E rewrite\nw E error_allowed\nv E rewrite", "E", e.String())
		if told := b.told(); told != want {
			t.Errorf("told %q", told)
		}
	}
}

func TestTheFirstThatDeniesEndsIt(t *testing.T) {
	never := func(context.Context, *Call) (Verdict, error) {
		t.Error("it was asked")
		return Verdict{}, nil
	}
	url := server(t, saying(`{"decision":"deny","message":"no\ncards"}`))
	b := newBench(t, Hook{ID: "a", Func: adding("a")}, Hook{ID: "b", URL: url}, Hook{ID: "c", Func: never})
	rewrote, err := b.Run(t.Context(), call(ToolBefore))
	if !rewrote || code(err) != fault.HookRefused || public(err) != `no cards; hook "b" refused the call, and nothing ran` {
		t.Errorf("%v, %v", rewrote, err)
	}
	if told := b.told(); told != "a tool.before rewrite\nb tool.before deny" {
		t.Errorf("told %q", told)
	}
	if log := b.log.String(); log != "" {
		t.Errorf("a refusal is logged as a failure: %s", log)
	}
}

func TestSayingTheSameAgainIsNoRewrite(t *testing.T) {
	echo := func(_ context.Context, c *Call) (Verdict, error) {
		if c.Event.after() {
			return Verdict{Result: c.Result}, nil
		}
		return Verdict{Arguments: c.Arguments}, nil
	}
	b := newBench(t, Hook{Func: echo})
	for _, e := range everyEvent {
		if rewrote, err := b.Run(t.Context(), call(e)); rewrote || err != nil {
			t.Errorf("%s: %v, %v", e, rewrote, err)
		}
	}
	if rewrote, err := b.Run(t.Context(), &Call{Event: ResourceBefore}); rewrote || err != nil {
		t.Errorf("without arguments: %v, %v", rewrote, err)
	}
	if n := b.count(); n["allow"] != len(everyEvent)+1 {
		t.Errorf("%v", n)
	}
}

func TestAllowWithoutARewriteLeavesEveryByte(t *testing.T) {
	url := server(t, saying(`{"decision":"allow","note":{"arguments":{}}}`))
	b := newBench(t, Hook{URL: url}, Hook{Func: deciding(Verdict{}, nil)})
	rapid.Check(t, func(r *rapid.T) {
		c := call(rapid.SampledFrom(everyEvent).Draw(r, "event"))
		args, result := genObject().Draw(r, "arguments"), genObject().Draw(r, "result")
		c.Arguments = []byte(args)
		if c.Event.after() {
			c.Result = []byte(result)
		}
		given := *c
		rewrote, err := b.Run(t.Context(), c)
		if rewrote || err != nil {
			r.Fatal(rewrote, err)
		}
		if string(c.Arguments) != args || (c.Event.after() && string(c.Result) != result) || &c.Arguments[0] != &given.Arguments[0] {
			r.Fatalf("%s became %s, %s became %s", args, c.Arguments, result, c.Result)
		}
	})
}

func TestWhatIsTooLargeIsNotShown(t *testing.T) {
	asked := 0
	f := func(context.Context, *Call) (Verdict, error) { asked++; return Verdict{}, nil }
	b := newBench(t,
		Hook{ID: "small", Func: f, MaxBytes: 100, AllowOnError: true},
		Hook{ID: "large", Func: f, MaxBytes: 1000, AllowOnError: true},
		Hook{ID: "strict", Func: f, MaxBytes: 500},
	)
	of := func(n int) []byte { return []byte(`{"a":"` + strings.Repeat("x", n-8) + `"}`) }
	for _, tc := range []struct {
		arguments, result int
		e                 Event
		asked             int
		code              fault.Code
		told              string
	}{
		{100, 0, ToolBefore, 3, 0, "small E allow\nlarge E allow\nstrict E allow"},
		{101, 0, ToolBefore, 2, 0, "small E too_large_allowed\nlarge E allow\nstrict E allow"},
		{10, 101, ToolAfter, 2, 0, "small E too_large_allowed\nlarge E allow\nstrict E allow"},
		{101, 10, PromptAfter, 2, 0, "small E too_large_allowed\nlarge E allow\nstrict E allow"},
		{10, 501, ToolAfter, 1, fault.HookFailed, "small E too_large_allowed\nlarge E allow\nstrict E too_large_denied"},
		{501, 0, ResourceBefore, 1, fault.HookFailed, "small E too_large_allowed\nlarge E allow\nstrict E too_large_denied"},
		{10, 5000, ToolAfter, 0, fault.HookFailed, "small E too_large_allowed\nlarge E too_large_allowed\nstrict E too_large_denied"},
	} {
		for range 2 * failuresInARow { // it never counts against the hook
			asked = 0
			c := call(tc.e)
			c.Arguments = of(tc.arguments)
			if tc.e.after() {
				c.Result = of(tc.result)
			}
			_, err := b.Run(t.Context(), c)
			if told := b.told(); asked != tc.asked || code(err) != tc.code || told != strings.ReplaceAll(tc.told, "E", tc.e.String()) {
				t.Errorf("%+v: asked %d, told %q, %v", tc, asked, told, err)
			}
			if err != nil && !strings.Contains(public(err), `"strict"`) {
				t.Error(public(err))
			}
		}
	}
}

func TestAResultThatCannotBeHeldIsWhatOnErrorSays(t *testing.T) {
	f := deciding(Verdict{}, nil)
	lenient := newBench(t, Hook{ID: "a", Func: f, AllowOnError: true}, Hook{ID: "b", Func: f, AllowOnError: true}, Hook{ID: "c", Func: f, Events: []Event{ToolBefore}})
	if err := lenient.Refuse(t.Context(), ToolAfter, 5<<20); err != nil {
		t.Error(err)
	}
	if told := lenient.told(); told != "a tool.after too_large_allowed\nb tool.after too_large_allowed" {
		t.Errorf("told %q", told)
	}
	if log := lenient.log.String(); strings.Count(log, "\n") != 2 || !strings.Contains(log, "5242880 bytes") {
		t.Errorf("logged %s", log)
	}
	strict := newBench(t, Hook{ID: "a", Func: f, AllowOnError: true}, Hook{ID: "b", Func: f}, Hook{ID: "c", Func: f})
	err := strict.Refuse(t.Context(), ToolAfter, 0)
	if code(err) != fault.HookFailed || !strings.Contains(public(err), `"b"`) || !strings.Contains(public(err), "the call itself ran") {
		t.Error(err)
	}
	if told := strict.told(); told != "a tool.after too_large_allowed\nb tool.after too_large_denied" {
		t.Errorf("told %q", told)
	}
}

// An upstream must not show the hook one text and the client another.
func TestAResultThatReadsTwoWaysIsNotShown(t *testing.T) {
	never := func(context.Context, *Call) (Verdict, error) {
		t.Error("it was shown")
		return Verdict{}, nil
	}
	for _, result := range []string{
		`{"content":[{"text":"fine","text":"secret"}]}`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", `{"a":[}`, `[]`, `"x"`, `{} {}`, `{`,
	} {
		for _, allow := range []bool{false, true} {
			b := newBench(t, Hook{ID: "dlp", Func: never, AllowOnError: allow})
			for range 2 * failuresInARow { // nor is it the hook's failure
				c := call(ToolAfter)
				c.Result = []byte(result)
				_, err := b.Run(t.Context(), c)
				var why *failure
				switch {
				case allow && (err != nil || b.told() != "dlp tool.after error_allowed"):
					t.Errorf("%s: %v", result, err)
				case !allow && (code(err) != fault.HookFailed || b.told() != "dlp tool.after error_denied" || !errors.As(err, &why) || why.kind != unsound):
					t.Errorf("%s: %v", result, err)
				}
			}
		}
	}
}
