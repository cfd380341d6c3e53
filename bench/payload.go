package main

import (
	"bytes"
	"encoding/json"
	"sync"
)

// form is what the text of a result holds, and how the answer is sent.
type form string

const (
	text   form = "text"   // prose, a line break now and then; one JSON body
	rows   form = "rows"   // JSON within the text, so that every few bytes are an escape; one JSON body
	events form = "events" // prose, sent as an event stream behind progressEvents notifications
	tasks  form = "tasks"  // every call becomes a task
)

// progressEvents is how many progress notifications precede a result in events.
const progressEvents = 3

// payload is the text of one result, as it stands in JSON and as it reads.
// Both are shared and must not be changed.
type payload struct {
	raw  []byte
	text string
}

const (
	textLine = `The gauge at the upper gate reads 4.20 m, steady since dawn.\n`
	rowsLine = `{\"id\":4711,\"gate\":\"upper\",\"open\":false,\"levels\":[4.2,4.1]},\n`
)

type payloadKey struct {
	form form
	size int
}

// payloads keeps what payloadOf made; a run asks for a handful of them.
var payloads sync.Map // payloadKey -> *payload

// payloadOf returns the payload of a form that takes size bytes in JSON.
func payloadOf(f form, size int) *payload {
	key := payloadKey{f, size}
	if p, ok := payloads.Load(key); ok {
		return p.(*payload)
	}
	line := textLine
	if f == rows {
		line = rowsLine
	}
	// Whole lines, so that no escape is cut, and a filling of plain bytes.
	raw := make([]byte, 0, size)
	raw = append(raw, bytes.Repeat([]byte(line), size/len(line))...)
	raw = append(raw, bytes.Repeat([]byte("."), size-len(raw))...)
	p := &payload{raw: raw}
	quoted := append(append([]byte{'"'}, raw...), '"')
	if err := json.Unmarshal(quoted, &p.text); err != nil {
		panic("the payload is not a JSON string: " + err.Error()) // a fault of the lines above
	}
	kept, _ := payloads.LoadOrStore(key, p)
	return kept.(*payload)
}
