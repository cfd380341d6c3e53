package neutral

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Options are what a provider needs.
type Options struct {
	Root   string   // where events and artifacts go; it exists
	Worker []string // the command of a worker, without its environment
}

// provider serves one client. Requests are answered in their order; workers run
// beside them.
type provider struct {
	o   Options
	ctx context.Context // ends with the provider, and every worker with it

	mu    sync.Mutex // guards what follows
	tasks map[string]*task
	alive sync.WaitGroup // of the watchers of workers
}

// Serve serves one client until in or ctx ends. It then kills the workers that
// run, and returns when they have ended.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	o.Root = root
	if err := makeFolders(root); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &provider{o: o, ctx: ctx, tasks: map[string]*task{}}
	defer p.alive.Wait()
	defer cancel()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		msg, about, failure := read(lines.Bytes())
		if msg == nil {
			continue
		}
		var result any
		if failure == nil {
			result, failure = p.answer(msg, about)
		}
		line, err := response(msg.ID, result, failure)
		if err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return lines.Err()
}

// complete is what every result but that of a call has.
type complete struct {
	ResultType string `json:"resultType"`
}

var isComplete = complete{ResultType: "complete"}

func (p *provider) answer(msg *message, about *meta) (any, *fault.Error) {
	switch msg.Method {
	case mcp.Discover:
		return jsontext.Value(discovered), nil
	case mcp.ToolsList:
		return jsontext.Value(listed), nil
	case mcp.ToolsCall, mcp.TasksGet, mcp.TasksCancel, mcp.TasksUpdate:
	default:
		return nil, fault.New(fault.MethodNotFound, "unknown method %q", msg.Method)
	}
	caps, err := mcp.ParseClientCaps(about.Capabilities)
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidParams, "the client capabilities are malformed")
	}
	if !caps.HasExtension(mcp.ExtensionTasks) {
		return nil, fault.New(fault.MissingCapability, "everything here is a task").
			WithData([]byte(`{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`))
	}
	if msg.Method == mcp.ToolsCall {
		return p.call(msg, about)
	}
	var in struct {
		ID string `json:"taskId"`
	}
	if failure := decode(msg.Params, &in); failure != nil {
		return nil, failure
	}
	if msg.Method == mcp.TasksUpdate {
		// Nothing here ever asks; that one came is what counts.
		if err := Record(p.o.Root, Update, "update"); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "the event could not be recorded")
		}
	}
	p.mu.Lock()
	t := p.tasks[in.ID]
	p.mu.Unlock()
	if t == nil {
		return nil, fault.New(fault.InvalidParams, "Task not found")
	}
	switch msg.Method {
	case mcp.TasksGet:
		return t.detailed(), nil
	case mcp.TasksCancel:
		t.cancel()
		if err := Record(p.o.Root, CancelAck, t.id); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "the event could not be recorded")
		}
	}
	return isComplete, nil
}

const (
	info = `"_meta":{"` + mcp.MetaServerInfo + `":{"name":"penstock-neutral-provider","version":"1.0.0"}}`

	discovered = `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","supportedVersions":["2026-07-28"],` +
		`"capabilities":{"tools":{},"extensions":{"` + mcp.ExtensionTasks + `":{}}},` + info + `}`

	listed = `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[` + definition + `],` + info + `}`

	definition = `{"name":"` + Tool + `","title":"Normalize JSON","description":"Write the canonical form of a small JSON object, and a manifest of what was written.",` +
		`"inputSchema":{"type":"object","properties":{"input":{"type":"object","description":"At most 4096 bytes"},` +
		`"outputDirectory":{"type":"string","minLength":1,"description":"Relative, of at most 8 plain names"},` +
		`"delayMs":{"type":"integer","minimum":0,"maximum":10000,"description":"To wait before the effect"},` +
		`"alterIdentity":{"type":"boolean","description":"Write another identity than the one that was given, and end well"}},` +
		`"required":["input","outputDirectory"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`
)
