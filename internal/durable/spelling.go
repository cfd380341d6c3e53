package durable

import "strings"

// Spelling is one of the two ways in which the contract is written (DESIGN
// section 10). The zero value is ours.
type Spelling uint8

// The spellings.
const (
	Penstock  Spelling = iota
	GaugeMesh          // the seed's
)

// ParseSpelling reads the word of the document and of a record.
func ParseSpelling(word string) (Spelling, bool) {
	switch word {
	case "penstock":
		return Penstock, true
	case "gaugemesh":
		return GaugeMesh, true
	}
	return 0, false
}

// String is the word, and the prefix of schemas, tools and scopes.
func (s Spelling) String() string {
	if s == GaugeMesh {
		return "gaugemesh"
	}
	return "penstock"
}

// Tool is the name of a meta-tool: submit is penstock_submit.
func (s Spelling) Tool(verb string) string { return s.String() + "_" + verb }

// Schema names a document: task-route is penstock.task-route/1.
func (s Spelling) Schema(what string) string { return s.String() + "." + what + "/1" }

// Meta is a key of _meta: taskRoute is penstock/taskRoute.
func (s Spelling) Meta(what string) string {
	if s == GaugeMesh {
		return "dev.gaugemesh/" + what
	}
	return "penstock/" + what
}

// Code spells a code of the contract: TASK_NOT_FOUND is PENSTOCK_TASK_NOT_FOUND,
// and GM_TASK_NOT_FOUND in the seed's words.
func (s Spelling) Code(code string) string {
	if s == GaugeMesh {
		return "GM_" + code
	}
	return "PENSTOCK_" + code
}

// Scope is what an effect beyond reading needs: penstock:effect:idempotent-write.
func (s Spelling) Scope(effect Effect) string {
	return s.String() + ":effect:" + strings.ReplaceAll(string(effect), "_", "-")
}

// Evaluated is the word for what the gateway does not judge:
// not_evaluated_by_penstock.
func (s Spelling) Evaluated() string { return "not_evaluated_by_" + s.String() }

// What an id is of; each is followed by a random UUID.
const (
	taskPart     = "t"
	instancePart = "ci"
	sessionPart  = "us"
)

func (s Spelling) prefix(part string) string {
	if s == GaugeMesh {
		return "gm" + part + "_"
	}
	return "ps" + part + "_"
}

// IsPublicID tells whether a task id has the form of those that durable tasks
// have, in either spelling. It says nothing of whether there is such a task.
func IsPublicID(id string) bool {
	return strings.HasPrefix(id, Penstock.prefix(taskPart)) || strings.HasPrefix(id, GaugeMesh.prefix(taskPart))
}

// wordsOf is the spelling that a public id belongs to.
func wordsOf(id string) Spelling {
	if strings.HasPrefix(id, GaugeMesh.prefix(taskPart)) {
		return GaugeMesh
	}
	return Penstock
}

// SpellingOfTool reads the name of a meta-tool; verb is "" for any other name.
func SpellingOfTool(name string) (s Spelling, verb string) {
	for _, s := range []Spelling{Penstock, GaugeMesh} {
		if v, ok := strings.CutPrefix(name, s.String()+"_"); ok {
			switch v {
			case "search", "describe", "lease", "invoke", "submit", "release":
				return s, v
			}
		}
	}
	return Penstock, ""
}
