//go:build linux

package chaos_test

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Whatever id a client has seen leads to its task after any crash: where it was
// killed, and at the other instance.
func TestEveryTaskThatAClientSawOutlivesAKill(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			modern, legacy := newMaker(t, false), newMaker(t, true)
			var all []*gateway
			if engine == "sqlite" {
				all = append(all, newGateway(t, taskDocument("sqlite:"+filepath.Join(t.TempDir(), "penstock.db"), modern, legacy)).run())
			} else {
				document := taskDocument(database(t), modern, legacy)
				all = append(all, newGateway(t, document).run(), newGateway(t, document).run())
			}
			mintAndKill(t, all, times(15, 300))
		})
	}
}

func mintAndKill(t *testing.T, all []*gateway, rounds int) {
	anywhere := func() string { return all[rand.IntN(len(all))].address }
	check := newHolders(t, all[0].address)
	var clients []*taskClient
	for _, who := range []string{"ann", "bob"} {
		clients = append(clients, asTasker(t, anywhere(), who), asTasker(t, anywhere(), who), asLegacyTasker(t, anywhere(), who))
	}
	var ever seen
	for round := range rounds {
		victim := all[rand.IntN(len(all))]
		var fresh seen
		var working sync.WaitGroup
		for _, c := range clients {
			working.Go(func() { mintAndPoll(t, c, victim.address, &fresh) })
		}
		eventually(t, "a task is made", 30*time.Second, func() bool { return len(fresh.list()) > 0 || t.Failed() })
		time.Sleep(rand.N(80 * time.Millisecond))
		victim.kill()
		working.Wait()
		// The other instance is asked while this one is down, and this one once it is back.
		if len(all) > 1 {
			for _, s := range fresh.list() {
				for _, g := range all {
					if g != victim {
						check.resolve(t, g.address, s)
					}
				}
			}
		}
		victim.run()
		for i, s := range fresh.list() {
			check.resolve(t, victim.address, s)
			if i%10 == 0 {
				check[[2]string{"eve", s.kind}].at(anywhere()).lacks(t, s.id)
			}
			ever.add(check[[2]string{s.who, s.kind}], s.id)
		}
		for range 10 { // some from before
			before := ever.list()
			check.resolve(t, anywhere(), before[rand.IntN(len(before))])
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	before := ever.list()
	for _, i := range rand.Perm(len(before))[:min(len(before), 1000)] {
		check.resolve(t, anywhere(), before[i])
	}
	t.Logf("%d kills, %d tasks; every id that was seen leads to its own", rounds, len(before))
}

// mintAndPoll makes tasks and polls them until the instance is killed.
func mintAndPoll(t *testing.T, c *taskClient, address string, to *seen) {
	c = c.at(address)
	for {
		id, a, err := c.mint("work")
		if err != nil {
			return // it was killed
		}
		if id == "" {
			t.Errorf("no task: %v", a)
			return
		}
		to.add(c, id)
		if a, err = c.poll(to.any(c)); err != nil {
			return
		}
		if a.Result == nil {
			t.Errorf("a poll beside mints: %v", a)
			return
		}
	}
}
