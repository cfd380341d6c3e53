package south

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// TestMain lets this binary be the child of a test, the child's guard, and a
// gateway that dies.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "child-guard":
			Guard(os.Stdin)
		case "child-server":
			newTestServer(os.Args[2]).run()
			return
		case "child-gateway":
			dyingGateway(os.Args[2:])
			return
		}
	}
	os.Exit(m.Run())
}

// testServer is an MCP server over stdio that misbehaves as its mode, a list of
// words, says.
type testServer struct {
	modes      []string
	questioner questioner
	out        sync.Mutex // guards stdout
	mu         sync.Mutex // guards what follows
	cancelled  []string
	answers    []string // to requests of its own
	asked      []string // for what it is to tell of, in order
	listen     string   // raw id of the last subscriptions/listen
}

func newTestServer(modes string) *testServer { return &testServer{modes: strings.Split(modes, ",")} }

func (s *testServer) is(mode string) bool { return slices.Contains(s.modes, mode) }

type testMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments map[string]any  `json:"arguments"`
		RequestID json.RawMessage `json:"requestId"`
		Level     string          `json:"level"`
		URI       string          `json:"uri"`
		Filter    json.RawMessage `json:"notifications"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

func (s *testServer) say(format string, args ...any) {
	s.out.Lock()
	defer s.out.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// caps are its capabilities; in mode "tells" it tells of everything.
func (s *testServer) caps() string {
	if s.is("tells") {
		return tells
	}
	if s.is("legacy") || s.is("exits") || s.is("silent") {
		return `{"tools":{},"logging":{}}`
	}
	return `{"tools":{}}`
}

func (s *testServer) wasAsked(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
}

func (s *testServer) run() {
	if s.is("stubborn") {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, os.Interrupt)
	}
	if s.is("forks") {
		c := exec.Command("sleep", "1000")
		if err := c.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "grandchild", c.Process.Pid)
	}
	if s.is("broken") {
		os.Exit(3)
	}
	if s.is("banner") {
		s.say("Welcome to the server!\n\n[INFO] {not json}\n\xef\xbb\xbf")
		fmt.Fprintln(os.Stderr, "starting up")
	}
	if s.is("shouts") {
		for i := range 500 {
			fmt.Fprintln(os.Stderr, "line", i, strings.Repeat("x", 20<<10))
		}
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var m testMessage
		if err := json.Unmarshal(line, &m); err != nil {
			s.say("cannot read %q", line)
			continue
		}
		s.handle(&m, line)
	}
	if s.is("stubborn") {
		select {}
	}
}

func (s *testServer) handle(m *testMessage, line []byte) {
	switch m.Method {
	case "server/discover":
		switch {
		case s.is("exits"):
			os.Exit(1)
		case s.is("mute"), s.is("silent"):
		case s.is("contradicts"):
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`, m.ID)
		case s.is("legacy"), s.is("exits"):
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`, m.ID)
		default:
			if s.is("late") {
				time.Sleep(700 * time.Millisecond)
			}
			s.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":%s,"ttlMs":0,"cacheScope":"private"}}`, m.ID, s.caps())
		}
	case "initialize":
		s.declared(line)
		switch {
		case s.is("mute"):
		case s.is("legacy"), s.is("exits"), s.is("silent"):
			rev := "2025-11-25"
			if s.is("oldest") {
				rev = "2025-03-26"
			}
			s.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"%s","capabilities":%s,"serverInfo":{"name":"t","version":"1"}}}`, m.ID, rev, s.caps())
			if s.is("pings") {
				s.say(`{"jsonrpc":"2.0","id":"s1","method":"ping"}`)
				s.say(`{"jsonrpc":"2.0","id":"s2","method":"roots/list"}`)
			}
		default:
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"modern only"}}`, m.ID)
		}
	case "ping", "logging/setLevel":
		if s.is("hangs") {
			return
		}
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case "subscriptions/listen":
		s.mu.Lock()
		s.listen = string(m.ID)
		s.mu.Unlock()
		s.wasAsked("listen " + string(m.Params.Filter))
		if s.is("deaf") || s.is("one-listen") && strings.Contains(string(m.Params.Filter), "promptsListChanged") {
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`, m.ID)
			return
		}
		s.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}}`, m.ID, m.Params.Filter)
	case "resources/subscribe", "resources/unsubscribe":
		s.wasAsked(strings.TrimPrefix(m.Method, "resources/") + " " + m.Params.URI)
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case "notifications/cancelled":
		s.mu.Lock()
		s.cancelled = append(s.cancelled, string(m.Params.RequestID))
		bye := s.is("one-listen")
		if bye {
			s.listen = ""
		}
		s.mu.Unlock()
		if bye {
			s.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`, m.Params.RequestID)
		}
		s.stopped()
	case "tools/call":
		if m.Params.Name == "read-nothing" {
			s.text(m, "ok")
			select {}
		}
		go s.call(m)
	case "":
		s.mu.Lock()
		s.answers = append(s.answers, strings.TrimSpace(string(line)))
		s.mu.Unlock()
		s.answered(line)
	}
}

func (s *testServer) text(m *testMessage, text string) {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	s.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, m.ID, quoted)
}

func (s *testServer) call(m *testMessage) {
	size, _ := m.Params.Arguments["size"].(float64)
	switch m.Params.Name {
	case "echo":
		s.text(m, fmt.Sprint(m.Params.Arguments["text"]))
	case "pid":
		s.text(m, fmt.Sprint(os.Getpid()))
	case "environment":
		env := os.Environ()
		slices.Sort(env)
		s.text(m, strings.Join(env, "\n"))
	case "folder":
		dir, err := os.Getwd()
		if err != nil {
			panic(err)
		}
		s.text(m, dir)
	case "big":
		s.text(m, strings.Repeat("a", int(size)))
	case "big-id-last":
		s.say(`{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"%s"}]},"id":%s}`, strings.Repeat("b", int(size)), m.ID)
	case "big-noise":
		s.say("%s", strings.Repeat("n", int(size)))
		s.text(m, "after the noise")
	case "twice":
		s.text(m, "first")
		s.text(m, "second")
	case "never":
	case "slowly":
		time.Sleep(time.Duration(size) * time.Millisecond)
		s.text(m, "slept")
	case "exit":
		os.Exit(7)
	case "answer-and-exit":
		s.text(m, "last words")
		os.Exit(0)
	case "close-output":
		_ = os.Stdout.Close()
	case "close-input":
		_ = os.Stdin.Close()
		s.text(m, "closed")
	case "malformed":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[}`, m.ID)
	case "batch":
		s.say(`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}},{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}]`, m.Params.Meta.Token, m.ID)
	case "progress":
		for i := range 100 {
			s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.Params.Meta.Token, i)
		}
		s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}`)
		s.text(m, "done")
	case "log":
		s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}`)
		time.Sleep(50 * time.Millisecond)
		s.text(m, "logged")
	case "say": // a line of its own, before the answer
		s.mu.Lock()
		line := strings.ReplaceAll(fmt.Sprint(m.Params.Arguments["line"]), "$LISTEN", s.listen)
		s.mu.Unlock()
		s.say("%s", line)
		s.text(m, "said")
	case "change": // of its tools, for whoever it believes to listen
		s.mu.Lock()
		listen := s.listen
		s.mu.Unlock()
		if listen != "" {
			s.say("%s", listenNote(mcp.Tools, listen))
		}
		s.text(m, "changed")
	case "say-later": // after the answer, when nothing is in flight
		s.text(m, "will say")
		time.Sleep(50 * time.Millisecond)
		s.say("%v", m.Params.Arguments["line"])
	case "asked":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text(m, strings.Join(s.asked, "\n"))
	case "listen-id":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text(m, s.listen)
	case "cancelled":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text(m, strings.Join(s.cancelled, " "))
	case "answers":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text(m, strings.Join(s.answers, "\n"))
	default:
		if s.asks(m) {
			return
		}
		s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool"}}`, m.ID)
	}
}
