package conformance

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Keys holds an engine to the contract of store.Keys. open returns n
// repositories, as n instances of one empty store would have them; what it opens
// ends with t.
func Keys(t *testing.T, open func(t *testing.T, n int) []store.Keys) {
	t.Run("a ring is generated once for all", func(t *testing.T) {
		all := open(t, 4)
		rings := make([][][]byte, 16)
		var wg sync.WaitGroup
		for i := range rings {
			wg.Go(func() {
				var err error
				if rings[i], err = all[i%len(all)].Ring(t.Context()); err != nil {
					t.Errorf("ring: %v", err)
				}
			})
		}
		wg.Wait()
		if len(rings[0]) != 1 || len(rings[0][0]) != 32 {
			t.Fatalf("a ring of %d keys", len(rings[0]))
		}
		for _, ring := range rings[1:] {
			if !cmp.Equal(ring, rings[0]) {
				t.Error("two callers got different rings")
			}
		}
	})
	t.Run("two stores have different keys", func(t *testing.T) {
		one, err := open(t, 1)[0].Ring(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		two, err := open(t, 1)[0].Ring(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if cmp.Equal(one, two) {
			t.Error("the key of a store is that of another")
		}
	})
}
