package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// wrongAnswer is an answer that a client must not get.
type wrongAnswer struct {
	err   error
	begin string // of its body
}

func (w *wrongAnswer) Error() string {
	return fmt.Sprintf("wrong answer: %v; it begins %q", w.err, w.begin)
}

func (w *wrongAnswer) Unwrap() error { return w.err }

// strictBelow is the size up to which every answer is decoded whole. A larger
// one is compared byte by byte where the payload stands, and decoded only the
// first time: decoding megabytes would keep the client busier than the hop.
const strictBelow = 16 << 10

// answer is a JSON-RPC answer; duplicate names are refused when it is decoded.
type answer[T any] struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Result  *T             `json:"result"`
	Error   jsontext.Value `json:"error"`
}

func decode[T any](message []byte, id int64) (*T, error) {
	var a answer[T]
	if err := json.Unmarshal(message, &a); err != nil {
		return nil, err
	}
	switch {
	case a.Version != "2.0":
		return nil, fmt.Errorf("jsonrpc %q", a.Version)
	case string(a.ID) != strconv.FormatInt(id, 10):
		return nil, fmt.Errorf("id %s, want %d", a.ID, id)
	case len(a.Error) > 0:
		return nil, fmt.Errorf("error %s", a.Error)
	case a.Result == nil:
		return nil, errors.New("no result")
	}
	return a.Result, nil
}

func checkInitialize(message []byte, id int64) error {
	result, err := decode[struct {
		ProtocolVersion string `json:"protocolVersion"`
	}](message, id)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if result.ProtocolVersion != legacy.revision() {
		return fmt.Errorf("initialize: revision %q, want %q", result.ProtocolVersion, legacy.revision())
	}
	return nil
}

// checkCall checks the answer to a call: its id, and that its text is the
// payload, spelled as the upstream spelled it.
func checkCall(message []byte, id int64, want *payload, strict bool) error {
	if strict {
		result, err := decode[struct {
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
			IsError bool `json:"isError"`
		}](message, id)
		if err != nil {
			return fmt.Errorf("tools/call: %w", err)
		}
		if len(result.Content) != 1 || result.IsError || result.Content[0].Type != "text" || result.Content[0].Text != want.text {
			return errors.New("tools/call: not the content that the upstream sent")
		}
	}
	before, rest, found := bytes.Cut(message, []byte(`"text":"`))
	if !found || !bytes.HasPrefix(rest, want.raw) {
		return errors.New("tools/call: the text is not, byte for byte, what the upstream sent")
	}
	after := rest[len(want.raw):]
	if !bytes.HasPrefix(after, []byte(`"`)) {
		return errors.New("tools/call: the text is longer than what the upstream sent")
	}
	member := []byte(`"id":` + strconv.FormatInt(id, 10))
	if !hasMember(before, member) && !hasMember(after, member) {
		return fmt.Errorf("tools/call: the id is not %d", id)
	}
	return nil
}

// hasMember reports whether b holds the member, followed by the end of a value.
func hasMember(b, member []byte) bool {
	_, rest, found := bytes.Cut(b, member)
	return found && len(rest) > 0 && (rest[0] == ',' || rest[0] == '}')
}

// checkEvents returns the last message of an event stream, after it checked
// that every progress notification, in order and with the client's token, came
// before it.
func checkEvents(contentType, stream []byte, token string) ([]byte, error) {
	if !bytes.HasPrefix(contentType, []byte("text/event-stream")) {
		return nil, fmt.Errorf("content type %q, want an event stream", contentType)
	}
	var last []byte
	seen := 0
	for line := range bytes.Lines(stream) {
		data, found := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		data = bytes.TrimSpace(data)
		if !found || len(data) == 0 {
			continue
		}
		if last != nil {
			return nil, errors.New("an event behind the result")
		}
		if !bytes.Contains(data, []byte(`"method":`)) {
			last = data
			continue
		}
		seen++
		var note struct {
			Method string `json:"method"`
			Params struct {
				Token    string `json:"progressToken"`
				Progress int    `json:"progress"`
			} `json:"params"`
		}
		if err := json.Unmarshal(data, &note); err != nil {
			return nil, fmt.Errorf("event %d: %w", seen, err)
		}
		if note.Method != "notifications/progress" || note.Params.Token != token || note.Params.Progress != seen {
			return nil, fmt.Errorf("event %d: %s, want progress %d of %s", seen, data, seen, token)
		}
	}
	if seen != progressEvents || last == nil {
		return nil, fmt.Errorf("%d progress notifications, want %d and a result", seen, progressEvents)
	}
	return last, nil
}

// checkPage returns the names on one page of tools/list.
func checkPage(message []byte, id int64) ([]string, error) {
	page, err := decode[struct {
		Tools []struct {
			Name   string         `json:"name"`
			Schema jsontext.Value `json:"inputSchema"`
		} `json:"tools"`
		Meta map[string]jsontext.Value `json:"_meta"`
	}](message, id)
	if err != nil {
		return nil, fmt.Errorf("tools/list: %w", err)
	}
	if partial, ok := page.Meta["penstock/partial"]; ok {
		return nil, fmt.Errorf("tools/list: partial: %s", partial)
	}
	names := make([]string, 0, len(page.Tools))
	for _, tool := range page.Tools {
		if tool.Schema.Kind() != '{' {
			return nil, fmt.Errorf("tools/list: %s has no schema", tool.Name)
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

// nextCursor returns the cursor of a page as it stands in JSON.
func nextCursor(message []byte) ([]byte, bool) {
	_, rest, found := bytes.Cut(message, []byte(`"nextCursor":"`))
	end := bytes.IndexByte(rest, '"')
	if !found || end < 0 {
		return nil, false
	}
	start := len(message) - len(rest) - 1
	return message[start : start+end+2], true
}

// checkNames compares the names of a whole walk with those that are offered,
// in any order. It leaves both slices alone.
func checkNames(got, want []string) error {
	sorted := slices.Sorted(slices.Values(got))
	expected := slices.Sorted(slices.Values(want))
	for i := range max(len(sorted), len(expected)) {
		switch {
		case i >= len(sorted) || i < len(expected) && sorted[i] > expected[i]:
			return fmt.Errorf("tools/list: %s is missing", expected[i])
		case i >= len(expected) || sorted[i] < expected[i]:
			return fmt.Errorf("tools/list: %s is not offered, or listed twice", sorted[i])
		}
	}
	return nil
}
