package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock-mcp/penstock/internal/store"
)

const routeColumns = `id, principal, tenant, key, request_digest, server, upstream, upstream_task, phase, created, updated, expires, due, version, integrity, document`

// scanRoute reads routeColumns and what follows them. What comes from outside is
// bytes in the database, for it need not be text.
func scanRoute(s Scanner, more ...any) (*store.Route, error) {
	var r store.Route
	var principal, tenant, key, task, document []byte
	var created, updated, expires, due, version int64
	dest := []any{
		&r.ID, &principal, &tenant, &key, &r.RequestDigest, &r.Server, &r.Upstream, &task, &r.Phase,
		&created, &updated, &expires, &due, &version, &r.Integrity, &document,
	}
	if err := s.Scan(append(dest, more...)...); err != nil {
		return nil, err
	}
	r.Principal, r.Tenant, r.Key, r.UpstreamTask = string(principal), string(tenant), string(key), string(task)
	r.Created, r.Updated, r.Expires, r.Due = atMillis(created), atMillis(updated), atMillis(expires), atMillis(due)
	r.Version, r.Document = uint64(version), document
	return &r, nil
}

// routeArgs are the values of routeColumns.
func routeArgs(r *store.Route) []any {
	return []any{
		r.ID, []byte(r.Principal), []byte(r.Tenant), []byte(r.Key), r.RequestDigest, r.Server, r.Upstream, []byte(r.UpstreamTask), r.Phase,
		millis(r.Created), millis(r.Updated), millis(r.Expires), millis(r.Due), int64(r.Version), r.Integrity, blob(r.Document),
	}
}

// asStored is a record as it reads back.
func asStored(r *store.Route) *store.Route {
	c := *r
	c.Created, c.Updated, c.Expires, c.Due = atMillis(millis(r.Created)), atMillis(millis(r.Updated)), atMillis(millis(r.Expires)), atMillis(millis(r.Due))
	c.Document = bytes.Clone(r.Document)
	return &c
}

// millis is a time in a column; a zero one is 0.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func atMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// blob is bytes for a column that is never NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// isText tells whether every engine takes s for text. What is not is nobody's
// id.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// routeBy is the one route of a condition, and its seat among all.
func routeBy(ctx context.Context, tx Tx, where string, args ...any) (r *store.Route, seat int64, err error) {
	r, err = scanRoute(rowScanner{tx, ctx, `SELECT ` + routeColumns + `, seat FROM routes WHERE ` + where, args}, &seat)
	return r, seat, err
}

// routeByKey is the route that a caller's key names.
func routeByKey(ctx context.Context, tx Tx, principal, tenant, key string) (*store.Route, int64, error) {
	return routeBy(ctx, tx, `principal = $1 AND tenant = $2 AND key = $3`, []byte(principal), []byte(tenant), []byte(key))
}

// tells checks that an event is that of the record as it comes to be.
func tells(r *store.Route, e *store.RouteEvent) error {
	switch {
	case e.Route != r.ID, e.Version != r.Version, e.To != r.Phase:
		return fmt.Errorf("store: the event of %s, %d, %q is not that of route %s, %d, %q", e.Route, e.Version, e.To, r.ID, r.Version, r.Phase)
	case (r.Version == 0) != (e.From == ""):
		return errors.New("store: an event has no phase before it exactly when it is the first")
	}
	return nil
}

func insertEvent(ctx context.Context, tx Tx, e *store.RouteEvent) error {
	_, err := tx.Exec(ctx, `INSERT INTO route_events (route, version, from_phase, to_phase, reason, actor, at, previous, digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		e.Route, int64(e.Version), e.From, e.To, []byte(e.Reason), e.Actor, millis(e.At), e.Previous, e.Digest)
	return err
}
