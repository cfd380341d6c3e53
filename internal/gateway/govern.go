package gateway

import (
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/audit"
	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/hook"
	"github.com/penstock-mcp/penstock/internal/limit"
	"github.com/penstock-mcp/penstock/internal/observe"
	"github.com/penstock-mcp/penstock/internal/policy"
)

// govern makes the rooms of governance: who calls, what they may, how much, who is
// asked about it, and what is written down. What a predecessor knows that the
// document does not change, it goes on knowing.
func (g *Gateway) govern(version Version, before *Gateway) (err error) {
	doc := g.doc
	if err := g.identities(before); err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	if g.policy, err = policy.Compile(doc.PolicyRules()); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	hooks := append(documentHooks(doc), version.Hooks...)
	if g.hooks, err = hook.New(hooks, hook.Options{Log: g.log, Outcome: func(id string, e hook.Event, outcome string, d time.Duration) {
		g.metrics.Hook(id, e.String(), outcome, d)
	}}); err != nil {
		return fmt.Errorf("hooks: %w", err)
	}
	g.limiter = g.limits(before)
	g.rates = map[string]*limit.Bucket{}
	for key, c := range doc.Upstreams {
		g.personal = g.personal || personal(c)
		if before != nil && before.rates[key] != nil && before.doc.Upstreams[key].Rate == c.Rate {
			g.rates[key] = before.rates[key]
		} else {
			g.rates[key] = limit.NewBucket(limit.Rate(c.Rate), 0)
		}
	}
	g.audit = g.recorder(before)
	if err := g.tasking(before); err != nil {
		return fmt.Errorf("tasks: %w", err)
	}
	return g.tracing(version, before)
}

// tracing keeps the predecessor's tracer where the document says the same.
func (g *Gateway) tracing(version Version, before *Gateway) (err error) {
	is := g.doc.Observe
	if before != nil && before.tracer != nil && before.doc.Observe.OTLP == is.OTLP && before.doc.Observe.Sample == is.Sample {
		g.tracer = before.tracer
		return nil
	}
	if is.OTLP == "" {
		return nil
	}
	g.tracer, err = observe.NewTracer(observe.TraceOptions{
		Endpoint: is.OTLP, Sample: is.Sample, Version: version.Version, Instance: g.storage.Instance, Log: g.log,
	})
	if err != nil {
		return fmt.Errorf("observe.otlp: %w", err)
	}
	g.metrics.WatchTracer(g.tracer)
	return nil
}

// identities decides who calls.
func (g *Gateway) identities(before *Gateway) error {
	g.local = g.adopt(auth.Local())
	g.principal = g.local
	if bool(g.doc.AllowAnonymous) && (g.doc.Auth != nil || !loopback(g.listen.Listen)) {
		g.principal = g.adopt(auth.Anonymous())
	}
	a := g.doc.Auth
	if a == nil {
		return nil
	}
	o := auth.Options{
		RevokedFile: a.Revoked, RequiredScopes: a.RequiredScopes, Anonymous: bool(g.doc.AllowAnonymous),
		Log: g.log, Outcome: g.metrics.Identity,
	}
	for _, j := range a.JWT {
		o.Issuers = append(o.Issuers, auth.Issuer{
			Issuer: j.Issuer, Audience: j.Audience, JWKSURL: j.JWKSURL, Algorithms: j.Algorithms,
			TenantClaim: j.TenantClaim, ScopeClaim: j.ScopeClaim,
		})
	}
	for i := range a.APIKeys {
		k := &a.APIKeys[i]
		if k.Placeholder() {
			continue
		}
		key := auth.APIKey{Name: k.Name, Subject: k.Subject, Tenant: k.Tenant, Scopes: k.Scopes}
		if _, err := hex.Decode(key.Hash[:], []byte(strings.TrimPrefix(k.Hash, "sha256:"))); err != nil {
			return fmt.Errorf("api_keys: the hash of %q: %w", k.Name, err)
		}
		if k.Expires != "" {
			var err error
			if key.Expires, err = time.Parse(time.DateOnly, k.Expires); err != nil {
				return fmt.Errorf("api_keys: %q expires: %w", k.Name, err)
			}
		}
		o.APIKeys = append(o.APIKeys, key)
	}
	var err error
	if g.auth, err = auth.New(o); err != nil {
		return err
	}
	if before != nil && before.auth != nil {
		g.auth.Inherit(before.auth)
	}
	g.identity = newEngine("identity", g.log, g.auth.Run)
	return nil
}

// Check reports what the document needs and is not there, before it is served.
func (g *Gateway) Check() error {
	if g.auth != nil {
		if err := g.auth.Open(); err != nil {
			return fmt.Errorf("auth.revoked: %w", err)
		}
	}
	if err := g.audit.log.Probe(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// limits keeps what was counted where the rates are the same.
func (g *Gateway) limits(before *Gateway) *limit.Limiter {
	r := g.doc.Rate
	if r == nil {
		return nil
	}
	o := limit.Options{Global: limit.Rate(r.Global), PerPrincipal: limit.Rate(r.PerPrincipal), Burst: r.Burst}
	if before != nil && before.limiter.Same(o) {
		return before.limiter
	}
	return limit.New(o)
}

// recorder goes on with the predecessor's where the document says the same.
func (g *Gateway) recorder(before *Gateway) *recorder {
	if before != nil && reflect.DeepEqual(before.audit.doc, g.doc.Audit) {
		return before.audit
	}
	a := g.doc.Audit
	if a == nil {
		return &recorder{}
	}
	o := audit.Options{
		File: a.File, MaxSize: int64(a.MaxSize), Flush: time.Duration(a.Flush), Refuse: a.OnFailure == "refuse",
		Key: []byte(a.Key.Reveal()), Instance: g.storage.Instance, Log: g.log,
	}
	if a.Stdout.On() {
		o.Stdout = os.Stdout
	}
	r := &recorder{log: audit.New(o), doc: a, arguments: a.Arguments.On()}
	r.engine = newEngine("audit", g.log, r.log.Run)
	return r
}

// documentHooks are the hooks that the document names.
func documentHooks(doc *config.Document) (out []hook.Hook) {
	for _, c := range doc.Hooks {
		h := hook.Hook{ID: c.ID, URL: c.URL, Timeout: time.Duration(c.Timeout), AllowOnError: c.OnError == "allow", MaxBytes: int64(c.MaxBytes)}
		for _, name := range c.Events {
			if e, ok := hook.ParseEvent(name); ok { // the document allows no other
				h.Events = append(h.Events, e)
			}
		}
		out = append(out, h)
	}
	return out
}
