package taskspeers_test

import (
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
	"github.com/penstock-mcp/penstock/test/peers"
)

// work is a call that becomes a task.
type work struct {
	tool      string // as the gateway names it
	arguments map[string]any
	answer    map[string]any // to what it asks
	asks      string         // what it asks
	want      string         // what its end tells
	code      int64          // of the error that it ends with
}

// works are the ways in which the tasks of an upstream end. What is empty, the upstream does not have.
type works struct {
	completes, refuses, fails, asks, lasts work
}

// jobWorks are those of a job server, and of a slow one.
func jobWorks(quick, slow string) works {
	return works{
		completes: work{tool: quick + "__bake_cake", arguments: map[string]any{"flavor": "lemon"}, want: "lemon cake"},
		refuses:   work{tool: quick + "__flaky_job", arguments: map[string]any{"how": "error"}, want: "the belt came off"},
		fails:     work{tool: quick + "__flaky_job", arguments: map[string]any{"how": "crash"}, want: "the machine lost its power", code: -32603},
		asks: work{
			tool: quick + "__ship_order", arguments: map[string]any{"item": "teapot"},
			asks: "Where does your order go (1 of teapot)?", answer: map[string]any{"street": "3 Lock Lane", "city": "Weir"}, want: "3 Lock Lane",
		},
		lasts: work{tool: slow + "__bake_cake", arguments: map[string]any{"flavor": "plum"}},
	}
}

// idHead begins the id of every task of a job server. It cannot stand in a header as it is.
const idHead = "jöb №"

var minted atomic.Int64 // ids of all job servers

// jobs starts a job server, and returns its URL.
func jobs(t *testing.T, dialect func(demo.JobOptions) *demo.JobServer, pace time.Duration) string {
	t.Helper()
	shop := dialect(demo.JobOptions{
		Pace: pace, Poll: 50 * time.Millisecond, Grace: 20 * time.Millisecond,
		IDs: func() string { return fmt.Sprintf("%s%d", idHead, minted.Add(1)) },
	})
	server := httptest.NewServer(shop)
	t.Cleanup(func() {
		shop.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// What the stages of quick jobs and of slow ones last; slow ones do not end within a test.
const quickPace, slowPace = 100 * time.Millisecond, time.Hour

// fastWorks are those of the tasks server of FastMCP, as the upstream fast.
var fastWorks = works{
	completes: work{tool: "fast__compost", arguments: map[string]any{"leaves": 3}, want: "3 leaves of soil"},
	refuses:   work{tool: "fast__refuse", arguments: map[string]any{}, want: "the pump is dry"},
	fails:     work{tool: "fast__collapse", arguments: map[string]any{}, want: "the dam is gone", code: -32050},
	asks: work{
		tool: "fast__plant", arguments: map[string]any{"tree": "oak"},
		asks: "Where does the oak go?", answer: map[string]any{"place": "the brook"}, want: "the oak grows at the brook",
	},
	lasts: work{tool: "fast__linger", arguments: map[string]any{}},
}

// researchWorks are those of the npm everything server, as the upstream research. It never fails.
var researchWorks = works{
	completes: work{tool: "research__simulate-research-query", arguments: map[string]any{"topic": "tides"}, want: "Research Report: tides"},
	asks: work{
		tool: "research__simulate-research-query", arguments: map[string]any{"topic": "python", "ambiguous": true},
		asks:   `The research query "python" could have multiple interpretations. Please clarify what you're looking for:`,
		answer: map[string]any{"interpretation": "snake"}, want: "Research Report: python (snake)",
	},
	lasts: work{tool: "research__simulate-research-query", arguments: map[string]any{"topic": "ebb"}},
}

// started is the URL of a server that others wrote, which runs as long as the test.
func started(t *testing.T, server peers.Server) string {
	t.Helper()
	running, err := server.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Kill)
	return running.URL
}
