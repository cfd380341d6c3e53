package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// The bounds on how often a task is asked how it is.
const (
	pollLeast = 200 * time.Millisecond
	pollMost  = 30 * time.Second
	pollUsual = time.Second
)

// errTaskEnded is a task that ended without a result.
var errTaskEnded = errors.New("the task has no result")

// follow drives the task that an answer is to its end, and returns the result of
// the tool. Any other answer is the result itself.
func (c *caller) follow(ctx context.Context, answer jsontext.Value) (jsontext.Value, error) {
	id, isTask := taskOf(c.method, answer)
	if !isTask {
		return answer, nil
	}
	line := &progressLine{w: c.notes, live: isTerminal(c.notes), began: time.Now()}
	defer line.end()
	for {
		status, _ := stringMember(answer, "status")
		message, _ := stringMember(answer, "statusMessage")
		switch status {
		case "completed":
			start, end, ok := locateMember(answer, "result")
			if !ok {
				return nil, &oddAnswer{what: "a completed task without a result"}
			}
			line.say(id, status, message)
			return answer[start:end], nil
		case "failed", "cancelled":
			line.end()
			return nil, fmt.Errorf("%w: task %s %s%s", errTaskEnded, printable(id), status, because(answer, message))
		case "input_required":
			line.ask(id, c.url.Redacted(), answer)
		}
		line.say(id, status, message)
		select {
		case <-ctx.Done():
			line.end()
			fmt.Fprintf(c.notes, "penstock: task %s goes on; follow it again with: penstock call --follow %s tasks/get '{\"taskId\":%s}'\n",
				printable(id), c.url.Redacted(), strconv.Quote(id))
			return nil, ctx.Err()
		case <-time.After(pollAfter(answer)):
		}
		var err error
		if answer, err = c.getTask(ctx, id); err != nil {
			return nil, err
		}
	}
}

// taskOf tells whether an answer is a task, and which.
func taskOf(method string, answer jsontext.Value) (id string, ok bool) {
	kind, _ := stringMember(answer, "resultType")
	if kind != "task" && method != mcp.TasksGet {
		return "", false
	}
	return stringMember(answer, "taskId")
}

func (c *caller) getTask(ctx context.Context, id string) (jsontext.Value, error) {
	quoted, err := jsontext.AppendQuote([]byte(`{"taskId":`), id)
	if err != nil {
		return nil, &oddAnswer{what: "a task whose id is not UTF-8"}
	}
	one := *c
	one.method, one.params, one.tasks = mcp.TasksGet, append(quoted, '}'), true
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return one.callModern(within)
}

// pollAfter is how long the server wants to be left alone.
func pollAfter(answer jsontext.Value) time.Duration {
	start, end, ok := locateMember(answer, "pollIntervalMs")
	if !ok {
		return pollUsual
	}
	ms, err := strconv.ParseFloat(string(answer[start:end]), 64)
	if err != nil || ms != ms {
		return pollUsual
	}
	return max(pollLeast, min(pollMost, time.Duration(ms)*time.Millisecond))
}

// because tells why a task ended, as far as it says.
func because(answer jsontext.Value, message string) string {
	if start, end, ok := locateMember(answer, "error"); ok {
		if text, ok := stringMember(answer[start:end], "message"); ok {
			message = text
		}
	}
	if message == "" {
		return ""
	}
	return ": " + printable(message)
}

// progressLine tells how a task is: on a terminal in one line that is written over,
// elsewhere a line for each change.
type progressLine struct {
	w     io.Writer
	live  bool
	began time.Time
	last  string
	asked string
	open  bool // a line that is written over stands there
}

func (l *progressLine) say(id, status, message string) {
	text := printable(status)
	if message != "" {
		text += ": " + printable(message)
	}
	if l.live {
		l.open = true
		fmt.Fprintf(l.w, "\r\033[K%s %s (%s)", printable(short(id)), text, time.Since(l.began).Round(time.Second))
		return
	}
	if text != l.last {
		l.last = text
		fmt.Fprintf(l.w, "task %s %s\n", printable(id), text)
	}
}

// ask shows what a task wants to know, each question once.
func (l *progressLine) ask(id, url string, answer jsontext.Value) {
	start, end, ok := locateMember(answer, "inputRequests")
	if !ok || string(answer[start:end]) == l.asked {
		return
	}
	l.asked = string(answer[start:end])
	l.end()
	fmt.Fprintf(l.w, "the task asks:\n%s\nanswer with: penstock call --tasks %s tasks/update '{\"taskId\":%s,\"inputResponses\":{\"KEY\":{\"action\":\"accept\",\"content\":{...}}}}'\n",
		pretty(answer[start:end]), url, strconv.Quote(id))
}

func (l *progressLine) end() {
	if l.open {
		fmt.Fprintln(l.w)
	}
	l.open = false
}

// short is the beginning of an id that is too long for a line.
func short(id string) string {
	if len(id) <= 12 {
		return id
	}
	return strings.ToValidUTF8(id[:12], "") + "…"
}

// isTerminal reports whether somebody watches what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
