package tables

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Due implements store.Routes.
func (s *Routes) Due(ctx context.Context, now time.Time, limit int) ([]*store.Route, error) {
	return s.page(ctx, `SELECT `+routeColumns+` FROM routes WHERE due > 0 AND due <= $1 AND expires > $1 ORDER BY due, id LIMIT $2`,
		millis(now), int64(max(0, limit)))
}

// List implements store.Routes.
func (s *Routes) List(ctx context.Context, f store.RouteFilter, limit int) ([]*store.Route, error) {
	var query strings.Builder
	query.WriteString(`SELECT ` + routeColumns + ` FROM routes WHERE (created, id) < ($1, $2)`)
	args := []any{int64(math.MaxInt64), ""}
	if !f.Before.IsZero() {
		args = []any{millis(f.Before), f.BeforeID}
	}
	for _, is := range []struct {
		column string
		value  any
		asked  bool
	}{
		{"principal", []byte(f.Principal), f.Principal != ""},
		{"tenant", []byte(f.Tenant), f.Tenant != ""},
		{"upstream", f.Upstream, f.Upstream != ""},
		{"phase", f.Phase, f.Phase != ""},
	} {
		if is.asked {
			args = append(args, is.value)
			fmt.Fprintf(&query, " AND %s = $%d", is.column, len(args))
		}
	}
	args = append(args, int64(max(0, limit)))
	fmt.Fprintf(&query, " ORDER BY created DESC, id DESC LIMIT $%d", len(args))
	return s.page(ctx, query.String(), args...)
}

func (s *Routes) page(ctx context.Context, query string, args ...any) (found []*store.Route, err error) {
	err = s.db.Read(ctx, func(tx Tx) error {
		found = nil
		return tx.Rows(ctx, query, args, func(r Scanner) error {
			is, err := scanRoute(r)
			if err == nil {
				found = append(found, is)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Count implements store.Routes.
func (s *Routes) Count(ctx context.Context) (by map[string]int, err error) {
	err = s.db.Read(ctx, func(tx Tx) error {
		by = map[string]int{}
		return tx.Rows(ctx, `SELECT phase, COUNT(*) FROM routes GROUP BY phase`, nil, func(r Scanner) error {
			var phase string
			var n int64
			err := r.Scan(&phase, &n)
			by[phase] = int(n)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return by, nil
}
