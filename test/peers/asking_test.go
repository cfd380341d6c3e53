package peers

import (
	"path/filepath"
	"testing"
)

// question is a step of go-everything that needs an answer of the client, and the text that it gives when a client
// answers as js/asked.mjs says.
type question struct {
	step AskedStep
	want string
}

// questions are what go-everything asks in an era. In the modern one it asks with input_required only; to a legacy
// session its SDK sends the same as requests.
func questions(name string, modern bool) []question {
	tool := func(tool string, arguments map[string]any, want string) question {
		if arguments == nil {
			arguments = map[string]any{}
		}
		return question{AskedStep{Name: tool, Arguments: arguments}, want}
	}
	all := []question{
		tool("test_input_required_result_sampling", nil, "Sampling response: "+name+" says: What is the capital of France?"),
		tool("test_input_required_result_elicitation", nil, "Hello, "+name+" on: What is your name?!"),
		tool("test_input_required_result_list_roots", nil, "Client exposed 1 root(s): file:///"+name),
		tool("test_input_required_result_multiple_inputs", nil, name+" says: Generate a greeting "+name+" on: What is your name? — 1 root(s) visible"),
		tool("test_input_required_result_request_state", nil, "state-ok: requestState received and confirmation accepted"),
		{AskedStep{Name: "test_input_required_result_prompt", Prompt: true, Arguments: map[string]any{}}, "Context: " + name + " on: Please provide context for the prompt"},
	}
	if modern {
		// To a session this server asks in the first round only (test/conformance/expected-failures.yaml).
		all = append(all, tool("test_input_required_result_multi_round", nil,
			"Multi-round complete: "+name+" on: Step 1: What is your name? likes "+name+" on: Step 2: What is your favorite color?"))
	} else {
		all = append(
			all,
			tool("test_sampling", map[string]any{"prompt": name + "?"}, "LLM response: "+name+" says: "+name+"?"),
			tool("test_elicitation", map[string]any{"message": name + "!"}, "Elicitation result: action=accept, content=map[username:"+name+" on: "+name+"!]"),
		)
	}
	return all
}

// knownQuestions are the texts of go-everything that name nobody.
var knownQuestions = []string{
	"What is the capital of France?", "What is your name?", "Generate a greeting", "Step 1: What is your name?",
	"Step 2: What is your favorite color?", "Please confirm", "Please provide context for the prompt",
}

// Checklist 7.1 to 7.4: every client samples, elicits and answers roots, over HTTP and over stdio, whatever its upstream
// speaks; all calls of a client run at once.
func TestEveryClientIsAskedByEveryUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many real peers: not with -short")
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	gateway := servePairs(t, GoEverything(false), GoEverything(true), []string{filepath.Join(root, "build/peers/go-everything")})
	gateway.everyPair(t, func(t *testing.T, client AskedClient, u pairedUpstream, at string) {
		name := client.Name + "-of-" + u.name
		script := AskedScript{
			Name: name, Known: knownQuestions,
			Capabilities: map[string]any{"sampling": map[string]any{}, "elicitation": map[string]any{}, "roots": map[string]any{}},
		}
		questions := questions(name, u.modern)
		for _, q := range questions {
			script.Steps = append(script.Steps, q.step)
		}
		report, err := client.Run(t.Context(), at, script)
		if err != nil {
			t.Fatal(err)
		}
		if got := report.ProtocolVersion >= "2026"; got != client.Modern {
			t.Errorf("the client speaks %s", report.ProtocolVersion)
		}
		if len(report.Strange) > 0 {
			t.Errorf("asked %q, which is somebody else's", report.Strange)
		}
		for i, q := range questions {
			if report.Answers[i] != q.want {
				t.Errorf("%s: %v, want %q", q.step.Name, report.Answers[i], q.want)
			}
		}
	})
}
