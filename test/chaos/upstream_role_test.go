//go:build linux

package chaos_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// tally is what an upstream counted.
type tally struct {
	Initialized int            `json:"initialized"`
	Deleted     int            `json:"deleted"`
	Calls       int            `json:"calls"`
	Sessions    map[string]int `json:"sessions"` // calls by live session
}

// server is an upstream of one era. A legacy one keeps a counter in each
// session and knows no session but its own.
type server struct {
	name   string
	legacy bool

	mu    sync.Mutex // guards tally
	tally tally
}

// serveUpstream is the whole life of an upstream process: until its input ends.
func serveUpstream() {
	s := &server{name: os.Getenv("PENSTOCK_CHAOS_NAME"), legacy: os.Getenv("PENSTOCK_CHAOS_ERA") == "legacy", tally: tally{Sessions: map[string]int{}}}
	ln, err := net.Listen("tcp", os.Getenv("PENSTOCK_CHAOS_LISTEN"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/stats", s.stats)
	mux.HandleFunc("/mcp", s.mcp)
	go func() { _ = (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(ln) }()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func (s *server) stats(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(s.tally)
}

// asked is a message as the roles read it.
type asked struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string `json:"name"`
		Arguments struct {
			Echo  string `json:"echo"`
			Sleep int    `json:"sleep"` // milliseconds
		} `json:"arguments"`
	} `json:"params"`
}

func (s *server) mcp(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	switch r.Method {
	case http.MethodDelete:
		s.delete(w, id)
		return
	case http.MethodPost:
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m asked
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if !s.legacy {
		s.answer(w, &m, "", 0)
		return
	}
	if m.Method == "initialize" && id == "" {
		s.initialize(w, &m)
		return
	}
	if id == "" { // a probe, and whatever else came without a session
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	n, known := s.tally.Sessions[id]
	if known && m.Method == "tools/call" {
		n++
		s.tally.Sessions[id] = n
	}
	s.mu.Unlock()
	if !known {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.answer(w, &m, id, n)
}

func (s *server) delete(w http.ResponseWriter, id string) {
	s.mu.Lock()
	_, known := s.tally.Sessions[id]
	if known {
		delete(s.tally.Sessions, id)
		s.tally.Deleted++
	}
	s.mu.Unlock()
	if !known {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) initialize(w http.ResponseWriter, m *asked) {
	id := s.name + "-" + rand.Text()
	s.mu.Lock()
	s.tally.Initialized++
	s.tally.Sessions[id] = 0
	s.mu.Unlock()
	w.Header().Set("Mcp-Session-Id", id)
	reply(w, m, `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"up","version":"1"}}`)
}

// answer serves what a session, or nobody's, asks for.
func (s *server) answer(w http.ResponseWriter, m *asked, session string, n int) {
	modern := ""
	if !s.legacy {
		modern = `"resultType":"complete",`
	}
	switch m.Method {
	case "server/discover":
		reply(w, m, `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"up","version":"1"},"ttlMs":0,"cacheScope":"public"}`)
	case "ping":
		reply(w, m, `"result":{}`)
	case "tools/list":
		lasts := ""
		if !s.legacy {
			lasts = `,"ttlMs":0,"cacheScope":"public"`
		}
		reply(w, m, `"result":{`+modern+`"tools":[`+tools+`]`+lasts+`}`)
	case "tools/call":
		s.mu.Lock()
		s.tally.Calls++
		s.mu.Unlock()
		time.Sleep(time.Duration(m.Params.Arguments.Sleep) * time.Millisecond)
		reply(w, m, `"result":{`+modern+`"content":[],"structuredContent":`+said(m, s.name, session, n)+`}`)
	default:
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		reply(w, m, `"error":{"code":-32601,"message":"no such method"}`)
	}
}

// tools are what every upstream lists: four, so that a list has pages.
const tools = `{"name":"count","inputSchema":{"type":"object"}},{"name":"t1","inputSchema":{"type":"object"}},{"name":"t2","inputSchema":{"type":"object"}},{"name":"t3","inputSchema":{"type":"object"}}`

// heard is what a call is answered with.
type heard struct {
	Echo    string `json:"echo"`
	Name    string `json:"name"`    // of the upstream
	Session string `json:"session"` // of the gateway with it
	N       int    `json:"n"`       // calls in that session
	PID     int    `json:"pid"`
}

func said(m *asked, name, session string, n int) string {
	raw, _ := json.Marshal(heard{Echo: m.Params.Arguments.Echo, Name: name, Session: session, N: n, PID: os.Getpid()})
	return string(raw)
}

func reply(w http.ResponseWriter, m *asked, member string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, member)
}
