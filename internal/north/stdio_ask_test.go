package north

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// asker asks its client whatever a tools/call is about, and tells what it heard.
func asker() *rooms {
	return &rooms{serve: func(ctx context.Context, x *Exchange) error {
		if x.Msg.Method != "tools/call" {
			return x.Result([]byte(`{}`))
		}
		if !x.TakesQuestions() {
			return x.Result([]byte(`{"takes":false}`))
		}
		raw := []byte(`{"jsonrpc":"2.0","id":"theirs","method":"elicitation/create","params":{"message":"a"}}`)
		var m wire.Message
		if err := wire.Parse(raw, &m); err != nil {
			return err
		}
		response, err := x.Ask(ctx, raw, m.ID)
		if errors.Is(err, ErrCannotAsk) {
			return x.Result([]byte(`{"cannot":true}`))
		}
		if err != nil {
			return err
		}
		return x.Result([]byte(`{"heard":`), response, []byte(`}`))
	}}
}

const slow = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`

// questionID is the id of a question that a client was sent.
func questionID(t *testing.T, raw string) string {
	t.Helper()
	var q struct {
		ID     string `json:"id"`
		Method string `json:"method"`
	}
	if err := json.Unmarshal([]byte(raw), &q); err != nil || q.Method != "elicitation/create" || len(q.ID) < 20 {
		t.Fatalf("%q is no question: %v", raw, err)
	}
	return q.ID
}

// Checklist 92: only the response to what was asked counts, once.
func TestALegacyClientIsAskedOverStdio(t *testing.T) {
	c := connect(t, build(t, asker()), time.Second)
	c.ask(hello)
	c.send(slow)
	id := questionID(t, c.next())
	response := func(id, what string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"n":%q}}`, id, what)
	}
	c.send(response("theirs", "guessed"), response("", "empty"), response(id, "right"), response(id, "again"))
	m := c.message()
	if heard, _ := m.Result["heard"].(map[string]any); fmt.Sprint(heard["result"]) != "map[n:right]" || heard["id"] != "theirs" {
		t.Errorf("%+v", m)
	}
}

func TestQuestionsOverStdioAreBoundedInTimeAndNumber(t *testing.T) {
	f := build(t, asker(), func(o *Options) { o.InputTimeout, o.Parked = 300*time.Millisecond, 1 })
	c := connect(t, f, time.Second)
	c.ask(hello)
	c.send(slow)
	id := questionID(t, c.next())
	if m := c.ask(strings.Replace(slow, `"id":1`, `"id":2`, 1)); m.ID != 2.0 || m.Result["cannot"] != true {
		t.Errorf("a second question at once: %+v", m)
	}
	if line := c.next(); !strings.Contains(line, `"method":"notifications/cancelled","params":{"requestId":"`+id+`"`) {
		t.Errorf("the question is not withdrawn: %s", line)
	}
	if m := c.message(); m.ID != 1.0 || m.Result["cannot"] != true {
		t.Errorf("a question that nobody answers: %+v", m)
	}
}

func TestAStatelessClientIsNotAskedOverStdio(t *testing.T) {
	c := connect(t, build(t, asker()), time.Second)
	if m := c.ask(strings.Replace(slow, `"name":"x"`, `"name":"x",`+modernM, 1)); m.Result["takes"] != false {
		t.Errorf("%+v", m)
	}
}
