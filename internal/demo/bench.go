package demo

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// bench is what a writer's bench offers.
func bench() *offer {
	return &offer{
		info:         `{"name":"bench","title":"Writer's Bench","version":"1.0.0","description":"Small tools for texts."}`,
		instructions: "The bench runs as a child process and keeps nothing.",
		tools: []tool{
			{
				name: "count_words",
				def: `{"name":"count_words","title":"Count words","description":"Count the words, lines and characters of a text.",` +
					`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false},` +
					`"outputSchema":{"type":"object","properties":{"words":{"type":"integer"},"lines":{"type":"integer"},"characters":{"type":"integer"}},"required":["words","lines","characters"]},` +
					`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
				run: func(_ *session, args jsontext.Value) (any, error) {
					var in struct {
						Text string `json:"text"`
					}
					if err := decodeArguments(args, &in); err != nil {
						return nil, err
					}
					lines := 0
					for range strings.Lines(in.Text) {
						lines++
					}
					return struct {
						Words      int `json:"words"`
						Lines      int `json:"lines"`
						Characters int `json:"characters"`
					}{len(strings.Fields(in.Text)), lines, utf8.RuneCountInString(in.Text)}, nil
				},
			},
			{
				name: "shout",
				def: `{"name":"shout","title":"Shout","description":"Put a text into capitals.",` +
					`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false},` +
					`"outputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},` +
					`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
				run: func(_ *session, args jsontext.Value) (any, error) {
					var in struct {
						Text string `json:"text"`
					}
					if err := decodeArguments(args, &in); err != nil {
						return nil, err
					}
					in.Text = strings.ToUpper(in.Text)
					return in, nil
				},
			},
		},
		prompts: []prompt{{
			name:     "proofread",
			def:      `{"name":"proofread","title":"Proofread","description":"Ask for a text to be corrected.","arguments":[{"name":"text","description":"What to correct","required":true}]}`,
			required: []string{"text"},
			write: func(args map[string]string) string {
				return "Correct the spelling and grammar of this text, and change nothing else:\n\n" + args["text"]
			},
		}},
	}
}

// ServeBench serves a writer's bench to one client over stdio, in the revisions
// with a handshake: count words, shout, proofread. It returns when in ends, or
// with the error of a stream.
func ServeBench(in io.Reader, out io.Writer) error {
	l := &legacy{offer: bench()}
	var s *session
	r := bufio.NewScanner(in)
	r.Buffer(nil, maxBody)
	for r.Scan() {
		if len(bytes.TrimSpace(r.Bytes())) == 0 {
			continue
		}
		var answer []byte
		msg, failure := parseMessage(r.Bytes())
		switch {
		case failure != nil:
			answer = response(nil, nil, failure)
		case msg.ID == nil || msg.Method == "":
			continue
		case msg.Method == mcp.Initialize:
			var result []byte
			if result, s, failure = l.open(msg); failure == nil {
				answer = response(msg.ID, result, nil)
			} else {
				answer = response(msg.ID, nil, failure)
			}
		case s == nil && msg.Method != mcp.Ping:
			answer = response(msg.ID, nil, fault.New(fault.MethodNotFound, "send initialize first"))
		default:
			answer = l.serve(s, msg)
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return r.Err()
}
