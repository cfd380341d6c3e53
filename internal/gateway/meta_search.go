package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

const (
	searchUsual = 8
	searchMost  = 32
	// searchWords bounds how many words of a query count.
	searchWords = 32
)

// searchHit is a tool that a query finds.
type searchHit struct {
	*catalog.Entry
	description string
	score       int
}

// search finds tools by words, among those that the caller sees.
func (c *metaCall) search(ctx context.Context) error {
	query, ok := c.text("query")
	if !ok {
		return fault.New(fault.InvalidParams, "params.arguments.query is missing or not a string")
	}
	limit := searchUsual
	if raw, there := c.args["limit"]; there {
		if json.Unmarshal(raw, &limit) != nil || limit < 1 || limit > searchMost {
			return fault.New(fault.InvalidParams, "params.arguments.limit is not an integer from 1 to %d", searchMost)
		}
	}
	scope := c.g.scope(c.x)
	all, err := c.v.catalog.Entries(ctx, scope, c.g.sees(c.x, c.v), mcp.Tools)
	if err != nil {
		return err
	}
	type result struct {
		Alias        string         `json:"alias"`
		CapabilityID durable.Digest `json:"capabilityId"`
		Source       string         `json:"source"`
		Description  string         `json:"description"`
	}
	results := []result{}
	for _, h := range ranked(all, query) {
		if len(results) == limit {
			break
		}
		tool, capability, err := c.g.capabilityOf(ctx, c.v, scope, &h.Target, false)
		if err != nil {
			return err
		}
		if tool != nil {
			results = append(results, result{h.Exposed, capability.ID(), h.Upstream, h.description})
		}
	}
	b, err := json.Marshal(map[string]any{"results": results})
	if err != nil {
		return err
	}
	return c.answer(b)
}

// ranked are the tools that a query finds, the best first (contract 1.2).
func ranked(all []catalog.Entry, query string) []searchHit {
	words := strings.Fields(strings.ToLower(query))
	words = words[:min(len(words), searchWords)]
	var hits []searchHit
	for i := range all {
		e := &all[i]
		description, _ := wire.String(at(e.Raw, descriptionPath)) // without one it is found by its name
		h := searchHit{Entry: e, description: description}
		if strings.EqualFold(strings.TrimSpace(query), e.Exposed) {
			h.score += 10000
		}
		text := strings.ToLower(strings.Join([]string{e.Exposed, e.ID, description, e.Upstream}, "\x00"))
		for _, w := range words {
			if strings.Contains(text, w) {
				h.score += 100
			}
		}
		if h.score > 0 {
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b searchHit) int {
		return cmp.Or(b.score-a.score, strings.Compare(a.Exposed, b.Exposed))
	})
	return hits
}

var descriptionPath = []string{"description"}

// describe tells what a lease and a submission have to say of one tool.
func (c *metaCall) describe(ctx context.Context) error {
	alias, ok := c.text("alias")
	if !ok {
		return c.fail("CAPABILITY_NOT_FOUND")
	}
	t, d, found, err := c.target(ctx, alias)
	if err != nil {
		return err
	}
	if !found {
		return c.fail("CAPABILITY_NOT_FOUND")
	}
	tool, _, err := c.g.capabilityOf(ctx, c.v, c.g.scope(c.x), &t, true)
	if err != nil {
		return err
	}
	schema := at(tool, schemaPath)
	if len(schema) == 0 {
		schema = []byte(`{"type":"object"}`)
	}
	c.aimed(&t)
	b, err := json.Marshal(map[string]any{
		"alias": alias, "capabilityId": d.Capability.ID(), "schemaDigest": d.Capability.Schema, "source": t.Upstream,
		"sideEffect": d.Effect, "inputSchema": json.RawMessage(schema),
	})
	if err != nil {
		return err
	}
	return c.answer(b)
}

var schemaPath = []string{"inputSchema"}

// aimed notes the tool that the call is about in its record.
func (c *metaCall) aimed(t *catalog.Target) {
	c.g.aim(c.x, t)
	c.x.Trail.Via = c.id
	if c.g.policy != nil {
		c.x.Trail.Decision = "allow"
	}
}
