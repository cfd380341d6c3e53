package policy_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock"
)

// pinned has the tools of durable tasks offered in front of the world: its upstreams are pinned, if to something that they do not offer.
func pinned(document string) string {
	const durable = ", durable: {pin: \"sha256:%064d\"}"
	document = strings.Replace(document, ", namespace: h", ", namespace: h"+fmt.Sprintf(durable, 0), 1)
	return strings.Replace(document, ", namespace: o", ", namespace: o"+fmt.Sprintf(durable, 0), 1)
}

// durableScopes let a caller have leases for everything.
var durableScopes = []string{"penstock:effect:idempotent-write", "penstock:effect:non-idempotent-write"}

// stored is a database of the gateway's own, without which it offers no durable tasks.
func stored(t testing.TB, document string) (string, penstock.Option) {
	t.Helper()
	document = fmt.Sprintf("state: %q\n", "sqlite:"+filepath.Join(t.TempDir(), "p.db")) + document
	store, err := penstock.OpenStore(t.Context(), parsed(t, document), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return document, penstock.WithStore(store)
}

// invoke is a call by way of the gateway's own tools: described, leased and invoked. Where one of them does not know the tool, or is not there
// itself, the answer is the one for what does not exist, whatever is asked.
func (v *visit) invoke(name, args string) *reply {
	meta := func(verb, arguments string) *reply {
		return v.client.modern("tools/call", `"name":"penstock_`+verb+`","arguments":{`+arguments+`}`)
	}
	absent := func(r *reply) bool {
		code := at(r.message(), "result", "structuredContent", "code")
		return code == `"PENSTOCK_CAPABILITY_NOT_FOUND"` || code == `"PENSTOCK_LEASE_CAPABILITY_OUTSIDE_CONE"` || r.code() == "-32602"
	}
	none := func(r *reply) *reply {
		out := *r
		out.Body = `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":` + quote("unknown tool "+name) + `}}`
		return &out
	}
	if r := meta("describe", `"alias":`+quote(name)); absent(r) {
		if l := meta("lease", `"aliases":[`+quote(name)+`]`); !absent(l) {
			v.client.t.Errorf("it is not described, and leased: %v", l)
		}
		return none(r)
	}
	r := meta("lease", `"aliases":[`+quote(name)+`],"sideEffects":["read_only","idempotent_write","non_idempotent_write"]`)
	lease := at(r.message(), "result", "structuredContent", "leaseId")
	if lease == "" {
		return r
	}
	return meta("invoke", with(`"leaseId":`+lease+`,"alias":`+quote(name), args))
}
