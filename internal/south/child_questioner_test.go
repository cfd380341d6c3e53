package south

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// questioner is the part of a testServer that asks its client.
type questioner struct {
	mu      sync.Mutex // guards what follows
	caps    string
	next    int
	open    map[string]chan string // by id of its own requests
	on      func()                 // called at the next cancellation
	running int                    // calls
	crowd   bool                   // two ran at once
}

func (s *testServer) declared(line []byte) {
	var m struct {
		Params struct {
			Capabilities json.RawMessage `json:"capabilities"`
		} `json:"params"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		panic(err)
	}
	s.questioner.caps = string(m.Params.Capabilities)
	if s.is("dies-if-told") && s.questioner.caps != "{}" {
		os.Exit(5)
	}
	if s.is("slow-if-told") && s.questioner.caps != "{}" {
		time.Sleep(300 * time.Millisecond)
	}
}

func (s *testServer) stopped() {
	s.questioner.mu.Lock()
	on := s.questioner.on
	s.questioner.on = nil
	s.questioner.mu.Unlock()
	if on != nil {
		on()
	}
}

// question sends a request of its own and returns its id and where the answer comes.
func (s *testServer) question(text string) (string, chan string) {
	a := &s.questioner
	a.mu.Lock()
	a.next++
	id, answer := fmt.Sprint("q", a.next), make(chan string, 1)
	if a.open == nil {
		a.open = map[string]chan string{}
	}
	a.open[id] = answer
	a.mu.Unlock()
	s.say(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object"}}}`, id, text)
	return id, answer
}

func (s *testServer) answered(line []byte) {
	var m struct {
		ID     string `json:"id"`
		Result struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(line, &m) != nil {
		return
	}
	fmt.Fprintln(os.Stderr, "answered", m.ID, m.Error.Code)
	s.questioner.mu.Lock()
	answer := s.questioner.open[m.ID]
	delete(s.questioner.open, m.ID)
	s.questioner.mu.Unlock()
	if answer == nil {
		return
	}
	if m.Error.Code != 0 {
		answer <- fmt.Sprint(m.Error.Code)
		return
	}
	answer <- m.Result.Content.Text
}

// asks runs the tools that ask. It reports whether it is one of them.
func (s *testServer) asks(m *testMessage) bool {
	a := &s.questioner
	a.mu.Lock()
	a.running++
	a.crowd = a.crowd || a.running > 1
	crowd := a.crowd
	a.mu.Unlock()
	ends := sync.OnceFunc(func() { // before its answer, for the next call may follow at once
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running--
	})
	defer ends()
	tell := func(text string) {
		ends()
		s.text(m, text)
	}
	text := fmt.Sprint(m.Params.Arguments["text"])
	times, _ := m.Params.Arguments["times"].(float64)
	switch m.Params.Name {
	case "caps":
		tell(a.caps)
	case "ask": // one after the other
		var got []string
		for i := range max(int(times), 1) {
			_, answer := s.question(fmt.Sprintf("%s/%d", text, i))
			got = append(got, <-answer)
		}
		if crowd {
			got = append(got, "a crowd")
		}
		tell(strings.Join(got, " "))
	case "ask-both": // at once
		_, one := s.question(text + "/0")
		_, two := s.question(text + "/1")
		tell(<-one + " " + <-two)
	case "ask-and-go": // without waiting
		id, _ := s.question(text)
		time.Sleep(50 * time.Millisecond)
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, id)
		tell("went on")
	case "ask-and-exit":
		s.question(text)
		time.Sleep(50 * time.Millisecond)
		os.Exit(9)
	case "ask-and-flood":
		_, answer := s.question(text)
		for i := range int(times) {
			s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.Params.Meta.Token, i)
		}
		tell(<-answer)
	case "ask-and-ping":
		_, answer := s.question(text)
		time.Sleep(50 * time.Millisecond)
		s.say(`{"jsonrpc":"2.0","id":"p1","method":"ping"}`)
		tell(<-answer)
	case "ask-later": // after its answer
		tell("asks later")
		time.Sleep(50 * time.Millisecond)
		s.question(text)
	case "ask-when-cancelled":
		a.mu.Lock()
		a.on = func() { s.question(text) }
		if times > 0 {
			a.on = func() { s.modes = append(s.modes, "hangs") }
		}
		a.mu.Unlock()
	default:
		return false
	}
	return true
}
