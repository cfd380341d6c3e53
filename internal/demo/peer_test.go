package demo

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// connect opens a session of the official client to a handler.
func connect(t *testing.T, h http.Handler, version string) (context.Context, *sdk.ClientSession) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	client := sdk.NewClient(&sdk.Implementation{Name: "peer", Version: "1"}, nil)
	cs, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: srv.URL}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cs.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return ctx, cs
}

func names[T any](items []T, name func(T) string) []string {
	var out []string
	for _, i := range items {
		out = append(out, name(i))
	}
	return out
}

// check walks everything a server offers with the official client.
func check(t *testing.T, ctx context.Context, cs *sdk.ClientSession, want map[string][]string) {
	t.Helper()
	tools, err := cs.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := cs.ListPrompts(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := cs.ListResources(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	templates, err := cs.ListResourceTemplates(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{
		"tools":     names(tools.Tools, func(t *sdk.Tool) string { return t.Name }),
		"prompts":   names(prompts.Prompts, func(p *sdk.Prompt) string { return p.Name }),
		"resources": names(resources.Resources, func(r *sdk.Resource) string { return r.URI }),
		"templates": names(templates.ResourceTemplates, func(r *sdk.ResourceTemplate) string { return r.URITemplate }),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, r := range resources.Resources {
		read, err := cs.ReadResource(ctx, &sdk.ReadResourceParams{URI: r.URI})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text == "" || read.Contents[0].MIMEType != r.MIMEType {
			t.Errorf("%s: %+v, %v", r.URI, read, err)
		}
	}
	if _, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "nothing"}); code(err) != -32602 {
		t.Errorf("unknown tool: %v", err)
	}
	if _, err := cs.GetPrompt(ctx, &sdk.GetPromptParams{Name: "nothing"}); code(err) != -32602 {
		t.Errorf("unknown prompt: %v", err)
	}
	if _, err := cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: "foreign"}); code(err) != -32602 {
		t.Errorf("foreign cursor: %v", err)
	}
}

func code(err error) int64 {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return wire.Code
	}
	return 0
}

// call calls a tool that must succeed and returns its structured content.
func call(t *testing.T, ctx context.Context, cs *sdk.ClientSession, name string, args map[string]any) map[string]any {
	t.Helper()
	res, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	out, ok := res.StructuredContent.(map[string]any)
	if res.IsError || !ok || len(res.Content) != 1 {
		t.Fatalf("%s: %+v", name, res)
	}
	return out
}

// refuse calls a tool whose result must say that it failed.
func refuse(t *testing.T, ctx context.Context, cs *sdk.ClientSession, name string, args map[string]any) {
	t.Helper()
	res, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil || !res.IsError || len(res.Content) != 1 {
		t.Errorf("%s %v: %+v, %v", name, args, res, err)
	}
}

func TestTheOfficialClientUsesTheLibrary(t *testing.T) {
	ctx, cs := connect(t, Library(), "")
	init := cs.InitializeResult()
	if init.ProtocolVersion != "2026-07-28" || init.ServerInfo.Name != "library" || init.Instructions == "" {
		t.Errorf("%+v", init)
	}
	check(t, ctx, cs, map[string][]string{
		"tools":     {"search_books", "get_book", "lend_book", "return_book"},
		"prompts":   {"recommend", "summarize_book"},
		"resources": {"library://rules", "library://catalog"},
		"templates": {"library://books/{id}"},
	})

	found := call(t, ctx, cs, "search_books", map[string]any{"query": "GOTHIC", "limit": 1})
	if found["total"] != 2.0 || len(found["books"].([]any)) != 1 {
		t.Errorf("%v", found)
	}
	lent := call(t, ctx, cs, "lend_book", map[string]any{"id": "b7", "reader": "Zoë"})
	if lent["reader"] != "Zoë" || lent["book"].(map[string]any)["available"] != false {
		t.Errorf("%v", lent)
	}
	refuse(t, ctx, cs, "lend_book", map[string]any{"id": "b7", "reader": "Ann"})
	refuse(t, ctx, cs, "lend_book", map[string]any{"id": "b8"})
	if b := call(t, ctx, cs, "get_book", map[string]any{"id": "b7"}); b["available"] != false || b["author"] != "Charlotte Brontë" {
		t.Errorf("%v", b)
	}
	if b := call(t, ctx, cs, "return_book", map[string]any{"id": "b7"}); b["available"] != true {
		t.Errorf("%v", b)
	}
	refuse(t, ctx, cs, "return_book", map[string]any{"id": "b7"})
	refuse(t, ctx, cs, "get_book", map[string]any{"id": "b99"})
	refuse(t, ctx, cs, "get_book", map[string]any{"id": 7})
	refuse(t, ctx, cs, "get_book", map[string]any{"isbn": "7"})
	refuse(t, ctx, cs, "search_books", map[string]any{"query": "", "limit": 51})

	read, err := cs.ReadResource(ctx, &sdk.ReadResourceParams{URI: "library://books/b7"})
	if err != nil || read.Contents[0].MIMEType != "application/json" {
		t.Errorf("%+v, %v", read, err)
	}
	for _, uri := range []string{"library://books/b99", "library://books/", "file:///elsewhere"} {
		if _, err := cs.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri}); code(err) != -32602 {
			t.Errorf("%s: %v", uri, err)
		}
	}
	got, err := cs.GetPrompt(ctx, &sdk.GetPromptParams{Name: "recommend", Arguments: map[string]string{"genre": "gothic", "mood": "calm"}})
	if err != nil || got.Messages[0].Content.(*sdk.TextContent).Text != "Recommend one gothic book from the library that is available now, and say why. It should feel calm." {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := cs.GetPrompt(ctx, &sdk.GetPromptParams{Name: "recommend"}); code(err) != -32602 {
		t.Errorf("missing argument: %v", err)
	}
	complete(t, ctx, cs, &sdk.CompleteReference{Type: "ref/resource", URI: "library://books/{id}"}, "id", "b1", []string{"b1", "b10"})
	complete(t, ctx, cs, &sdk.CompleteReference{Type: "ref/prompt", Name: "recommend"}, "genre", "M", []string{"mystery"})
	complete(t, ctx, cs, &sdk.CompleteReference{Type: "ref/prompt", Name: "recommend"}, "mood", "", []string{})
}

