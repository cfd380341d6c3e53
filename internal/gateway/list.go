package gateway

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/observe"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// list answers one page of a merged list. The items are a slice of a view that
// was rendered before; only head and tail are made for this request.
func (g *Gateway) list(ctx context.Context, x *north.Exchange, v *server) error {
	m := &x.Msg
	cursor := ""
	if m.Cursor.Ok() {
		var err error
		if cursor, err = wire.String(m.Cursor.Of(m.Raw)); err != nil {
			return fault.New(fault.InvalidParams, "params.cursor is not a string")
		}
	}
	l, err := v.catalog.List(ctx, g.scope(x), g.sees(x, v), x.Method.Kind, x.Revision, cursor, m.Cursor.Ok())
	g.metrics.List(v.name, x.Method.Kind.String(), listOutcome(&l, err))
	if err != nil {
		return err
	}
	if v.meta != nil && x.Method.Kind == mcp.Tools {
		g.listMeta(ctx, x, v, &l)
	}
	head := make([]byte, 0, 32)
	head = append(head, `{"`...)
	head = append(head, x.Method.Kind.String()...)
	head = append(head, `":[`...)
	return x.Result(head, l.Items, g.listTail(x, &l))
}

// listOutcome is how whole a list is, for the metrics.
func listOutcome(l *catalog.List, err error) string {
	if err != nil {
		return observe.Failed
	}
	outcome := "complete"
	for i := range l.Missing {
		if !l.Missing[i].Stale {
			return "partial"
		}
		outcome = "stale"
	}
	return outcome
}

func (g *Gateway) listTail(x *north.Exchange, l *catalog.List) []byte {
	b := make([]byte, 0, 512)
	b = append(b, ']')
	if l.Next != "" {
		b = append(b, `,"nextCursor":`...)
		b = wire.AppendString(b, l.Next)
	}
	modern := x.Era == mcp.Modern
	if modern {
		b = append(b, `,"resultType":"complete","ttlMs":`...)
		b = strconv.AppendInt(b, l.TTL.Milliseconds(), 10)
		if l.Public {
			b = append(b, `,"cacheScope":"public"`...)
		} else {
			b = append(b, `,"cacheScope":"private"`...)
		}
	}
	if modern || len(l.Missing) > 0 {
		b = append(b, `,"_meta":{`...)
		if modern {
			b = append(b, `"`+mcp.MetaServerInfo+`":`...)
			b = append(b, g.self[x.Revision]...)
		}
		if len(l.Missing) > 0 {
			if modern {
				b = append(b, ',')
			}
			b = appendMissing(b, l.Missing)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendMissing names what a list lacks: `"penstock/partial":[{...}]`.
func appendMissing(b []byte, missing []catalog.Missing) []byte {
	b = append(b, `"`+mcp.MetaPartial+`":[`...)
	for i, m := range missing {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"upstream":`...)
		b = wire.AppendString(b, m.Upstream)
		b = append(b, `,"reason":`...)
		b = wire.AppendString(b, m.Reason)
		if m.Stale {
			b = append(b, `,"stale":true`...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// fetcher is how a virtual server's catalog reaches its upstreams.
type fetcher struct {
	g *Gateway
	v *server
}

// offered names the capability that a kind needs.
var offered = [mcp.NumKinds]string{"tools", "prompts", "resources", "resources"}

// Page implements catalog.Fetcher.
func (f *fetcher) Page(ctx context.Context, upstream string, scope catalog.Scope, kind mcp.Kind, cursor []byte) (catalog.Page, error) {
	u := f.v.byKey[upstream].south
	ctx = f.g.within(ctx, f.g.vault.get(scope.Principal))
	for moved := 0; ; moved++ {
		p, err := f.page(ctx, u, scope, kind, cursor)
		p.Private = personal(f.g.doc.Upstreams[upstream])
		var off *unreachedError
		if !errors.As(err, &off) || moved == off.others || ctx.Err() != nil {
			return p, err
		}
	}
}

// page asks one upstream, or one replica of it.
func (f *fetcher) page(ctx context.Context, u upstream, scope catalog.Scope, kind mcp.Kind, cursor []byte) (catalog.Page, error) {
	key := sessionKey(f.v, scope.Principal, "")
	key.Caps = scope.Caps
	link, err := u.Link(ctx, key)
	if err != nil {
		return catalog.Page{}, err
	}
	if !has(link.Capabilities(), offered[kind]) {
		return catalog.Page{Era: link.Era}, catalog.ErrAbsent
	}
	id := link.NextID(nil)
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"`...)
	body = append(body, kind.Method()...)
	body = append(body, `","params":{`...)
	if cursor != nil {
		body = append(body, `"cursor":`...)
		body = append(body, cursor...)
	}
	if link.Era == mcp.Modern {
		if cursor != nil {
			body = append(body, ',')
		}
		body = append(body, `"_meta":{"`+mcp.MetaProtocolVersion+`":"`...)
		body = append(body, mcp.LatestModern.String()...)
		body = append(body, `","`+mcp.MetaClientInfo+`":`...)
		body = append(body, f.g.self[mcp.LatestModern]...)
		body = append(body, `,"`+mcp.MetaClientCapabilities+`":{}}`...)
	}
	body = append(body, `}}`...)
	began := time.Now()
	a, err := link.Send(ctx, &south.Request{Method: kind.Method(), ID: id, Body: body, Safe: true})
	f.g.metrics.UpstreamCall(u.Key(), kind.Method(), callOutcome(err), time.Since(began))
	if err != nil {
		return catalog.Page{}, elsewhere(u, link, key, err, true)
	}
	defer a.Close()
	result, err := f.result(u, a)
	return catalog.Page{Result: result, Era: link.Era, HTTP: true, Tasks: link.Era == mcp.Legacy && link.Revision == mcp.V20251125 && speaksLegacyTasks(link.Capabilities())}, err
}

// result takes the result object out of a list's answer.
func (f *fetcher) result(u upstream, a *south.Answer) ([]byte, error) {
	whole, err := hold(a)
	if err != nil {
		return nil, err
	}
	s := &a.Scan
	if s.Error.Ok() {
		if fault.Code(s.ErrorCode) == fault.MethodNotFound {
			return nil, catalog.ErrAbsent
		}
		return nil, fault.New(fault.InvalidAnswer, "upstream %q answered its list with error %d", u.Key(), s.ErrorCode)
	}
	return append([]byte(nil), s.Result.Of(whole)...), nil
}

// hold reads an answer to its end and scans it, however large; the upstream's
// response_bytes bound it.
func hold(a *south.Answer) ([]byte, error) {
	if _, err := a.More(math.MaxInt64 - 1); err != nil {
		return nil, err
	}
	return a.Whole, nil
}

func has(obj []byte, name string) (yes bool) {
	if len(obj) == 0 {
		return false
	}
	err := wire.Members(obj, func(n, v []byte) bool {
		yes = yes || (isName(n, name) && len(v) > 0 && v[0] == '{')
		return true
	})
	return yes && err == nil
}
