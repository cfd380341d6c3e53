// The program witness is an MCP server on the official Go SDK that tells what became of a call.
//
// Its tool wait reports progress at once and then each interval, for half a minute at most, and when the call is cancelled
// it adds a line to a file. Its tool seen waits for that line, for ten seconds at most, and returns it: which call it was,
// how many events had been sent, and in which era. The file is what processes of one test share.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	httpAddr  = flag.String("http", "", "serve streamable HTTP at this address, instead of stdio")
	stateless = flag.Bool("stateless", true, "serve HTTP without sessions, in both eras")
	record    = flag.String("record", "", "the file that gets a line for each cancelled call")
)

func main() {
	flag.Parse()
	server := mcp.NewServer(&mcp.Implementation{Name: "peer-witness", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "wait", Description: "Reports progress until it is cancelled"}, wait)
	mcp.AddTool(server, &mcp.Tool{Name: "seen", Description: "Tells how a call of wait was cancelled"}, seen)
	if *httpAddr == "" {
		if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Fatal(err)
		}
		return
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: *stateless, PropagateRequestCancellation: true})
	log.Fatal(http.ListenAndServe(*httpAddr, handler)) //nolint:gosec // on loopback, for one test
}

type waitInput struct {
	Call    string `json:"call" jsonschema:"the name of this call in the record"`
	EveryMS int    `json:"every_ms,omitempty" jsonschema:"the interval of the events; 50 when absent"`
}

func wait(ctx context.Context, r *mcp.CallToolRequest, in waitInput) (*mcp.CallToolResult, any, error) {
	if in.EveryMS <= 0 {
		in.EveryMS = 50
	}
	every := time.NewTicker(time.Duration(in.EveryMS) * time.Millisecond)
	defer every.Stop()
	end := time.After(30 * time.Second)
	for sent := 0; ; {
		sent++
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(sent)})
		select {
		case <-ctx.Done():
			return nil, nil, write(fmt.Sprintf("%s cancelled after %d in %s\n", in.Call, sent, era(r)))
		case <-end:
			return text("nobody cancelled it"), nil, nil
		case <-every.C:
		}
	}
}

// era is told by what the call itself carries.
func era(r *mcp.CallToolRequest) string {
	if r.Params.GetMeta()["io.modelcontextprotocol/protocolVersion"] != nil {
		return "modern"
	}
	return "legacy"
}

// write adds a whole line, whichever process does.
func write(line string) error {
	f, err := os.OpenFile(*record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line)
	return err
}

type seenInput struct {
	Call string `json:"call" jsonschema:"the name of the call"`
}

func seen(ctx context.Context, _ *mcp.CallToolRequest, in seenInput) (*mcp.CallToolResult, any, error) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		all, err := os.ReadFile(*record)
		if err != nil && !os.IsNotExist(err) {
			return nil, nil, err
		}
		for line := range strings.Lines(string(all)) {
			if rest, mine := strings.CutPrefix(line, in.Call+" "); mine {
				return text(strings.TrimSpace(rest)), nil, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return text("not cancelled"), nil, nil
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
