package config

import "fmt"

// checkDurable finds what keeps an upstream from durable tasks although the document
// names it for them (DESIGN section 10).
func (d *decoder) checkDurable(doc *Document) {
	named := false
	for _, key := range doc.UpstreamKeys() {
		if u := doc.Upstreams[key]; u.Durable != nil {
			named = true
			d.checkUpstreamDurable(doc, u)
		}
	}
	c := &doc.Durable
	if !d.bad("durable.max_retention") && !d.bad("durable.max_runtime") && c.MaxRetention < c.MaxRuntime {
		d.problemFor("durable.max_retention", "", fmt.Sprintf("is less than durable.max_runtime, %s", c.MaxRuntime),
			"an outcome is kept at least as long as the task may run")
	}
	if !d.bad("durable.max_routes_per_caller") && !d.bad("durable.max_routes") && c.MaxRoutesPerCaller > c.MaxRoutes {
		d.warnFor("durable.max_routes_per_caller", "", fmt.Sprintf("is more than durable.max_routes, %d, which bounds all callers together", c.MaxRoutes), "")
	}
	if _, written := d.places["durable"]; written && !named && c.Enabled != "off" {
		d.warnFor("durable", keySuffix, "no upstream has durable, so there are no durable tasks", "give upstreams.KEY.durable a pin")
	}
}

func (d *decoder) checkUpstreamDurable(doc *Document, u *Upstream) {
	path := join("upstreams", u.Key) + ".durable"
	switch {
	case doc.Durable.Enabled == "off":
		d.warnFor(path, keySuffix, "has no effect while durable.enabled is off", "")
	case doc.State.Engine() == EngineMemory:
		d.warnFor(path, keySuffix, "has no effect while state is kept in memory", "name a database under state, such as sqlite:penstock.db")
	}
	if u.Era == "legacy" {
		d.problemFor(path, keySuffix, "durable tasks need revision 2026-07-28, and era is legacy", "remove one of the two")
	}
	if u.Credentials.Exchange != nil || u.Credentials.Passthrough != nil {
		d.problemFor(path, keySuffix, "what was pinned is looked at in nobody's name, and these credentials are each caller's own",
			"use bearer, header or client_credentials")
	}
	if u.Durable.Session == "stateless" && u.Child() {
		d.problemFor(path+".session", "", "a child process keeps its state to itself, and nothing can be bound to the next one", "write strict")
	}
}
