package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/audit"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/store"
)

// PinOut is what an upstream offers, as the operator pins it.
type PinOut struct {
	Upstream string `json:"upstream"`
	Pin      string `json:"pin"`
	Pinned   string `json:"pinned,omitempty"` // by the document
	Tasks    bool   `json:"tasks"`            // it speaks the extension
	Tools    int    `json:"tools"`
}

// RouteOut is a durable task as the operator sees it.
type RouteOut struct {
	ID           string    `json:"id"`
	Phase        string    `json:"phase"`
	Reason       string    `json:"reason,omitempty"`
	Next         string    `json:"next"` // what can be done about it
	Principal    string    `json:"principal"`
	Tenant       string    `json:"tenant"`
	Server       string    `json:"server"`
	Upstream     string    `json:"upstream"`
	Tool         string    `json:"tool"`
	Alias        string    `json:"alias"`
	UpstreamTask string    `json:"upstreamTask,omitempty"`
	Created      time.Time `json:"created"`
	Updated      time.Time `json:"updated"`
	Cutoff       time.Time `json:"cutoff"`
	Expires      time.Time `json:"expires"`
	Version      uint64    `json:"version"`
}

// RoutesOut is one page of durable tasks, newest first.
type RoutesOut struct {
	Routes []RouteOut `json:"routes"`
	Next   string     `json:"next,omitempty"`
}

// RouteExport is everything that is stored of one.
type RouteExport struct {
	Route   RouteOut           `json:"route"`
	Record  *durable.Route     `json:"record"`
	Journal []store.RouteEvent `json:"journal"`
	Problem string             `json:"problem,omitempty"` // the journal does not fit together
}

func routeOut(r *durable.Route) RouteOut {
	return RouteOut{
		ID: r.ID, Phase: string(r.Phase), Reason: r.Reason, Next: r.Next(), Principal: r.Principal, Tenant: r.Tenant, Server: r.Server,
		Upstream: r.Capability.Source, Tool: r.Tool, Alias: r.Alias, UpstreamTask: r.UpstreamTask, Created: time.UnixMilli(r.Created),
		Updated: time.UnixMilli(r.Updated), Cutoff: time.UnixMilli(r.Cutoff), Expires: time.UnixMilli(r.Expires), Version: r.Version,
	}
}

// adminDurable adds what `penstock explain --pin` and `penstock tasks` ask of durable
// tasks.
func (g *Gateway) adminDurable(mux *http.ServeMux) {
	mux.HandleFunc("GET /pin", g.adminPin)
	mux.HandleFunc("GET /routes", g.withDurable(g.adminRoutes))
	mux.HandleFunc("GET /routes/show", g.withDurable(g.adminRoute))
	mux.HandleFunc("POST /routes/cancel", g.withDurable(g.adminCancel))
	mux.HandleFunc("POST /routes/resolve", g.withDurable(g.adminResolve))
}

// withDurable answers for a gateway without durable tasks.
func (g *Gateway) withDurable(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if g.durable == nil {
			http.Error(w, "there are no durable tasks here: state is in memory, or durable is off", http.StatusNotFound)
			return
		}
		h(w, r)
	}
}

func (g *Gateway) adminPin(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("upstream")
	u, c := g.upstreams[key], g.doc.Upstreams[key]
	switch {
	case u == nil:
		http.Error(w, "no upstream is named "+key, http.StatusNotFound)
		return
	case personal(c):
		http.Error(w, "the credentials of "+key+" are each caller's own: what it offers cannot be looked at in nobody's name", http.StatusConflict)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), sourceTime)
	defer cancel()
	_, _, _, link, err := reachModern(ctx, u)
	if err != nil {
		http.Error(w, "upstream "+key+": "+err.Error(), http.StatusConflict)
		return
	}
	offer, err := discover(ctx, link, g.self[link.Revision])
	if err != nil {
		http.Error(w, "upstream "+key+": "+err.Error(), http.StatusConflict)
		return
	}
	m, err := offer.Manifest()
	if err != nil {
		http.Error(w, "upstream "+key+": "+err.Error(), http.StatusConflict)
		return
	}
	out := PinOut{Upstream: key, Pin: m.String(), Tasks: offer.SupportsTasks(), Tools: len(offer.Tools)}
	if c.Durable != nil {
		out.Pinned = c.Durable.Pin
	}
	g.admin(w, out)
}

