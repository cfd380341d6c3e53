package gateway

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
)

// metaItem is one tool of the gateway's own as lists have it.
type metaItem struct {
	verb string
	tail string // what follows its name
}

// metaItems are in the order of their names, as lists are.
var metaItems = []metaItem{
	{"describe", `"description":"Describe one tool for a lease or a durable submission: its schema digest, its side effect and its input schema.",` +
		`"inputSchema":{"type":"object","properties":{"alias":{"type":"string","description":"Name of the tool as listed."}},"required":["alias"]},` +
		`"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`},
	{"invoke", `"description":"Call a tool under a lease. The result is the tool's own.",` +
		`"inputSchema":{"type":"object","properties":{"leaseId":{"type":"string"},"alias":{"type":"string"},"arguments":{"type":"object"}},"required":["leaseId","alias"]},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}`},
	{"lease", `"description":"Obtain a lease for tools: what may be invoked or submitted, with which side effects, for how long. For a submission ask for the tool's own side effect and non_idempotent_write.",` +
		`"inputSchema":{"type":"object","properties":{"aliases":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":32},` +
		`"ttlMs":{"type":"integer","minimum":1,"maximum":600000,"default":60000},` +
		`"sideEffects":{"type":"array","items":{"type":"string","enum":["read_only","idempotent_write","non_idempotent_write"]},"minItems":1,"maxItems":3,"uniqueItems":true,"default":["read_only"]}},"required":["aliases"]},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}`},
	{"release", `"description":"End a lease before its time.",` +
		`"inputSchema":{"type":"object","properties":{"leaseId":{"type":"string"}},"required":["leaseId"]},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`},
	{"search", `"description":"Find tools by words in their names and descriptions.",` +
		`"inputSchema":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":32,"default":8}},"required":["query"]},` +
		`"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`},
	{"submit", `"description":"Submit one bounded operation as a durable task: it survives a lost answer and a restart, and is not issued a second time. Answers with a task for tasks/get and tasks/cancel.",` +
		`"inputSchema":{"type":"object","properties":{"leaseId":{"type":"string"},"alias":{"type":"string"},"arguments":{"type":"object"},"task":` + taskSchema + `},"required":["leaseId","alias","arguments","task"]},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}`},
}

// taskSchema is the schema of a submission document (contract 2.1).
const taskSchema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"schemaVersion":{"const":"penstock.task-submission/1"},` +
	`"logicalTaskId":{"type":"string","minLength":1,"maxLength":128},"attemptId":{"type":"string","minLength":1,"maxLength":128},` +
	`"correlationId":{"type":"string","minLength":1,"maxLength":128},"idempotencyKey":{"type":"string","minLength":1,"maxLength":128},` +
	`"providerInterfaceVersion":{"type":"string","description":"The tool's schemaDigest."},` +
	`"inputSha256":{"type":"string","description":"Digest of arguments in their canonical form."},` +
	`"acceptancePolicySha256":{"type":"string"},"artifactScopeSha256":{"type":"string"},` +
	`"deadlineUnixMs":{"type":"integer"},"retentionMs":{"type":"integer"},` +
	`"limits":{"type":"object","additionalProperties":false,"properties":{"maxRuntimeMs":{"type":"integer"},"maxOutputBytes":{"type":"integer"},"maxArtifactBytes":{"type":"integer"},"maxAttempts":{"const":1}},` +
	`"required":["maxRuntimeMs","maxOutputBytes","maxArtifactBytes","maxAttempts"]},` +
	`"permittedEffect":{"const":"non_idempotent_write"},"cleanupRequired":{"const":true}},` +
	`"required":["schemaVersion","logicalTaskId","attemptId","correlationId","idempotencyKey","providerInterfaceVersion","inputSha256","acceptancePolicySha256","artifactScopeSha256",` +
	`"deadlineUnixMs","retentionMs","limits","permittedEffect","cleanupRequired"]}`

// listMeta puts the gateway's own tools behind those of the last page. What it shows
// hangs on what the request declares, so that the page is for nobody else.
func (g *Gateway) listMeta(ctx context.Context, x *north.Exchange, v *server, l *catalog.List) {
	l.Public = false
	if l.Next != "" || !g.metaReached(x, v) {
		return
	}
	submits := x.Era == mcp.Modern && g.declaresTasks(x)
	if submits {
		g.lookFirst(ctx, v)
	}
	items := bytes.Clone(l.Items)
	for _, it := range metaItems {
		if it.verb == "submit" && (!submits || g.metaState(v) == 0) {
			continue
		}
		name := durable.Penstock.Tool(it.verb)
		if v.meta.shadowed && v.catalog.Has(g.scope(x), mcp.Tools, name) {
			continue
		}
		if len(items) > 0 {
			items = append(items, ',')
		}
		items = mcp.ProjectItem(mcp.Tools, x.Revision, items, []byte(`{"name":"`+name+`",`+it.tail+`}`))
		l.Count++
	}
	l.Items = items
}

// lookFirst waits for upstreams that were never looked at, so that a client that
// lists right behind the start is not told that nothing can be submitted. It waits
// no longer than for their lists.
func (g *Gateway) lookFirst(ctx context.Context, v *server) {
	var all sync.WaitGroup
	for _, key := range v.meta.upstreams {
		src := g.durable.sources.of(g, key)
		if src == nil || src.looked() {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(g.doc.Limits.ListTimeout))
			defer cancel()
			_, _ = src.connect(ctx) // what it found is what metaState says
		})
	}
	all.Wait()
}

// metaState stands for which of the gateway's own tools there are: 1 while some
// upstream is eligible, so that something can be submitted.
func (g *Gateway) metaState(v *server) byte {
	for _, key := range v.meta.upstreams {
		if src := g.durable.sources.of(g, key); src != nil && src.eligible() {
			return 1
		}
	}
	return 0
}