func complete(t *testing.T, ctx context.Context, cs *sdk.ClientSession, ref *sdk.CompleteReference, arg, value string, want []string) {
	t.Helper()
	got, err := cs.Complete(ctx, &sdk.CompleteParams{Ref: ref, Argument: sdk.CompleteParamsArgument{Name: arg, Value: value}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.Completion.Values); d != "" || got.Completion.Total != len(want) || got.Completion.HasMore {
		t.Errorf("%+v: %s", got.Completion, d)
	}
}

func TestTheOfficialClientUsesTheWorkshop(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(version, func(t *testing.T) {
			ctx, cs := connect(t, Workshop(), version)
			if got := cs.InitializeResult(); got.ProtocolVersion != version || got.ServerInfo.Name != "workshop" {
				t.Errorf("%+v", got)
			}
			check(t, ctx, cs, map[string][]string{
				"tools":     {"convert_units", "roll_dice", "inventory", "take_part"},
				"prompts":   {"plan_project"},
				"resources": {"workshop://safety"},
				"templates": {"workshop://parts/{part}"},
			})
			if err := cs.Ping(ctx, nil); err != nil {
				t.Error(err)
			}
			res, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "convert_units", Arguments: map[string]any{"value": 212, "from": "F", "to": "C"}})
			if err != nil || res.Content[0].(*sdk.TextContent).Text != `{"value":100,"unit":"C"}` {
				t.Errorf("%+v, %v", res, err)
			}
			if structured := res.StructuredContent != nil; structured != (version != "2025-03-26") {
				t.Errorf("structured content: %v", res.StructuredContent)
			}
			refuse(t, ctx, cs, "convert_units", map[string]any{"value": 1, "from": "kg", "to": "m"})
			refuse(t, ctx, cs, "roll_dice", map[string]any{"sides": 1})
			if _, err := cs.ReadResource(ctx, &sdk.ReadResourceParams{URI: "workshop://parts/flywheel"}); code(err) != -32002 {
				t.Errorf("unknown resource: %v", err)
			}
			complete(t, ctx, cs, &sdk.CompleteReference{Type: "ref/resource", URI: "workshop://parts/{part}"}, "part", "s", []string{"screw", "spring"})
		})
	}
}

func TestTheOfficialClientFindsTheWorkshopByProbing(t *testing.T) {
	_, cs := connect(t, Workshop(), "")
	if got := cs.InitializeResult().ProtocolVersion; got != "2025-11-25" {
		t.Errorf("negotiated %s", got)
	}
}

func TestEachSessionTakesItsOwnParts(t *testing.T) {
	w := Workshop()
	ctx, a := connect(t, w, "2025-11-25")
	_, b := connect(t, w, "2025-11-25")
	call(t, ctx, a, "take_part", map[string]any{"part": "gear", "count": 12})
	refuse(t, ctx, a, "take_part", map[string]any{"part": "gear"})
	refuse(t, ctx, a, "take_part", map[string]any{"part": "anvil"})
	got := call(t, ctx, a, "inventory", nil)
	if got["calls"] != 4.0 || got["left"].(map[string]any)["gear"] != 0.0 || got["taken"].(map[string]any)["gear"] != 12.0 {
		t.Errorf("a: %v", got)
	}
	got = call(t, ctx, b, "inventory", nil)
	if got["calls"] != 1.0 || got["left"].(map[string]any)["gear"] != 12.0 {
		t.Errorf("b: %v", got)
	}
}

func TestDiceStayWithinTheirSides(t *testing.T) {
	ctx, cs := connect(t, Workshop(), "2025-11-25")
	got := call(t, ctx, cs, "roll_dice", map[string]any{"count": 100, "sides": 3})
	sum, rolls := 0.0, got["rolls"].([]any)
	for _, r := range rolls {
		n := r.(float64)
		if n < 1 || n > 3 {
			t.Errorf("rolled %v", n)
		}
		sum += n
	}
	if len(rolls) != 100 || got["total"] != sum {
		t.Errorf("%v", got)
	}
}

// One copy is lent once, however many ask for it at the same time.
func TestABookIsLentOnce(t *testing.T) {
	s := newShelf()
	got := make(chan error, 16)
	for range cap(got) {
		go func() {
			s.ids()
			_, err := s.move("b1", false)
			got <- err
		}()
	}
	lent := 0
	for range cap(got) {
		if err := <-got; err == nil {
			lent++
		}
	}
	if lent != 1 {
		t.Errorf("lent %d times", lent)
	}
}
