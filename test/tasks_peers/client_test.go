package taskspeers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/test/peers"
)

// need skips a test whose peers are not there. In CI they are.
func need(t *testing.T, languages ...peers.Language) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real peers: not with -short")
	}
	for _, l := range languages {
		if why := l.Missing(); why != "" && !peers.InCI() {
			t.Skip(why)
		}
	}
}

// did is what a process of a client told.
type did struct {
	*peers.TaskReport
	client peers.TaskClient
}

// run has a new process of a client do steps.
func run(t *testing.T, c peers.TaskClient, endpoint string, steps ...peers.TaskStep) did {
	t.Helper()
	report, err := c.Run(t.Context(), endpoint, steps...)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[bool]string{true: "2026-07-28", false: "2025-11-25"}[c.Modern]; report.ProtocolVersion != want {
		t.Fatalf("%s speaks %s, want %s", c.Name, report.ProtocolVersion, want)
	}
	return did{report, c}
}

// step is a work as one.
func (w work) step(do string) peers.TaskStep {
	return peers.TaskStep{Do: do, Name: w.tool, Arguments: w.arguments, Answer: w.answer}
}

// about is a step on a task by its id.
func (w work) about(do, id string) peers.TaskStep {
	return peers.TaskStep{Do: do, TaskID: id, Answer: w.answer}
}

// cancelled is a work that is cancelled as soon as it is seen to go on.
func (w work) cancelled() peers.TaskStep {
	s := w.step("run")
	s.CancelAt = "working"
	return s
}

// ends holds that a step ended a work with a status and what it tells: a result, an error of the tool, or an error.
func (d did) ends(t *testing.T, i int, w work, status string) {
	t.Helper()
	a := d.Answers[i]
	if status != "failed" && (a.Error != nil || a.Status != status) || status == "failed" && (a.Error == nil || a.Result != nil) {
		t.Fatalf("%s: %s ends otherwise than %s: %s", d.client.Name, w.tool, status, d.part(i))
	}
	switch {
	case status == "failed":
		if !strings.Contains(a.Error.Message, w.want) {
			t.Errorf("%s: %s fails with %q, want %q", d.client.Name, w.tool, a.Error.Message, w.want)
		}
		if a.Error.Code == nil || *a.Error.Code != w.code {
			t.Errorf("%s: %s fails with another code than %d: %s", d.client.Name, w.tool, w.code, d.part(i))
		}
	case status == "cancelled":
		if a.Result != nil {
			t.Errorf("%s: %s has a result: %s", d.client.Name, w.tool, d.part(i))
		}
	case a.Result == nil || len(a.Result.Content) != 1 || !strings.Contains(a.Result.Content[0].Text, w.want):
		t.Errorf("%s: %s tells something else than %q: %s", d.client.Name, w.tool, w.want, d.part(i))
	}
}

// is holds that a step saw a status, or an end by it.
func (d did) is(t *testing.T, i int, status string) {
	t.Helper()
	if s := d.Answers[i].Status; s != status {
		t.Errorf("%s: the task is %q, want %q: %s", d.client.Name, s, status, d.part(i))
	}
}

// refused holds that a step ended a work with an error of its tool.
func (d did) refused(t *testing.T, i int, w work) {
	t.Helper()
	d.ends(t, i, w, "completed")
	if r := d.Answers[i].Result; r == nil || !r.IsError {
		t.Errorf("%s: %s is no error of the tool: %s", d.client.Name, w.tool, d.part(i))
	}
}

// asked holds that the user was asked what a work asks, once, in a step.
func (d did) asked(t *testing.T, i int, w work) {
	t.Helper()
	if got := d.Answers[i].Asked; !slices.Equal(got, []string{w.asks}) {
		t.Errorf("%s: %s asked %q, want %q once", d.client.Name, w.tool, got, w.asks)
	}
}

// promisesNone holds that no tool says of itself, in the way of the legacy dialect, whether it makes tasks.
func (d did) promisesNone(t *testing.T) {
	t.Helper()
	if len(d.Tools) == 0 {
		t.Errorf("%s sees no tools", d.client.Name)
	}
	for _, tool := range d.Tools {
		if _, has := tool["execution"]; has {
			t.Errorf("%s: tools/list promises tasks: %v", d.client.Name, tool)
		}
	}
}

// task is the id of the task of a step.
func (d did) task(t *testing.T, i int) string {
	t.Helper()
	id := d.Answers[i].Task
	if id == "" {
		t.Fatalf("%s: no task: %s", d.client.Name, d.part(i))
	}
	return id
}

// code holds that a step failed with a code.
func (d did) code(t *testing.T, i int, code int64) {
	t.Helper()
	if e := d.Answers[i].Error; e == nil || e.Code == nil || *e.Code != code {
		t.Errorf("%s: not an error %d: %s", d.client.Name, code, d.part(i))
	}
}

// part is what a step told, as the client wrote it.
func (d did) part(i int) string {
	_, answers, _ := strings.Cut(d.Raw, `"answers":`)
	return fmt.Sprintf("answer %d of %s", i, answers)
}
