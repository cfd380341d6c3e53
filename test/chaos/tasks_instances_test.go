//go:build linux

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// However often one of two instances dies, no poll at either reads as one of a task
// that does not exist, nor as any other error: what meets a killed instance gets no
// answer, and goes to the other.
func TestNoTaskIsUnknownWhileInstancesDie(t *testing.T) {
	t.Parallel()
	modern, legacy := newMaker(t, false), newMaker(t, true)
	document := taskDocument(database(t), modern, legacy)
	all := [2]*gateway{newGateway(t, document).run(), newGateway(t, document).run()}
	var ever seen
	var polls, lost, foreign atomic.Int64
	ends := make(chan struct{})
	var working sync.WaitGroup
	work := func(c *taskClient) {
		working.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ends:
					return
				case <-time.After(rand.N(4 * time.Millisecond)):
				}
				here := c.at(all[rand.IntN(2)].address)
				if n%8 == 0 && c.who != "eve" {
					id, a, err := here.mint("work")
					switch {
					case err != nil:
						lost.Add(1)
					case id == "":
						t.Errorf("%s, %s at %s: no task: %v", c.who, c.kind(), here.address, a)
						return
					default:
						ever.add(c, id)
					}
					continue
				}
				// eve asks for what is ann's.
				id := ever.any(&taskClient{c.client, map[string]string{"ann": "ann", "bob": "bob", "eve": "ann"}[c.who]})
				if id == "" {
					continue
				}
				a, err := here.poll(id)
				switch {
				case err != nil:
					lost.Add(1)
				case c.who == "eve" && !a.unknown():
					t.Errorf("eve, %s at %s, is told of ann's %s: %v", c.kind(), here.address, id, a)
					return
				case c.who == "eve":
					foreign.Add(1)
				case a.Result == nil || a.Result.TaskID != id:
					t.Errorf("%s, %s at %s: a living task reads as %v", c.who, c.kind(), here.address, a)
					return
				default:
					polls.Add(1)
				}
			}
		})
	}
	for _, who := range callers {
		for range 2 {
			work(asTasker(t, all[0].address, who))
			work(asLegacyTasker(t, all[1].address, who))
		}
	}
	kills := 0
	for end := time.Now().Add(lasting(8*time.Second, 2*time.Minute)); time.Now().Before(end) && !t.Failed(); kills++ {
		victim := all[rand.IntN(2)]
		time.Sleep(rand.N(400 * time.Millisecond))
		victim.kill()
		time.Sleep(rand.N(100 * time.Millisecond))
		victim.run()
	}
	close(ends)
	working.Wait()
	check := newHolders(t, all[0].address)
	for _, s := range ever.list() {
		check.resolve(t, all[rand.IntN(2)].address, s)
	}
	said := fmt.Sprintf("%d kills, %d tasks, %d polls answered and %d of somebody else's refused, %d requests without an answer",
		kills, len(ever.list()), polls.Load(), foreign.Load(), lost.Load())
	if kills < 5 || polls.Load() < 200 || foreign.Load() < 50 || lost.Load() == 0 {
		t.Errorf("too little happened: %s", said)
	}
	t.Log(said)
}
