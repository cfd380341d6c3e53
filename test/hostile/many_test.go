package hostile_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// openFiles is how many descriptors this process has, or -1 where it cannot be told.
func openFiles() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(all)
}

// One subscription at each upstream serves a thousand listeners, a change reaches
// all of them, and nothing is left of them.
func TestAThousandListenersShareOneSubscriptionPerUpstream(t *testing.T) {
	const listeners, upstreams = 1000, 20
	ups, told := members{}, map[string]*telling{}
	for i := range upstreams {
		u := newModern(t)
		if i%2 == 1 {
			u = newLegacy(t)
		}
		key := fmt.Sprintf("u%02d", i)
		told[key] = u.telling()
		u.tool("t")
		ups[key] = u
	}
	g := serve(t, document(ups, nil, "limits: {streams_per_principal: 2000, in_flight_per_principal: 5000, call_timeout: 10s}"))
	if got := names(t, g.client, "tools/list"); len(got) != upstreams {
		t.Fatalf("listed: %v", got)
	}
	g.http.CloseIdleConnections()
	time.Sleep(200 * time.Millisecond)
	goroutines, files := runtime.NumGoroutine(), openFiles()

	ears := make([]*hearing, listeners)
	gate := make(chan struct{}, 50)
	var opening sync.WaitGroup
	for i := range ears {
		gate <- struct{}{}
		opening.Go(func() {
			defer func() { <-gate }()
			ears[i], _ = g.listen(fmt.Sprint(i), `{"toolsListChanged":true}`)
		})
	}
	opening.Wait()
	for key, w := range told {
		w.listens(t, "toolsListChanged")
		if w.live() != 1 || w.opened != 1 {
			t.Errorf("%s has %d streams, and had %d", key, w.live(), w.opened)
		}
	}
	start := time.Now()
	told["u07"].change("t", "another")
	for i, h := range ears {
		m := h.next()
		if !strings.Contains(m, toolsChanged) || at(m, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != fmt.Sprint(i) {
			t.Fatalf("listener %d got %s", i, m)
		}
	}
	t.Logf("%d listeners were told within %v", listeners, time.Since(start))
	for _, h := range ears {
		h.cancel()
	}
	for _, h := range ears {
		h.close()
		if n := len(h.events); n != 0 {
			t.Errorf("a listener was told %d times more", n)
		}
	}
	for key, w := range told {
		eventually(t, key+"'s stream is closed", 15*time.Second, func() bool { return w.live() == 0 })
	}
	eventually(t, "goroutines and descriptors are where they were", 20*time.Second, func() bool {
		g.http.CloseIdleConnections()
		return runtime.NumGoroutine() <= goroutines+10 && openFiles() <= files+2*upstreams
	})
	t.Logf("goroutines %d before, %d after; descriptors %d before, %d after", goroutines, runtime.NumGoroutine(), files, openFiles())
}

// Everything at full speed, with the result right behind. It runs beside no other
// test, which would get no time to itself.
func TestTenThousandProgressEventsArriveInOrderForTenClientsAtOnce(t *testing.T) {
	const count, clients = 10000, 10
	for _, u := range []*upstream{newModern(t), newLegacy(t)} {
		u.tool("t")
		u.handle("tools/call", func(x *exchange) {
			var b strings.Builder
			for i := range count {
				b.WriteString(x.progress(i + 1))
				if b.Len() > 32<<10 {
					x.stream(b.String())
					b.Reset()
				}
			}
			x.stream(b.String() + event(x.message(done)))
		})
		g := open(t, members{"a": u})
		callers := g.clients()
		var calling sync.WaitGroup
		for era, c := range callers {
			for i := range clients / len(callers) {
				calling.Go(func() {
					token := fmt.Sprintf(`"%s-%d"`, era, i)
					r := withToken(c, "a__t", token)
					if len(r.Events) != count+1 {
						t.Errorf("%s: %d events: %.300v", era, len(r.Events), r)
						return
					}
					for n, e := range r.Events[:count] {
						if e != fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":1.0}}`, token, n+1) {
							t.Errorf("%s: event %d is %s", era, n, e)
							return
						}
					}
					if at(r.Events[count], "result") == "" {
						t.Errorf("%s: the last is %s", era, r.Events[count])
					}
				})
			}
		}
		calling.Wait()
	}
}
