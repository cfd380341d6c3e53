// Sampling and roots are deprecated, and asked for all the same.
//
//lint:file-ignore SA1019 the tests are about them

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// askedScript is what a client that can be asked is told to do; js/asked.mjs explains its members and those of the report.
type askedScript struct {
	Name         string         `json:"name"`
	Capabilities map[string]any `json:"capabilities"`
	Known        []string       `json:"known"`
	Steps        []askedStep    `json:"steps"`
	InOrder      bool           `json:"inOrder"`
	Watch        *askedWatch    `json:"watch"`
}

type askedStep struct {
	Name        string         `json:"name"`
	Prompt      bool           `json:"prompt"`
	Arguments   map[string]any `json:"arguments"`
	CancelAfter int            `json:"cancelAfter"`
}

type askedWatch struct {
	URIs    []string  `json:"uris"`
	Trigger askedStep `json:"trigger"`
	Want    []string  `json:"want"`
}

type askedReport struct {
	ProtocolVersion string   `json:"protocolVersion"`
	Tools           []string `json:"tools"`
	Answers         []any    `json:"answers"`
	Strange         []string `json:"strange"`
	Heard           []string `json:"heard"`
	Triggers        int      `json:"triggers"`
}

// asked is one client that can be asked.
type asked struct {
	script  askedScript
	session *mcp.ClientSession
	news    chan struct{}

	mu     sync.Mutex // guards what follows
	report askedReport
	calls  map[string]*askedCall // by progress token
}

// askedCall is a call that is cancelled at one of its events.
type askedCall struct {
	cancel context.CancelFunc
	at     int
	seen   int
}

func newAsked(script askedScript) *asked {
	return &asked{script: script, news: make(chan struct{}, 1), calls: map[string]*askedCall{}, report: askedReport{Strange: []string{}, Heard: []string{}}}
}

// client declares and handles what the script says.
func (a *asked) client() *mcp.Client {
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}, ProgressNotificationHandler: a.progress}
	if a.script.Capabilities["sampling"] != nil {
		options.CreateMessageHandler = a.sample
	}
	if a.script.Capabilities["elicitation"] != nil {
		options.ElicitationHandler = a.elicit
	}
	if a.script.Watch != nil {
		options.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { a.hear("tools") }
		options.ResourceUpdatedHandler = func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { a.hear(r.Params.URI) }
	}
	roots := a.script.Capabilities["roots"] != nil
	if roots {
		options.Capabilities.RootsV2 = &mcp.RootCapabilities{}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "peer-asked-" + a.script.Name, Version: "1.0.0"}, options)
	if roots {
		client.AddRoots(&mcp.Root{URI: "file:///" + a.script.Name, Name: a.script.Name})
	}
	return client
}

// run is what the client does once it is connected.
func (a *asked) run(ctx context.Context, session *mcp.ClientSession) (*askedReport, error) {
	a.session = session
	a.report.ProtocolVersion = session.InitializeResult().ProtocolVersion
	tools, err := collect(session.Tools(ctx, nil))
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	for _, tool := range tools {
		a.report.Tools = append(a.report.Tools, tool.Name)
	}
	answers := make([]any, len(a.script.Steps))
	var group sync.WaitGroup
	for i, step := range a.script.Steps {
		if a.script.InOrder {
			answers[i] = a.one(ctx, i, step)
			continue
		}
		group.Go(func() { answers[i] = a.one(ctx, i, step) })
	}
	group.Wait()
	if a.script.Watch != nil {
		if err := a.watch(ctx, a.script.Watch); err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Answers = answers
	out := a.report
	return &out, nil
}

func (a *asked) one(ctx context.Context, i int, step askedStep) any {
	text, seen, err := a.call(ctx, i, step)
	var wire *jsonrpc.Error
	switch {
	case err == nil:
		return text
	case seen > 0 && errors.Is(err, context.Canceled):
		return map[string]any{"cancelled": seen}
	case errors.As(err, &wire):
		return answer{Error: &failure{Code: wire.Code, Message: wire.Message}}
	default:
		return answer{Error: &failure{Message: err.Error()}}
	}
}

// call returns the text of what a step gave, and how many events came before the client cancelled it.
func (a *asked) call(ctx context.Context, i int, step askedStep) (text string, seen int, err error) {
	if step.Prompt {
		result, err := a.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: step.Name})
		if err != nil {
			return "", 0, err
		}
		var content []mcp.Content
		for _, message := range result.Messages {
			content = append(content, message.Content)
		}
		return texts(content), 0, nil
	}
	params := &mcp.CallToolParams{Name: step.Name, Arguments: step.Arguments}
	if step.CancelAfter > 0 {
		token := fmt.Sprint("step ", i)
		params.SetProgressToken(token)
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		call := &askedCall{cancel: cancel, at: step.CancelAfter}
		a.mu.Lock()
		a.calls[token] = call
		a.mu.Unlock()
		defer func() {
			a.mu.Lock()
			seen = call.seen
			a.mu.Unlock()
		}()
	}
	result, err := a.session.CallTool(ctx, params)
	if err != nil {
		return "", 0, err
	}
	return texts(result.Content), 0, nil
}

func texts(content []mcp.Content) string {
	var all []string
	for _, c := range content {
		if text, ok := c.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

func (a *asked) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	call := a.calls[fmt.Sprint(r.Params.ProgressToken)]
	if call == nil {
		return
	}
	if call.seen++; call.seen == call.at {
		call.cancel()
	}
}

func (a *asked) sample(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	text := texts([]mcp.Content{r.Params.Messages[0].Content})
	a.mine(text)
	return &mcp.CreateMessageResult{Role: "assistant", Model: "none", Content: &mcp.TextContent{Text: a.script.Name + " says: " + text}}, nil
}

func (a *asked) elicit(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	a.mine(r.Params.Message)
	raw, err := json.Marshal(r.Params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	var schema struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	content := map[string]any{}
	for key, property := range schema.Properties {
		switch property.Type {
		case "boolean":
			content[key] = true
		case "string":
			content[key] = a.script.Name + " on: " + r.Params.Message
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

// mine notes a question that is not this client's.
func (a *asked) mine(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !strings.Contains(text, a.script.Name) && !slices.Contains(a.script.Known, text) {
		a.report.Strange = append(a.report.Strange, text)
	}
}

func (a *asked) hear(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Heard = append(a.report.Heard, what)
	select {
	case a.news <- struct{}{}:
	default:
	}
}

func (a *asked) lacks(want []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	open := slices.Clone(want)
	for _, what := range a.report.Heard {
		if i := slices.Index(open, what); i >= 0 {
			open = slices.Delete(open, i, i+1)
		}
	}
	return len(open) > 0
}

// watch calls the trigger until the client has heard all that it wants, for twenty seconds at most.
func (a *asked) watch(ctx context.Context, w *askedWatch) error {
	for _, uri := range w.URIs {
		if err := a.session.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(20 * time.Second); a.lacks(w.Want) && time.Now().Before(deadline); {
		a.report.Triggers++
		if _, _, err := a.call(ctx, 0, w.Trigger); err != nil {
			return err
		}
		for again := time.After(4 * time.Second); a.lacks(w.Want); {
			select {
			case <-a.news:
				continue
			case <-again:
			}
			break
		}
	}
	for _, uri := range w.URIs {
		if err := a.session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri}); err != nil {
			return err
		}
	}
	return nil
}
