package demo

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// lendingPeriod is how long a book may be kept.
const lendingPeriod = 21 * 24 * time.Hour

const bookSchema = `{"type":"object","properties":{"id":{"type":"string"},"title":{"type":"string"},"author":{"type":"string"},` +
	`"year":{"type":"integer"},"genre":{"type":"string"},"available":{"type":"boolean"}},"required":["id","title","author","year","genre","available"]}`

// Library returns a lending library that speaks 2026-07-28 alone: search, look
// up, lend and return books, read the rules, and have books recommended. Each
// call returns a library of its own.
func Library() http.Handler {
	s := newShelf()
	return &modern{&offer{
		info:         `{"name":"library","title":"Town Library","version":"1.0.0","description":"A small lending library."}`,
		instructions: "Search before you lend: lend_book and return_book need the id that search_books gives.",
		tools:        libraryTools(s),
		prompts: []prompt{
			{
				name:     "recommend",
				def:      `{"name":"recommend","title":"Recommend a book","description":"Ask for a book to read next.","arguments":[{"name":"genre","description":"What kind of book","required":true},{"name":"mood","description":"How it should feel"}]}`,
				required: []string{"genre"},
				write: func(args map[string]string) string {
					out := fmt.Sprintf("Recommend one %s book from the library that is available now, and say why.", args["genre"])
					if mood := args["mood"]; mood != "" {
						out += fmt.Sprintf(" It should feel %s.", mood)
					}
					return out
				},
				complete: map[string]func() []string{"genre": s.genres},
			},
			{
				name:     "summarize_book",
				def:      `{"name":"summarize_book","title":"Summarize a book","description":"A short summary without spoilers.","arguments":[{"name":"id","description":"The book's id","required":true}]}`,
				required: []string{"id"},
				write: func(args map[string]string) string {
					return fmt.Sprintf("Read library://books/%s and summarize the book in three sentences, without spoilers.", args["id"])
				},
				complete: map[string]func() []string{"id": s.ids},
			},
		},
		resources: []resource{
			{
				uri: "library://rules", mime: "text/markdown",
				def: `{"uri":"library://rules","name":"rules","title":"House rules","description":"What readers agree to.","mimeType":"text/markdown"}`,
				read: func() string {
					return "# House rules\n\n1. One copy, one reader.\n2. Books come back within 21 days.\n3. No coffee near the manuscripts.\n"
				},
			},
			{
				uri: "library://catalog", mime: "text/plain",
				def:  `{"uri":"library://catalog","name":"catalog","title":"The catalog","description":"Every title, one a line.","mimeType":"text/plain"}`,
				read: func() string { return catalogText(s) },
			},
		},
		templates: []template{{
			pattern: "library://books/{id}", prefix: "library://books/", variable: "id", mime: "application/json",
			def: `{"uriTemplate":"library://books/{id}","name":"book","title":"One book","description":"A book as JSON.","mimeType":"application/json"}`,
			read: func(id string) (string, bool) {
				b, ok := s.get(id)
				if !ok {
					return "", false
				}
				out, failure := marshal(b)
				return string(out), failure == nil
			},
			complete: s.ids,
		}},
	}}
}

func catalogText(s *shelf) string {
	var out strings.Builder
	all, _ := s.search("", len(s.books))
	for _, b := range all {
		fmt.Fprintf(&out, "%s\t%s, %s (%d)\n", b.ID, b.Author, b.Title, b.Year)
	}
	return out.String()
}

func libraryTools(s *shelf) []tool {
	return []tool{
		{
			name: "search_books",
			def: `{"name":"search_books","title":"Search books","description":"Find books by title, author or genre.",` +
				`"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Part of a title, author or genre; empty finds all"},"limit":{"type":"integer","minimum":1,"maximum":50,"default":10}},"required":["query"],"additionalProperties":false},` +
				`"outputSchema":{"type":"object","properties":{"books":{"type":"array","items":` + bookSchema + `},"total":{"type":"integer"}},"required":["books","total"]},` +
				`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
			run: func(_ *session, args jsontext.Value) (any, error) {
				in := struct {
					Query string `json:"query"`
					Limit int    `json:"limit"`
				}{Limit: 10}
				if err := decodeArguments(args, &in); err != nil {
					return nil, err
				}
				if in.Limit < 1 || in.Limit > 50 {
					return nil, fmt.Errorf("limit is between 1 and 50")
				}
				found, total := s.search(in.Query, in.Limit)
				return struct {
					Books []book `json:"books"`
					Total int    `json:"total"`
				}{found, total}, nil
			},
		},
		{
			name: "get_book",
			def: `{"name":"get_book","title":"Look up a book","description":"One book by its id.",` +
				`"inputSchema":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false},` +
				`"outputSchema":` + bookSchema + `,"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
			run: func(_ *session, args jsontext.Value) (any, error) {
				var in struct {
					ID string `json:"id"`
				}
				if err := decodeArguments(args, &in); err != nil {
					return nil, err
				}
				b, ok := s.get(in.ID)
				if !ok {
					return nil, noBook(in.ID)
				}
				return b, nil
			},
		},
		{
			name: "lend_book",
			def: `{"name":"lend_book","title":"Lend a book","description":"Lend a book to a reader for 21 days.",` +
				`"inputSchema":{"type":"object","properties":{"id":{"type":"string"},"reader":{"type":"string","description":"Who takes it"}},"required":["id","reader"],"additionalProperties":false},` +
				`"outputSchema":{"type":"object","properties":{"book":` + bookSchema + `,"reader":{"type":"string"},"due":{"type":"string","format":"date"}},"required":["book","reader","due"]},` +
				`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`,
			run: func(_ *session, args jsontext.Value) (any, error) {
				var in struct {
					ID     string `json:"id"`
					Reader string `json:"reader"`
				}
				if err := decodeArguments(args, &in); err != nil {
					return nil, err
				}
				if in.Reader == "" {
					return nil, fmt.Errorf("a book is lent to somebody: name the reader")
				}
				b, err := s.move(in.ID, false)
				if err != nil {
					return nil, err
				}
				return struct {
					Book   book   `json:"book"`
					Reader string `json:"reader"`
					Due    string `json:"due"`
				}{b, in.Reader, time.Now().Add(lendingPeriod).Format(time.DateOnly)}, nil
			},
		},
		{
			name: "return_book",
			def: `{"name":"return_book","title":"Return a book","description":"Take a lent book back.",` +
				`"inputSchema":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false},` +
				`"outputSchema":` + bookSchema + `,"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`,
			run: func(_ *session, args jsontext.Value) (any, error) {
				var in struct {
					ID string `json:"id"`
				}
				if err := decodeArguments(args, &in); err != nil {
					return nil, err
				}
				return s.move(in.ID, true)
			},
		},
	}
}
