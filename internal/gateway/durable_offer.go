package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Bounds of one discovery of what an upstream offers (contract 6).
const (
	offerPages  = 128 // of one kind
	offerItems  = 4096
	offerBytes  = 8 << 20
	offerCursor = 4 << 10
	offerItem   = 256 << 10
)

// errNotDurable is an upstream that cannot have durable tasks, whatever it offers.
var errNotDurable = errors.New("it does not speak 2026-07-28 with the extension " + mcp.ExtensionTasks)

// discovery reads what an upstream offers over one link, page by page and whole.
type discovery struct {
	link  *south.Link
	self  []byte // our Implementation
	items int
	bytes int
}

// discover asks everything that a pin is the digest of.
func discover(ctx context.Context, link *south.Link, self []byte) (*durable.Offer, error) {
	d := &discovery{link: link, self: self}
	o := &durable.Offer{Revision: mcp.LatestModern.String()}
	result, err := d.ask(ctx, mcp.Discover, nil)
	if err != nil {
		return nil, err
	}
	var found struct {
		Versions     []string                   `json:"supportedVersions"`
		Capabilities json.RawMessage            `json:"capabilities"`
		Meta         map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(result, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", mcp.Discover, err)
	}
	if !slices.Contains(found.Versions, o.Revision) {
		return nil, errNotDurable
	}
	o.Capabilities, o.ServerInfo = found.Capabilities, found.Meta[mcp.MetaServerInfo]
	lists := [mcp.NumKinds]*[]json.RawMessage{mcp.Tools: &o.Tools, mcp.Prompts: &o.Prompts, mcp.Resources: &o.Resources, mcp.Templates: &o.Templates}
	for kind := range mcp.NumKinds {
		if !has(o.Capabilities, offered[kind]) {
			continue
		}
		if *lists[kind], err = d.list(ctx, kind); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.Method(), err)
		}
	}
	return o, nil
}

// list reads every page of a kind.
func (d *discovery) list(ctx context.Context, kind mcp.Kind) ([]json.RawMessage, error) {
	items := []json.RawMessage{}
	seen := map[string]bool{}
	var cursor json.RawMessage
	for range offerPages {
		result, err := d.ask(ctx, kind.Method(), cursor)
		if errors.Is(err, errNoSuchMethod) && cursor == nil {
			return items, nil
		}
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, err
		}
		var got []json.RawMessage
		if err := json.Unmarshal(page[kind.String()], &got); err != nil {
			return nil, fmt.Errorf("its result has no list %s: %w", kind, err)
		}
		for _, item := range got {
			if len(item) > offerItem {
				return nil, fmt.Errorf("one of its items is larger than %d bytes", offerItem)
			}
		}
		if d.items += len(got); d.items > offerItems {
			return nil, fmt.Errorf("it offers more than %d items", offerItems)
		}
		items = append(items, got...)
		if cursor = page["nextCursor"]; len(cursor) == 0 || string(cursor) == "null" {
			return items, nil
		}
		switch {
		case len(cursor) > offerCursor:
			return nil, fmt.Errorf("its cursor is longer than %d bytes", offerCursor)
		case len(got) == 0:
			return nil, errors.New("a page of it is empty and not the last")
		case seen[string(cursor)]:
			return nil, errors.New("it repeats a cursor")
		}
		seen[string(cursor)] = true
	}
	return nil, fmt.Errorf("it has more than %d pages", offerPages)
}

// errNoSuchMethod is a kind that an upstream does not offer after all.
var errNoSuchMethod = errors.New("the upstream does not know the method")

// ask makes one request of the discovery. cursor is raw; nil: there is none.
func (d *discovery) ask(ctx context.Context, method string, cursor []byte) ([]byte, error) {
	id := d.link.NextID(nil)
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(append(append(b, `,"method":"`...), method...), `","params":{`...)
	if len(cursor) > 0 {
		b = append(append(append(b, `"cursor":`...), cursor...), ',')
	}
	b = append(append(append(b, `"_meta":{`...), durableMeta(d.self)...), `}}}`...)
	a, err := d.link.Send(ctx, &south.Request{Method: method, ID: id, Body: b, Safe: true, Aside: true})
	if err != nil {
		return nil, err
	}
	defer a.Close()
	whole, err := holdWithin(a, offerBytes-d.bytes)
	if err != nil {
		return nil, err
	}
	if d.bytes += len(whole); d.bytes > offerBytes {
		return nil, fmt.Errorf("it offers more than %d bytes", offerBytes)
	}
	if s := &a.Scan; s.Error.Ok() {
		if fault.Code(s.ErrorCode) == fault.MethodNotFound {
			return nil, errNoSuchMethod
		}
		return nil, fmt.Errorf("the upstream answered %s with error %d", method, s.ErrorCode)
	}
	return slices.Clone(a.Scan.Result.Of(whole)), nil
}

// holdWithin is hold for an answer that must not be larger than most.
func holdWithin(a *south.Answer, most int) ([]byte, error) {
	if a.Rest != nil {
		ended, err := a.More(int64(max(most-len(a.Head), 0)) + 1)
		if err != nil {
			return nil, err
		}
		if !ended {
			return nil, fmt.Errorf("an answer is larger than %d bytes", most)
		}
	}
	if len(a.Whole) > most {
		return nil, fmt.Errorf("an answer is larger than %d bytes", most)
	}
	return a.Whole, nil
}

// durableMeta are the members of _meta in a request that the gateway makes for
// durable tasks: it speaks for itself, and of its callers only the envelope goes
// south.
func durableMeta(self []byte) []byte {
	b := append([]byte(`"`+mcp.MetaProtocolVersion+`":"`), mcp.LatestModern.String()...)
	b = append(append(b, `","`+mcp.MetaClientInfo+`":`...), self...)
	return append(b, `,"`+mcp.MetaClientCapabilities+`":{"elicitation":{},"extensions":{"`+mcp.ExtensionTasks+`":{}}}`...)
}

// withDurableMeta puts those members in front of those that the _meta of params has.
func withDurableMeta(params json.RawMessage, self []byte) ([]byte, error) {
	var meta wire.Span
	if err := wire.MemberSpans(params, func(name []byte, at wire.Span) bool {
		if string(name) == "_meta" {
			meta = at
		}
		return true
	}); err != nil {
		return nil, err
	}
	if len(meta.Of(params)) == 0 || meta.Of(params)[0] != '{' {
		return nil, errors.New("params have no _meta")
	}
	with := durableMeta(self)
	if !empty(meta.Of(params)) {
		with = append(with, ',')
	}
	at := meta.Start + 1
	return wire.Splice(nil, params, wire.Edit{Span: wire.Span{Start: at, End: at}, With: with}), nil
}
