//go:build linux

package chaos_test

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// offers reports whether exactly these upstreams are listed.
func offers(c *client, keys []string) bool {
	a, err := c.ask(list, "", "")
	if err != nil || a.Error != nil || len(a.Result.Meta.Partial) > 0 {
		return false
	}
	var got []string
	for _, tool := range a.Result.Tools {
		if key, ok := strings.CutSuffix(tool.Name, "__count"); ok {
			got = append(got, key)
		}
	}
	slices.Sort(got)
	slices.Sort(keys)
	return slices.Equal(got, keys)
}

// change takes a document over in one of the ways that operators have.
func change(t *testing.T, g *gateway, document string) {
	t.Helper()
	document = "observe: {listen: " + g.observe + "}\n" + document
	put := func(text string) {
		if err := os.WriteFile(g.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	switch rand.IntN(4) {
	case 0: // in place, with SIGHUP at once
		put(document)
		_ = g.cmd.Process.Signal(syscall.SIGHUP)
	case 1: // in place, and the watch finds it
		put(document)
	case 2: // half of it lies there for a while
		at := g.log.len()
		put(document[:strings.Index(document, "{url")+5])
		eventually(t, "half a document is refused", 10*time.Second, func() bool { return g.log.count(at, "is not taken over") > 0 })
		put(document)
	case 3: // a new file in its place
		if err := os.WriteFile(g.file+".new", []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(g.file+".new", g.file); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReloadsFailNoRequestToAnUnchangedUpstreamAndLeaveNothing(t *testing.T) {
	t.Parallel()
	counter, plain := newUpstream(t, "counter", true), newUpstream(t, "plain", false)
	churn, stateless := newUpstream(t, "churn", true), newUpstream(t, "stateless", false)
	mark := crand.Text()
	stays := "limits: {list_timeout: 5s}\nservers: {default: {page_size: 1000}}\nstate: \"sqlite:" + t.TempDir() + "/penstock.db\"\nupstreams:\n" +
		member("counter", counter) + member("plain", plain) + childMember(t, "kid", mark, false)
	g := newGateway(t, stays).run()
	l := newLoad(t)
	for range 3 {
		l.add(open(t, g.address), time.Millisecond, "counter__count", "counter__count", "plain__count", "kid__count", list)
	}
	for range 2 {
		l.add(newClient(t, g.address), time.Millisecond, "counter__count", "plain__count", "kid__count", list)
	}
	modern, legacy := newClient(t, g.address), open(t, g.address)
	reload := func(n int) {
		document, keys := stays, []string{"counter", "plain", "kid"}
		for i := range 4 {
			if rand.IntN(2) == 0 {
				continue
			}
			key := fmt.Sprintf("c%d-%d", i, n%3) // another name each time, for the same server
			up := churn
			if i%2 == 1 {
				up = stateless
			}
			document, keys = document+member(key, up), append(keys, key)
		}
		if n%3 == 0 {
			document, keys = document+childMember(t, "guest", mark, n%2 == 0), append(keys, "guest")
		}
		change(t, g, document)
		eventually(t, fmt.Sprintf("reload %d: exactly %v are offered", n, keys), 20*time.Second, func() bool { return offers(modern, keys) })
		for _, key := range keys {
			a, err := legacy.call(key+"__count", 0)
			if err != nil || a.Error != nil {
				t.Fatalf("reload %d: %s: %v %v", n, key, a, err)
			}
		}
	}
	settled := func() usage {
		change(t, g, stays)
		eventually(t, "only what stays is offered", 20*time.Second, func() bool { return offers(modern, []string{"counter", "plain", "kid"}) })
		eventually(t, "two children are left, one of them the guard", 10*time.Second, func() bool { return used(g.cmd.Process.Pid).children == 2 })
		time.Sleep(time.Second)
		return used(g.cmd.Process.Pid)
	}
	for n := range 4 {
		reload(n)
	}
	before := settled()
	reloads := times(20, 100)
	for n := range reloads {
		reload(n)
	}
	after := settled()
	eventually(t, "no session is left at the upstream that was removed", 15*time.Second, func() bool { return len(churn.stats().Sessions) == 0 })
	var child int
	all := l.stop()
	for _, r := range all {
		if r.failed() {
			t.Fatalf("%s: %v %v", r.target, r.a, r.err)
		}
		if h := r.a.Result.Structured; r.upstream() == "kid" {
			if child != 0 && h.PID != child {
				t.Fatal("the child of an unchanged upstream was replaced")
			}
			child = h.PID
		}
	}
	steadySessions(t, all, "counter")
	t.Logf("%d reloads under %d requests: before %+v, after %+v", reloads, len(all), before, after)
	if after.descriptors > before.descriptors+12 || after.threads > before.threads+12 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if !raceDetector && after.resident > before.resident+48<<10 {
		t.Errorf("it holds %d KiB after %d", after.resident, before.resident)
	}
}
