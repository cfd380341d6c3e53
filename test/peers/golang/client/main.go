// The program client is an MCP client on the official Go SDK.
//
// Arguments: ENDPOINT [MODE [asked]], where ENDPOINT is a URL, or the argv of a server over stdio as a JSON array, and MODE
// is auto or legacy. Standard input: {"steps": [{"method": …, "params": …}]}. Standard
// output: one JSON report with protocolVersion, serverInfo, tools, prompts, resources, resourceTemplates and answers,
// where each answer is {"result": …} or {"error": {"code", "message"}}, in the order of the steps. With asked it is a client
// that can be asked, with the input and output of js/asked.mjs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type step struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type failure struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

type answer struct {
	Result any      `json:"result,omitempty"`
	Error  *failure `json:"error,omitempty"`
}

type report struct {
	ProtocolVersion   string                  `json:"protocolVersion"`
	ServerInfo        *mcp.Implementation     `json:"serverInfo"`
	Tools             []*mcp.Tool             `json:"tools"`
	Prompts           []*mcp.Prompt           `json:"prompts"`
	Resources         []*mcp.Resource         `json:"resources"`
	ResourceTemplates []*mcp.ResourceTemplate `json:"resourceTemplates"`
	Answers           []answer                `json:"answers"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "go client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) < 2 {
		return errors.New("usage: client URL|JSON-ARGV [auto|legacy [asked]]")
	}
	options := &mcp.ClientSessionOptions{}
	if len(os.Args) > 2 && os.Args[2] == "legacy" {
		options.ProtocolVersion = "2025-11-25"
	}
	if len(os.Args) > 3 && os.Args[3] == "asked" {
		var script askedScript
		if err := json.NewDecoder(os.Stdin).Decode(&script); err != nil {
			return fmt.Errorf("read the script: %w", err)
		}
		a := newAsked(script)
		return drive(ctx, a.client(), options, a.run)
	}
	var script struct {
		Steps []step `json:"steps"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&script); err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "peer-go", Version: "1.0.0"}, nil)
	return drive(ctx, client, options, func(ctx context.Context, session *mcp.ClientSession) (*report, error) {
		return ask(ctx, session, script.Steps)
	})
}

// drive connects a client to the endpoint, lets do have the session, and writes what it reports.
func drive[R any](ctx context.Context, client *mcp.Client, options *mcp.ClientSessionOptions, do func(context.Context, *mcp.ClientSession) (R, error)) error {
	transport, err := transportTo(os.Args[1])
	if err != nil {
		return err
	}
	session, err := client.Connect(ctx, transport, options)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	out, err := do(ctx, session)
	if err != nil {
		return err
	}
	// A server over stdio that ignores the end of its input is ended by a signal.
	var exit *exec.ExitError
	if err := session.Close(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() >= 0) {
		return fmt.Errorf("close: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func transportTo(endpoint string) (mcp.Transport, error) {
	if endpoint[0] != '[' {
		return &mcp.StreamableClientTransport{Endpoint: endpoint}, nil
	}
	var argv []string
	if err := json.Unmarshal([]byte(endpoint), &argv); err != nil || len(argv) == 0 {
		return nil, fmt.Errorf("no argv: %s: %w", endpoint, err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	return &mcp.CommandTransport{Command: cmd}, nil
}

func ask(ctx context.Context, session *mcp.ClientSession, steps []step) (*report, error) {
	hello := session.InitializeResult()
	out := &report{ProtocolVersion: hello.ProtocolVersion, ServerInfo: hello.ServerInfo}
	var errs [4]error
	if hello.Capabilities.Tools != nil {
		out.Tools, errs[0] = collect(session.Tools(ctx, nil))
	}
	if hello.Capabilities.Prompts != nil {
		out.Prompts, errs[1] = collect(session.Prompts(ctx, nil))
	}
	if hello.Capabilities.Resources != nil {
		out.Resources, errs[2] = collect(session.Resources(ctx, nil))
		out.ResourceTemplates, errs[3] = collect(session.ResourceTemplates(ctx, nil))
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	for _, s := range steps {
		result, err := one(ctx, session, s)
		a := answer{Result: result}
		if err != nil {
			f := &failure{Message: err.Error()}
			var wire *jsonrpc.Error
			if errors.As(err, &wire) {
				f.Code, f.Message = wire.Code, wire.Message
			}
			a = answer{Error: f}
		}
		out.Answers = append(out.Answers, a)
	}
	return out, nil
}

func collect[T any](items iter.Seq2[*T, error]) ([]*T, error) {
	var all []*T
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// one gives the SDK the typed parameters that it wants.
func one(ctx context.Context, session *mcp.ClientSession, s step) (any, error) {
	switch s.Method {
	case "tools/call":
		return call(ctx, s.Params, session.CallTool)
	case "prompts/get":
		return call(ctx, s.Params, session.GetPrompt)
	case "resources/read":
		return call(ctx, s.Params, session.ReadResource)
	case "completion/complete":
		return call(ctx, s.Params, session.Complete)
	default:
		return nil, fmt.Errorf("no such step: %s", s.Method)
	}
}

func call[P, R any](ctx context.Context, params json.RawMessage, do func(context.Context, *P) (*R, error)) (any, error) {
	p := new(P)
	if err := json.Unmarshal(params, p); err != nil {
		return nil, fmt.Errorf("read the step: %w", err)
	}
	result, err := do(ctx, p)
	if err != nil {
		return nil, err
	}
	return result, nil
}
