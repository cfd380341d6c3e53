package south

import (
	"testing"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestAWatchMovesToAnotherReplica(t *testing.T) {
	for what, make := range map[string]func(t *testing.T) (*stub, *holder){
		"modern": func(t *testing.T) (*stub, *holder) { return listener(t, tells, agreeing) },
		"legacy": streaming,
	} {
		t.Run(what, func(t *testing.T) {
			leakless(t)
			a, ha := make(t)
			b, hb := make(t)
			r := NewReplicas([]*Upstream{reach(t, a.url), reach(t, b.url)})
			t.Cleanup(func() { r.Close(t.Context()) })
			r.Start()
			r.Wait(t.Context())
			w, n := watching(t, r)
			w.Want(mcp.Filter{Tools: true, URIs: []string{"a://1"}})
			const on = `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://1"]}`
			n.await(t, on)
			first, there := a, hb
			if ha.len() == 0 {
				first, there = b, ha
			}
			if ha.len()+hb.len() != 1 {
				t.Fatalf("%d and %d streams", ha.len(), hb.len())
			}
			first.stop()
			n.await(t, on, on, "reopened")
			there.stream(t, 1).event(changed(mcp.Tools))
			n.await(t, on, on, "reopened", "changed tools")
		})
	}
}
