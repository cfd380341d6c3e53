package durable

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/text/unicode/norm"
)

// Offer is what an upstream offers, in its own words and order: what a pin is the
// digest of.
type Offer struct {
	Revision     string          // the negotiated one
	ServerInfo   json.RawMessage // nil: it does not say
	Capabilities json.RawMessage
	Tools        []json.RawMessage
	Resources    []json.RawMessage
	Templates    []json.RawMessage
	Prompts      []json.RawMessage
}

// Manifest is the digest of everything in the offer: the pin (contract 2.4).
func (o *Offer) Manifest() (Digest, error) {
	return sumOf(struct {
		Revision     string            `json:"protocolRevision"`
		ServerInfo   json.RawMessage   `json:"serverInfo"`
		Capabilities json.RawMessage   `json:"capabilities"`
		Tools        []json.RawMessage `json:"tools"`
		Resources    []json.RawMessage `json:"resources"`
		Templates    []json.RawMessage `json:"resourceTemplates"`
		Prompts      []json.RawMessage `json:"prompts"`
	}{
		o.Revision, whole(o.ServerInfo), whole(o.Capabilities),
		listed(o.Tools), listed(o.Resources), listed(o.Templates), listed(o.Prompts),
	})
}

// Snapshot is the digest of what a submission is bound to: which things the offer
// has, and by the manifest what each of them is.
func (o *Offer) Snapshot() (Digest, error) {
	manifest, err := o.Manifest()
	if err != nil {
		return Digest{}, err
	}
	s := struct {
		Revision  string   `json:"protocolRevision"`
		Name      string   `json:"serverName"`
		Tasks     bool     `json:"supportsTasks"`
		Manifest  Digest   `json:"capabilityManifestDigest"`
		Tools     []string `json:"tools"`
		Resources []string `json:"resources"`
		Templates []string `json:"resourceTemplates"`
		Prompts   []string `json:"prompts"`
	}{Revision: o.Revision, Tasks: o.SupportsTasks(), Manifest: manifest}
	var info struct {
		Name string `json:"name"`
	}
	if len(o.ServerInfo) > 0 {
		if err := json.Unmarshal(o.ServerInfo, &info); err != nil {
			return Digest{}, fmt.Errorf("serverInfo: %w", err)
		}
	}
	s.Name = info.Name
	for _, kind := range []struct {
		items  []json.RawMessage
		member string
		names  *[]string
	}{
		{o.Tools, "name", &s.Tools},
		{o.Resources, "uri", &s.Resources},
		{o.Templates, "uriTemplate", &s.Templates},
		{o.Prompts, "name", &s.Prompts},
	} {
		if *kind.names, err = identifiers(kind.items, kind.member); err != nil {
			return Digest{}, err
		}
	}
	return sumOf(s)
}

// TasksExtension is the name of the extension among an upstream's capabilities.
const TasksExtension = "io.modelcontextprotocol/tasks"

// SupportsTasks tells whether the capabilities have the tasks extension.
func (o *Offer) SupportsTasks() bool {
	var c struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if json.Unmarshal(o.Capabilities, &c) != nil {
		return false
	}
	_, has := c.Extensions[TasksExtension]
	return has
}

// ToolName is the upstream's own name of a whole tool object.
func ToolName(tool json.RawMessage) (string, error) { return identifier(tool, "name") }

// NativeIdentity is the digest of an upstream's own name for something, in the
// normal form NFC.
func NativeIdentity(name string) Digest { return Sum(norm.NFC.Bytes([]byte(name))) }

// EffectOf is the class that a tool's annotations describe: what does not say that
// it is milder is the worst. tool is the whole tool object.
func EffectOf(tool json.RawMessage) Effect {
	var t struct {
		Annotations struct {
			ReadOnly   *bool `json:"readOnlyHint"`
			Idempotent *bool `json:"idempotentHint"`
		} `json:"annotations"`
	}
	is := func(b *bool) bool { return b != nil && *b }
	switch {
	case json.Unmarshal(tool, &t) != nil:
		return NonIdempotentWrite
	case is(t.Annotations.ReadOnly):
		return ReadOnly
	case is(t.Annotations.Idempotent):
		return IdempotentWrite
	}
	return NonIdempotentWrite
}

func sumOf(value any) (Digest, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return Digest{}, err
	}
	return SumJSON(b)
}

// whole is a value that may be absent.
func whole(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// listed is a list that is there, if empty.
func listed(items []json.RawMessage) []json.RawMessage {
	if items == nil {
		return []json.RawMessage{}
	}
	return items
}

func identifiers(items []json.RawMessage, member string) ([]string, error) {
	out := make([]string, 0, len(items))
	for _, item := range items {
		id, err := identifier(item, member)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

var errNameless = errors.New("something is listed without a name")

func identifier(item json.RawMessage, member string) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(item, &members); err != nil {
		return "", err
	}
	var id string
	if err := json.Unmarshal(members[member], &id); err != nil || id == "" {
		return "", errNameless
	}
	return id, nil
}
