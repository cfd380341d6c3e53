package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/policy"
)

// Explained says where a name goes on one virtual server.
type Explained struct {
	Server     string         `json:"server"`
	Name       string         `json:"name"`
	Targets    []Explanation  `json:"targets"`
	Collisions []CollisionOut `json:"collisions,omitempty"`
}

// Explanation is one kind of thing that a name means.
type Explanation struct {
	Kind     string   `json:"kind,omitempty"`
	Upstream string   `json:"upstream,omitempty"`
	Original string   `json:"original,omitempty"`
	Exposed  string   `json:"exposed,omitempty"`
	Rule     string   `json:"rule,omitempty"`
	Why      string   `json:"why"`
	Names    []string `json:"names,omitempty"`
	Hidden   bool     `json:"hidden,omitempty"`
	Judged   []string `json:"judged,omitempty"`   // the names that the rules of the policy are held against
	Decision string   `json:"decision,omitempty"` // of the policy: allow, depends, hidden
	Decided  string   `json:"decided,omitempty"`  // the rule that decided
	Steps    []Step   `json:"steps,omitempty"`    // every rule, in order
	Error    string   `json:"error,omitempty"`
}

// Step is what one rule of the policy says of a target.
type Step struct {
	Rule    string `json:"rule"`
	Effect  string `json:"effect"`
	Outcome string `json:"outcome"`
}

// CollisionOut is two targets that would be exposed under one identifier.
type CollisionOut struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Winner  string `json:"winner"`
	Loser   string `json:"loser"`
	Exposed string `json:"loser_exposed_as"`
}

// Admin serves what the operator's commands ask over the admin socket.
func (g *Gateway) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /ready", g.Details())
	g.adminTasks(mux)
	g.adminDurable(mux)
	mux.HandleFunc("GET /explain", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		only := q.Get("server")
		if only != "" && g.servers[only] == nil {
			http.Error(w, "no virtual server is named "+only, http.StatusNotFound)
			return
		}
		as, err := g.supposed(q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		out := []Explained{}
		for _, s := range g.doc.ServerNames() {
			if only == "" || s == only {
				out = append(out, g.explain(r, g.servers[s], q.Get("name"), as))
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			g.log.Debug("explanation not written", "error", err)
		}
	})
	return mux
}

// supposed is the caller that an operator asks about: by subject, and issuer,
// tenant, scopes and claims as far as they are given. A subject that an API key
// stands for is that key's, with its tenant and scopes. It is nil where none is
// asked about, and an error where nobody could call as that subject.
func (g *Gateway) supposed(q url.Values) (*policy.Caller, error) {
	subject := q.Get("as")
	if subject == "" {
		return nil, nil
	}
	c := &policy.Caller{Subject: subject, Issuer: q.Get("issuer"), Tenant: q.Get("tenant"), Scopes: q["scope"], Claims: map[string]any{}}
	for _, claim := range q["claim"] {
		name, text, _ := strings.Cut(claim, "=")
		c.Claims[name] = claimed(text)
	}
	if c.Issuer != "" {
		return c, nil
	}
	if g.doc.Auth != nil {
		for _, k := range g.doc.Auth.APIKeys {
			if k.Subject != subject || c.Tenant != "" && c.Tenant != k.Tenant {
				continue
			}
			c.Issuer, c.Tenant = auth.IssuerKey, k.Tenant
			if len(c.Scopes) == 0 {
				c.Scopes = k.Scopes
			}
			return c, nil
		}
	}
	switch {
	case g.doc.Auth != nil && len(g.doc.Auth.JWT) > 0:
		c.Issuer = g.doc.Auth.JWT[0].Issuer
	case subject == auth.Local().Subject:
		c.Issuer = auth.IssuerLocal
	case subject == auth.Anonymous().Subject && bool(g.doc.AllowAnonymous):
		c.Issuer = auth.IssuerAnonymous
	case g.doc.Auth == nil:
		return nil, fmt.Errorf("without auth every caller is %q", g.principal.Name)
	default:
		return nil, fmt.Errorf("no API key stands for the subject %q%s", subject, ofTenant(c.Tenant))
	}
	return c, nil
}

func ofTenant(tenant string) string {
	if tenant == "" {
		return ""
	}
	return fmt.Sprintf(" of tenant %q", tenant)
}

// claimed is the value of a claim as an operator writes it: JSON, or a text.
func claimed(text string) any {
	if !json.Valid([]byte(text)) {
		return text
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // a claim is compared as it is written
	var v any
	if err := d.Decode(&v); err != nil {
		return text
	}
	return v
}

// judgement adds what the policy says of a target for a caller whose arguments are
// not known.
func (g *Gateway) judgement(r *http.Request, v *server, t *catalog.Target, as *policy.Caller, out *Explanation) {
	if g.policy == nil {
		out.Decision = "allow"
		return
	}
	pt, view := v.judged(t), g.policy.For(as)
	d, steps := view.Explain(r.Context(), &pt, nil, false)
	if t.Kind == mcp.Resources { // as authorize does
		scope := catalog.Scope{Principal: g.principal.Key}
		all, ok := readings(t.ID)
		for i := 0; i < len(all) && d.Allowed; i++ {
			if again := v.readAs(scope, pt, all[i].uri); !all[i].loose || view.Denies(&again) {
				pt = again
				d, steps = view.Explain(r.Context(), &pt, nil, false)
			}
		}
		if !ok {
			d = policy.Decision{Why: tooManyReadings}
		}
	}
	out.Judged = pt.Names
	switch out.Decided = d.Rule; {
	case d.Depends:
		out.Decision = "depends"
	case d.Allowed:
		out.Decision = "allow"
	default:
		out.Decision = "hidden"
	}
	for _, s := range steps {
		out.Steps = append(out.Steps, Step{s.Rule, s.Effect, s.Outcome})
	}
}

func (g *Gateway) explain(r *http.Request, v *server, name string, as *policy.Caller) Explained {
	out := Explained{Server: v.name, Name: name}
	for _, e := range v.catalog.Explain(r.Context(), catalog.Scope{Principal: g.principal.Key}, name) {
		t := Explanation{
			Upstream: e.Target.Upstream, Original: e.Target.ID, Exposed: e.Target.Exposed,
			Rule: e.Target.Rule, Why: e.Why, Names: e.Names, Hidden: e.Hidden,
		}
		if e.Target.Upstream != "" {
			t.Kind = e.Kind.String()
		}
		if e.Err != nil {
			t.Error = e.Err.Error()
		}
		if as != nil && e.Target.Upstream != "" {
			g.judgement(r, v, &e.Target, as, &t)
		}
		out.Targets = append(out.Targets, t)
	}
	for _, c := range v.catalog.Collisions() {
		out.Collisions = append(out.Collisions, CollisionOut{
			Kind: c.Kind.String(), Name: c.Name, Exposed: c.Exposed,
			Winner: c.Winner.Upstream + "/" + c.Winner.ID, Loser: c.Loser.Upstream + "/" + c.Loser.ID,
		})
	}
	return out
}
