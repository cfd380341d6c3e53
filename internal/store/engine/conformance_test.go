package engine_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/conformance"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// engines are the addresses of empty stores, one of each engine.
var engines = map[string]func(t testing.TB) string{
	"memory":   func(testing.TB) string { return "memory:" },
	"sqlite":   func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "penstock.db") },
	"postgres": pgtest.Database,
}

func each(t *testing.T, test func(t *testing.T, fresh func(t testing.TB) string)) {
	for name, fresh := range engines {
		t.Run(name, func(t *testing.T) { test(t, fresh) })
	}
}

// durable is each without memory, which ends with its process.
func durable(t *testing.T, test func(t *testing.T, fresh func(t testing.TB) string)) {
	for name, fresh := range engines {
		if name != "memory" {
			t.Run(name, func(t *testing.T) { test(t, fresh) })
		}
	}
}

func open(t testing.TB, o engine.Options) *engine.Store {
	t.Helper()
	s, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func with(b conformance.Bounds) engine.Options {
	return engine.Options{Now: b.Now, Sessions: b.Max, SessionsPerPrincipal: b.MaxFor, IdleSession: b.Idle}
}

func TestSessionsConform(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		conformance.Sessions(t, func(t *testing.T, b conformance.Bounds) store.Sessions {
			o := with(b)
			o.URL = fresh(t)
			return open(t, o).Sessions()
		})
	})
}

func TestSouthsConform(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		conformance.Souths(t, func(t *testing.T, max int, now func() time.Time) store.Souths {
			return open(t, engine.Options{URL: fresh(t), Now: now, Souths: max}).South()
		})
	})
}

func TestClaimsConform(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		conformance.Claims(t, func(t *testing.T, b conformance.Bounds) (store.Sessions, store.Claims) {
			o := with(b)
			o.URL = fresh(t)
			s := open(t, o)
			return s.Sessions(), s.Claims()
		})
	})
}

func TestKeysConform(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		conformance.Keys(t, func(t *testing.T, n int) []store.Keys {
			address := fresh(t)
			all := make([]store.Keys, n)
			for i := range all {
				// Only PostgreSQL is opened by several instances.
				if i == 0 || strings.HasPrefix(address, "postgres") {
					all[i] = open(t, engine.Options{URL: address}).Keys()
				} else {
					all[i] = all[0]
				}
			}
			return all
		})
	})
}

func TestTasksConform(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		conformance.Tasks(t, func(t *testing.T, b conformance.Bounds) store.Tasks {
			return open(t, taskOptions(fresh(t), b)).Tasks()
		})
	})
}

// taskOptions are those of a store that holds tasks within b, of which 0 is a
// bound too.
func taskOptions(address string, b conformance.Bounds) engine.Options {
	none := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	return engine.Options{URL: address, Now: b.Now, Tasks: none(b.Max), TasksPerPrincipal: none(b.MaxFor)}
}

func TestRoutesConform(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		conformance.Routes(t, func(t *testing.T, now func() time.Time) store.Routes {
			return open(t, engine.Options{URL: fresh(t), Now: now}).Routes()
		})
	})
}

func TestLeasesConform(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		conformance.Leases(t, func(t *testing.T) store.Leases {
			return open(t, engine.Options{URL: fresh(t)}).Leases()
		})
	})
}
