package penstock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/demo"
)

// The gateway in a program of one's own: a document, New, Run beside the HTTP
// server, and Close when that has ended.
func Example() {
	upstream := httptest.NewServer(demo.Library()) // any MCP server that speaks streamable HTTP
	defer upstream.Close()

	doc, err := config.Parse("penstock.yaml", []byte("upstreams:\n  library: {url: '"+upstream.URL+"/mcp'}\n"), os.LookupEnv)
	if err != nil {
		log.Fatal(err)
	}
	gw, err := penstock.New(doc)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- gw.Run(ctx) }()
	server := httptest.NewServer(gw.Handler())

	fmt.Println(fetch(server.URL + "/health"))
	fmt.Println(prompt(server.URL+"/mcp", "library__recommend", `{"genre":"gothic"}`))

	server.Close()
	stop()
	if err := <-ran; err != nil {
		log.Fatal(err)
	}
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := gw.Close(end); err != nil {
		log.Fatal(err)
	}

	// Output:
	// ok
	// Recommend one gothic book from the library that is available now, and say why.
}

func fetch(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}

// prompt gets a prompt as a client of 2026-07-28 does.
func prompt(url, name, arguments string) string {
	body := `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"` + name + `","arguments":` + arguments + `,
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": name,
	} {
		req.Header.Set(key, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Result struct {
			Messages []struct {
				Content struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"messages"`
		} `json:"result"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Result.Messages) != 1 {
		log.Fatal("no prompt: ", err)
	}
	return answer.Result.Messages[0].Content.Text
}
