package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Bounds of one tasks/list: tasks on a page, owners asked at once, and looks into
// the index for a page that has something on it.
const (
	taskPage   = 50
	taskAsks   = 8
	taskPasses = 10
)

// listTasks serves tasks/list of 2025-11-25: from the index alone, the caller's own
// tasks of this virtual server, newest first, each as its owner tells it now. What an
// upstream would list teaches nothing. A task whose owner does not answer is left
// out, and the upstream named in _meta; one that its owner knows no more is not
// there.
func (g *Gateway) listTasks(ctx context.Context, x *north.Exchange, v *server) error {
	if err := g.servesTasks(x, v); err != nil {
		return err
	}
	var after store.TaskPosition
	if m := &x.Msg; m.Cursor.Ok() {
		cursor, err := wire.String(m.Cursor.Of(m.Raw))
		if err != nil {
			return fault.New(fault.InvalidParams, "params.cursor is not a string")
		}
		if after, err = g.openTaskCursor(x, cursor); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(g.doc.Limits.ListTimeout))
	defer cancel()
	var found []*listedTask
	var partial []string
	next := ""
	for range taskPasses {
		page, err := g.tasks.List(ctx, x.Principal.Key, v.name, after, taskPage)
		if err != nil {
			return err
		}
		if next = ""; len(page) == taskPage {
			after = page[len(page)-1].Position()
			next = g.sealTaskCursor(x, after)
		}
		listed := g.listable(x, v, page)
		g.refresh(ctx, x, v, listed)
		for _, l := range listed {
			if l.missing != "" && !slices.Contains(partial, l.missing) {
				partial = append(partial, l.missing)
			}
			if l.task != nil {
				found = append(found, l)
			}
		}
		if next == "" || len(found) > 0 || len(partial) > 0 {
			break
		}
	}
	b := []byte(`{"tasks":[`)
	for i, l := range found {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, l.task...)
	}
	b = append(b, ']')
	if next != "" {
		b = append(append(b, `,"nextCursor":`...), wire.AppendString(nil, next)...)
	}
	if len(partial) > 0 {
		b = append(b, `,"_meta":{"`+mcp.MetaPartial+`":[`...)
		for i, p := range partial {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"upstream":`...)
			b = wire.AppendString(b, p)
			b = append(b, `,"reason":"it did not tell of its tasks in time"}`...)
		}
		b = append(b, `]}`...)
	}
	b = append(b, '}')
	if x.Framed() {
		safe, err := wire.LineSafe(nil, b)
		if err != nil {
			return fault.Wrap(err, fault.InvalidAnswer, "a task cannot be listed")
		}
		b = safe
	}
	return x.Result(b)
}

// listedTask is a task of a page on its way to the client.
type listedTask struct {
	rec     *store.Task
	id      string
	m       *member
	task    []byte // raw object; nil: it is not shown
	missing string // the upstream that did not answer; ""
}

// listable are the tasks of a page of the index that this client may be shown.
func (g *Gateway) listable(x *north.Exchange, v *server, page []*store.Task) (out []*listedTask) {
	who, scope := g.sees(x, v), g.scope(x)
	for _, rec := range page {
		if !rec.Legacy || rec.Mark == store.TaskWithheld || rec.Mark == store.TaskRevoked {
			continue
		}
		id, err := g.ids.Open(rec.Sealed, rec.Hash)
		if err != nil {
			continue // sealed under a key that is no more: only who has the id can use it
		}
		m, err := g.ownerOf(v, rec)
		if err != nil {
			out = append(out, &listedTask{rec: rec, missing: rec.Upstream})
			continue
		}
		t := v.origin(rec, m)
		if g.shows(v, scope, who, &t) {
			out = append(out, &listedTask{rec: rec, id: id, m: m})
		}
	}
	return out
}

// refresh asks the owners of tasks how they are, several at once.
func (g *Gateway) refresh(ctx context.Context, x *north.Exchange, v *server, all []*listedTask) {
	var wg sync.WaitGroup
	defer wg.Wait()
	turns := make(chan struct{}, taskAsks)
	for _, l := range all {
		if l.m == nil {
			continue
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			g.refreshOne(ctx, x, v, l)
		})
	}
}

func (g *Gateway) refreshOne(ctx context.Context, x *north.Exchange, v *server, l *listedTask) {
	l.missing = l.m.key
	if g.admitUpstream(x, l.m) != nil {
		return
	}
	link, err := g.reach(ctx, x, v, l.m, l.rec)
	if err != nil {
		return
	}
	began := time.Now()
	whole, err := sendWhole(ctx, link, g.ownTaskRequest(link, mcp.TasksGet, l.id))
	g.metrics.UpstreamCall(l.m.key, mcp.TasksGet, callOutcome(err), time.Since(began))
	var s wire.Answer
	if err != nil || wire.Scan(whole, &s) != nil {
		return
	}
	if s.Error.Ok() {
		switch fault.Code(s.ErrorCode) {
		case fault.InvalidParams, fault.ResourceNotFound:
			l.missing = "" // it has passed
		}
		return
	}
	if got, err := wire.String(s.TaskID.Of(whole)); err != nil || got != l.id {
		return
	}
	g.tasks.Saw(l.rec, lifeOf(&s, link.Era))
	l.missing, l.task = "", without(s.Result.Of(whole), isMeta)
}

// taskCursorVersion begins our cursors of tasks/list; taskCursorTag is how much of
// the HMAC-SHA-256 is kept, as in those of the other lists.
const (
	taskCursorVersion = 1
	taskCursorTag     = 16
	taskCursorSize    = 1 + 8 + 32 + taskCursorTag
)

// sealTaskCursor makes a cursor that goes on behind a position. It is good for one
// principal on one virtual server.
func (g *Gateway) sealTaskCursor(x *north.Exchange, after store.TaskPosition) string {
	b := make([]byte, 0, taskCursorSize)
	b = append(b, taskCursorVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(after.Created.UnixNano()))
	b = append(b, after.Hash[:]...)
	return base64.RawURLEncoding.EncodeToString(append(b, g.taskCursorTag(x, b)...))
}

func (g *Gateway) openTaskCursor(x *north.Exchange, cursor string) (store.TaskPosition, error) {
	bad := fault.New(fault.InvalidParams, "invalid cursor").WithHint("list again from the first page")
	if len(cursor) != base64.RawURLEncoding.EncodedLen(taskCursorSize) {
		return store.TaskPosition{}, bad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || raw[0] != taskCursorVersion {
		return store.TaskPosition{}, bad
	}
	body, tag := raw[:taskCursorSize-taskCursorTag], raw[taskCursorSize-taskCursorTag:]
	if !hmac.Equal(tag, g.taskCursorTag(x, body)) {
		return store.TaskPosition{}, bad
	}
	p := store.TaskPosition{Created: time.Unix(0, int64(binary.BigEndian.Uint64(body[1:]))), Principal: x.Principal.Key}
	copy(p.Hash[:], body[9:])
	return p, nil
}

func (g *Gateway) taskCursorTag(x *north.Exchange, body []byte) []byte {
	mac := hmac.New(sha256.New, g.keys.cursor)
	mac.Write([]byte("tasks\x00"))
	mac.Write(x.Principal.Key[:])
	mac.Write(body)
	mac.Write([]byte(x.Server))
	return mac.Sum(nil)[:taskCursorTag]
}
