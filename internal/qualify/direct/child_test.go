package direct_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/direct"
)

const asUpstream = "__upstream"

// TestMain makes the test binary be an upstream that does what it is told.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asUpstream {
		upstream()
		return
	}
	goleak.VerifyTestMain(m)
}

func upstream() {
	lines, looks := bufio.NewScanner(os.Stdin), 0
	for lines.Scan() {
		var q struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(lines.Bytes(), &q) != nil {
			os.Exit(3)
		}
		say := func(result string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", q.ID, result) }
		switch q.Method {
		case "server/discover":
			say(`{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"u"}}}`)
		case "tools/list":
			looks++
			if looks > 2 {
				say(`{"tools":[{"name":"other"}]}`)
			} else {
				say(`{"tools":[{"name":"run","annotations":{"readOnlyHint":true}}]}`)
			}
		case "echo":
			fmt.Println(`no message`)
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
			fmt.Println(`{"jsonrpc":"2.0","id":"foreign","result":{}}`)
			say(lines.Text())
		case "refuse":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no","data":{"why":1}}}`+"\n", q.ID)
		case "nothing":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s}`+"\n", q.ID)
		case "flood":
			fmt.Println(strings.Repeat("x", 2<<20))
		case "exit":
			fmt.Fprintln(os.Stderr, "as it was told")
			os.Exit(4)
		}
	}
}

func start(t *testing.T) (*direct.Child, *direct.Source, durable.Connection) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u, err := direct.Start(t.Context(), direct.Command{Argv: []string{exe, asUpstream}, Env: append(direct.Environment(), "GORACE=atexit_sleep_ms=0")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Kill)
	offer, err := u.Discover(t.Context())
	if err != nil || !offer.SupportsTasks() {
		t.Fatalf("%+v, %v", offer, err)
	}
	s, err := direct.Pin("u", u, offer, durable.Settings{Echo: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u, s, c
}

func send(t *testing.T, c durable.Connection, method string) durable.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	return c.Send(ctx, method, "", json.RawMessage(`{"a":1.0,"_meta":{"x":"<&>"}}`), nil)
}

func TestARequestBringsWhatItsSenderWroteAndTheMetadataOfTheHop(t *testing.T) {
	t.Parallel()
	_, _, c := start(t)
	r := send(t, c, "echo")
	var sent struct {
		Params struct {
			A    json.RawMessage
			Meta map[string]json.RawMessage `json:"_meta"`
		}
	}
	if r.Fault != nil || json.Unmarshal(r.Result, &sent) != nil || string(sent.Params.A) != "1.0" || len(sent.Params.Meta) != 4 {
		t.Errorf("%s, %v", r.Result, r.Fault)
	}
	if r := send(t, c, "refuse"); r.Error == nil || r.Error.Code != -32602 || string(r.Error.Data) != `{"why":1}` {
		t.Errorf("%+v", r)
	}
	if r := send(t, c, "nothing"); r.Fault == nil || r.Unsent {
		t.Errorf("%+v", r)
	}
}

func TestWhatWasSentIsToldFromWhatWasNot(t *testing.T) {
	t.Parallel()
	u, s, c := start(t)
	if r := send(t, c, "silence"); !errors.Is(r.Fault, context.DeadlineExceeded) || r.Unsent {
		t.Errorf("without an answer: %+v", r)
	}
	fenced := errors.New("fenced")
	if r := c.Send(t.Context(), "echo", "", nil, func() error { return fenced }); !errors.Is(r.Fault, fenced) || !r.Unsent {
		t.Errorf("fenced: %+v", r)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if r := c.Send(over, "echo", "", nil, nil); r.Fault == nil || !r.Unsent {
		t.Errorf("too late: %+v", r)
	}
	if r := c.Send(t.Context(), "exit", "", nil, nil); r.Fault == nil || r.Unsent {
		t.Errorf("while it ended: %+v", r)
	}
	if r := c.Send(t.Context(), "echo", "", nil, nil); r.Fault == nil || !r.Unsent {
		t.Errorf("behind its end: %+v", r)
	}
	if _, err := s.Connect(t.Context()); err == nil {
		t.Error("there is a connection behind the end")
	}
	if err := u.Close(time.Second); err == nil || !strings.Contains(err.Error(), "as it was told") {
		t.Error(err)
	}
}

func TestALineTooLongEndsTheSessionAndNotTheReading(t *testing.T) {
	t.Parallel()
	u, _, c := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if r := c.Send(ctx, "flood", "", nil, nil); r.Fault == nil || r.Unsent || ctx.Err() != nil {
		t.Errorf("%+v", r)
	}
	if err := u.Close(5 * time.Second); err != nil {
		t.Error(err)
	}
}

func TestAnUpstreamThatIsNotAsItWasPinnedHasNoConnection(t *testing.T) {
	t.Parallel()
	u, s, _ := start(t) // looked twice
	if _, err := s.Connect(t.Context()); err != nil {
		t.Errorf("looked at once more: %v", err)
	}
	changed, err := u.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := direct.Pin("u", u, &durable.Offer{Revision: changed.Revision, Tools: nil}, durable.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Connect(t.Context()); !errors.Is(err, durable.ErrChanged) {
		t.Error(err)
	}
	if target, err := s.Target("run"); err != nil || target.Effect != durable.ReadOnly {
		t.Errorf("%+v, %v", target, err)
	}
	if _, err := s.Target("none"); err == nil {
		t.Error("there is a target for no tool")
	}
}

func TestAChildEndsWithItsContext(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	u, err := direct.Start(ctx, direct.Command{Argv: []string{exe, asUpstream}, Env: append(direct.Environment(), "GORACE=atexit_sleep_ms=0")})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := u.Close(5 * time.Second); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
