package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/penstock-mcp/penstock/internal/catalog"
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
	Error    string   `json:"error,omitempty"`
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
	mux.HandleFunc("GET /explain", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		only := q.Get("server")
		if only != "" && g.servers[only] == nil {
			http.Error(w, "no virtual server is named "+only, http.StatusNotFound)
			return
		}
		out := []Explained{}
		for _, s := range g.doc.ServerNames() {
			if only == "" || s == only {
				out = append(out, g.explain(r, g.servers[s], q.Get("name")))
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			g.log.Debug("explanation not written", "error", err)
		}
	})
	return mux
}

func (g *Gateway) explain(r *http.Request, v *server, name string) Explained {
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
