package tasks_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

// A task of somebody else and one that never was take the same time, wherever and however often they are asked for. The two
// are measured in pairs, in changing order, so that whatever else the machine does meets both.
func TestSomebodyElsesTaskTakesTheTimeOfAnUnknownOne_17(t *testing.T) {
	for _, probe := range []string{"off", "caller", "on"} {
		t.Run("probe="+probe, func(t *testing.T) {
			u := newUpstream(t, "up")
			d := over(u)
			d.tasks = "probe: " + probe + ", probe_rate: 100000/s, miss_ttl: 1h, max_per_principal: 100000"
			u.handle("tasks/get", func(x *exchange) {
				x.pause(2*time.Millisecond + rand.N(2*time.Millisecond))
				x.fail(invalidParams, "no such task")
			})
			var ann, bob *client
			if probe == "caller" {
				p := idp.Start(t)
				d.auth = fmt.Sprintf("auth:\n  jwt:\n    - {issuer: %q, audience: gw, algorithms: [RS256, ES256]}", p.Issuer())
				d.ups = []string{u.line("up", "credentials: {passthrough: {audience: up}}")}
				g := serve(t, d)
				token := func(who string) string {
					return p.Token(t, idp.TokenSpec{Subject: who, Audience: []string{"gw", "up"}})
				}
				ann, bob = g.bearing(token("ann")), g.bearing(token("bob"))
			} else {
				g := serve(t, d)
				ann, bob = g.as("ann"), g.as("bob")
			}
			eventually(t, "the upstream is known", 30*time.Second, func() bool { return ann.call("up__work").id() != "" && bob.call("up__work").id() != "" })
			// Noise is new in each attempt; what gives a task away is there in all of them.
			var why string
			for attempt := range 4 {
				if why = compare(t, ann, bob, times(300, 2000), attempt); why == "" {
					break
				}
				t.Logf("attempt %d: %s", attempt, why)
			}
			if why != "" {
				t.Error(why)
			}
			heard, searched := u.heard(), probe != "off"
			if searched != (heard > 0) {
				t.Errorf("the upstream was asked %d times", heard)
			}
			for _, a := range u.got("tasks/get") {
				if a.Task[:3] == "up-" {
					t.Fatalf("the upstream heard of %s, which was minted for another", a.Task)
				}
			}
		})
	}
}

// compare asks for many pairs, each a first time and then again, and says what tells the two apart.
func compare(t *testing.T, ann, bob *client, pairs, attempt int) (why string) {
	t.Helper()
	foreign, never := make([]string, pairs), make([]string, pairs)
	for i := range pairs {
		foreign[i], never[i] = ann.mint(t, "up__work"), fmt.Sprintf("no-task-%d-%d", attempt, i)
	}
	for i := range 20 { // to have been asked at all
		unknown(t, bob.get(fmt.Sprintf("warm-%d-%d", attempt, i)))
	}
	for _, turn := range []string{"first", "again"} {
		var theirs, nobodys []float64
		for i := range pairs {
			ask := func(id string, to *[]float64) {
				r := bob.get(id)
				unknown(t, r)
				*to = append(*to, float64(r.Took))
			}
			if rand.N(2) == 0 {
				ask(foreign[i], &theirs)
				ask(never[i], &nobodys)
			} else {
				ask(never[i], &nobodys)
				ask(foreign[i], &theirs)
			}
		}
		a, b := median(theirs), median(nobodys)
		z := rankSum(theirs, nobodys)
		t.Logf("asked %s: %d pairs, medians %s (foreign) and %s (unknown), z = %.2f", turn, pairs, time.Duration(a), time.Duration(b), z)
		if math.Abs(a-b) > 0.05*max(a, b) {
			why += fmt.Sprintf("asked %s, a foreign task takes %s and an unknown one %s; ", turn, time.Duration(a), time.Duration(b))
		}
		if math.Abs(z) > 3.29 { // two-sided, at 0.1 %
			why += fmt.Sprintf("asked %s, the times of foreign and unknown tasks differ: z = %.2f; ", turn, z)
		}
	}
	return why
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}

// rankSum is the statistic of Mann and Whitney's test, as a standard normal.
func rankSum(a, b []float64) float64 {
	type sample struct {
		value float64
		first bool
	}
	var all []sample
	for _, v := range a {
		all = append(all, sample{v, true})
	}
	for _, v := range b {
		all = append(all, sample{v, false})
	}
	slices.SortFunc(all, func(x, y sample) int {
		switch {
		case x.value < y.value:
			return -1
		case x.value > y.value:
			return 1
		}
		return 0
	})
	var ranks float64
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].value == all[i].value {
			j++
		}
		for k := i; k < j; k++ {
			if all[k].first {
				ranks += float64(i+j+1) / 2
			}
		}
		i = j
	}
	n, m := float64(len(a)), float64(len(b))
	u := ranks - n*(n+1)/2
	return (u - n*m/2) / math.Sqrt(n*m*(n+m+1)/12)
}

func TestTheTestOfTimesTellsTwoDistributionsApart(t *testing.T) {
	t.Parallel()
	draw := func(shift float64) (out []float64) {
		for range 300 {
			out = append(out, 3+rand.NormFloat64()/2+shift)
		}
		return out
	}
	if z := rankSum(draw(0), draw(0.5)); math.Abs(z) < 3.29 {
		t.Errorf("a difference of a standard deviation goes unseen: %.2f", z)
	}
	if z := rankSum(draw(0), draw(0)); math.Abs(z) > 5 {
		t.Errorf("there is no difference, and one is seen: %.2f", z)
	}
}

// Who may reach other upstreams waits for others, also for what is somebody else's.
func TestSomebodyElsesTaskTakesTheTimeOfOnesOwnSearches_17(t *testing.T) {
	t.Parallel()
	fast, slow := newUpstream(t, "fast"), newUpstream(t, "slow")
	d := over(fast, slow)
	d.tasks = "probe: on, probe_rate: 1000/s"
	d.more = "policy:\n  - {id: a, who: {subject: [ann]}, allow: {tools: [\"*\"]}}\n  - {id: b, who: {subject: [bob]}, upstream: fast, allow: {tools: [\"*\"]}}\n"
	g := serve(t, d)
	ann, bob, eve := g.as("ann"), g.as("bob"), g.as("eve")
	const long = 3 * time.Second
	var foreign []string
	for range 6 {
		foreign = append(foreign, ann.mint(t, "slow__work"))
	}
	ann.mint(t, "fast__work")
	slow.slows(long)
	for i := range 3 {
		unknown(t, ann.get(fmt.Sprint("anns-", i)))
		for _, c := range []*client{bob, eve} {
			for _, id := range []string{fmt.Sprint("never-", i), foreign[2*i]} {
				r := c.get(id)
				if unknown(t, r); r.Took > long/2 {
					t.Errorf("%s takes %s for a caller that cannot reach what is slow", id, r.Took)
				}
			}
		}
	}
}
