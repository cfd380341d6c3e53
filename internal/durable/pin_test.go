package durable

import (
	"encoding/json"
	"testing"
)

func offer() *Offer {
	return &Offer{
		Revision: "2026-07-28", ServerInfo: json.RawMessage(`{"version": "1", "name": "w"}`),
		Capabilities: json.RawMessage(`{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`),
		Tools:        []json.RawMessage{json.RawMessage(`{"name":"b<","inputSchema":{"type":"object"}}`), json.RawMessage(`{"name":"a"}`)},
		Prompts:      []json.RawMessage{json.RawMessage(`{"name":"p"}`)},
	}
}

// The digests are of the canonical form, in the order of the upstream's lists.
func TestAPinIsTheDigestOfEverythingThatIsOffered(t *testing.T) {
	const manifest = `{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}},"tools":{}},"prompts":[{"name":"p"}],"protocolRevision":"2026-07-28",` +
		`"resourceTemplates":[],"resources":[],"serverInfo":{"name":"w","version":"1"},"tools":[{"inputSchema":{"type":"object"},"name":"b<"},{"name":"a"}]}`
	m, err := offer().Manifest()
	if err != nil || m != Sum([]byte(manifest)) {
		t.Errorf("manifest %v, %v", m, err)
	}
	s, err := offer().Snapshot()
	want := `{"capabilityManifestDigest":"` + m.String() + `","prompts":["p"],"protocolRevision":"2026-07-28","resourceTemplates":[],"resources":[],` +
		`"serverName":"w","supportsTasks":true,"tools":["b<","a"]}`
	if err != nil || s != Sum([]byte(want)) {
		t.Errorf("snapshot %v, %v", s, err)
	}
}

func TestWhatIsOfferedOtherwiseHasAnotherPin(t *testing.T) {
	base, err := offer().Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(o *Offer){
		"revision":      func(o *Offer) { o.Revision = "2025-11-25" },
		"server info":   func(o *Offer) { o.ServerInfo = nil },
		"capabilities":  func(o *Offer) { o.Capabilities = json.RawMessage(`{"tools":{}}`) },
		"order":         func(o *Offer) { o.Tools[0], o.Tools[1] = o.Tools[1], o.Tools[0] },
		"a description": func(o *Offer) { o.Tools[1] = json.RawMessage(`{"name":"a","description":"other"}`) },
		"one less":      func(o *Offer) { o.Tools = o.Tools[:1] },
		"a resource":    func(o *Offer) { o.Resources = append(o.Resources, json.RawMessage(`{"uri":"x:"}`)) },
		"a template":    func(o *Offer) { o.Templates = append(o.Templates, json.RawMessage(`{"uriTemplate":"x:"}`)) },
		"no prompts":    func(o *Offer) { o.Prompts = nil },
	} {
		o := offer()
		change(o)
		if m, err := o.Manifest(); err != nil || m == base {
			t.Errorf("%s: %v, %v", what, m, err)
		}
	}
	o := offer()
	o.Tools[1] = json.RawMessage(`{}`)
	if _, err := o.Snapshot(); err == nil {
		t.Error("a tool without a name is in a snapshot")
	}
}

func TestEffectOf(t *testing.T) {
	for tool, want := range map[string]Effect{
		`{}`:                   NonIdempotentWrite,
		`{"annotations":null}`: NonIdempotentWrite,
		`{"annotations":{"readOnlyHint":"true"}}`:                      NonIdempotentWrite,
		`{"annotations":{"readOnlyHint":true}}`:                        ReadOnly,
		`{"annotations":{"readOnlyHint":false,"idempotentHint":true}}`: IdempotentWrite,
		`{"annotations":{"destructiveHint":false}}`:                    NonIdempotentWrite,
		`not json`: NonIdempotentWrite,
	} {
		if got := EffectOf(json.RawMessage(tool)); got != want {
			t.Errorf("%s: %s", tool, got)
		}
	}
	// The two forms of one name in Unicode are one name.
	if NativeIdentity("e\u0301") != NativeIdentity("\u00e9") {
		t.Error("a name in another normal form is another")
	}
}