func (g *Gateway) adminRoutes(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f := store.RouteFilter{Upstream: q.Get("upstream"), Phase: q.Get("phase")}
	if after := q.Get("after"); after != "" {
		at, id, ok := strings.Cut(after, " ")
		t, err := time.Parse(time.RFC3339Nano, at)
		if !ok || err != nil {
			http.Error(w, "after is no place in the list", http.StatusBadRequest)
			return
		}
		f.Before, f.BeforeID = t, id
	}
	all, err := g.durable.List(r.Context(), f, adminPage)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	out := RoutesOut{Routes: []RouteOut{}}
	for _, one := range all {
		out.Routes = append(out.Routes, routeOut(one))
	}
	if n := len(all); n > 0 { // fewer than a page may be what could be read of one
		out.Next = time.UnixMilli(all[n-1].Created).UTC().Format(time.RFC3339Nano) + " " + all[n-1].ID
	}
	g.admin(w, out)
}

func (g *Gateway) adminRoute(w http.ResponseWriter, r *http.Request) {
	route, journal, err := g.durable.Show(r.Context(), r.URL.Query().Get("id"))
	if route == nil {
		adminError(w, err)
		return
	}
	out := RouteExport{Route: routeOut(route), Record: route, Journal: journal}
	if err != nil {
		out.Problem = err.Error()
	}
	g.admin(w, out)
}

// adminCancel cancels a durable task in the name of the caller that has it.
func (g *Gateway) adminCancel(w http.ResponseWriter, r *http.Request) {
	route, _, err := g.durable.Show(r.Context(), r.URL.Query().Get("id"))
	if route == nil {
		adminError(w, err)
		return
	}
	_, err = g.durable.Cancel(r.Context(), durable.Caller{Principal: route.Principal, Tenant: route.Tenant}, route.ID)
	g.recordOperator("tasks/cancel", route, "", err)
	if err != nil {
		adminError(w, err)
		return
	}
	g.adminRoute(w, r)
}

// adminResolve ends a durable task that an operator has looked into.
func (g *Gateway) adminResolve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id, status, reason := q.Get("id"), q.Get("status"), strings.TrimSpace(q.Get("reason"))
	if reason == "" {
		http.Error(w, "a reason is needed: the caller is told it", http.StatusBadRequest)
		return
	}
	route, _, err := g.durable.Show(r.Context(), id)
	if route == nil {
		adminError(w, err)
		return
	}
	err = g.durable.Resolve(r.Context(), id, status, reason, "operator")
	g.recordOperator("tasks/resolve", route, status+": "+reason, err)
	if err != nil {
		adminError(w, err)
		return
	}
	g.log.Info("a durable task was resolved by the operator", "task", id, "status", status)
	g.adminRoute(w, r)
}

func adminError(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, durable.ErrNoTask):
		http.Error(w, "nobody has a durable task of that id here", http.StatusNotFound)
		return
	case errors.Is(err, durable.ErrResolved):
		status = http.StatusConflict
	}
	http.Error(w, err.Error(), status)
}

// recordOperator is the record of what an operator did about a durable task.
func (g *Gateway) recordOperator(method string, r *durable.Route, detail string, err error) {
	if g.audit.log == nil {
		return
	}
	e := audit.Event{
		Time: time.Now(), Source: "admin", Server: r.Server, Method: method, Kind: "task", Name: r.ID, Original: r.Tool,
		Upstream: r.Capability.Source, Outcome: north.OK, Detail: detail,
	}
	if err != nil {
		e.Outcome = north.Failed
	}
	g.audit.log.Record(&e)
}
