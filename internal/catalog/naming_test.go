package catalog

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

var update = flag.Bool("update", false, "write the golden files")

// federation is 24 tools of three upstreams, with names of every awkward shape.
func federation() *fleet {
	f := newFleet()
	f.up("github", tools("create_pr", "merge-pr", "list.issues", "search", "a", "x__y", "UPPER", "very_long_"+strings.Repeat("n", 60)))
	f.up("git", tools("hub__create_pr", "hub-create_pr", "search", "status", "log", "x:y", "weiß", "a"))
	f.up("jobs", tools("start_job", "stop job", "search", "a", "status", "logs/tail", "b-c", "__x"))
	return f
}

func TestGoldenFederationUnderEachRule(t *testing.T) {
	for _, rule := range []Naming{Namespaced, Prefixed} {
		t.Run(rule.String(), func(t *testing.T) {
			s := serve(t, federation(), func(o *Options) {
				o.Naming = rule
				o.Aliases = map[string]Alias{"deploy": {"jobs", "start_job"}}
			})
			golden(t, s, rule.String())
		})
	}
	t.Run("passthrough", func(t *testing.T) {
		f := newFleet()
		var names []string
		for key, lists := range federation().ups {
			var page struct {
				Tools []struct{ Name string }
			}
			if err := json.Unmarshal([]byte(lists.pages[mcp.Tools][0]), &page); err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Tools {
				names = append(names, key+"/"+it.Name)
			}
		}
		f.up("only", tools(names...))
		golden(t, serve(t, f, func(o *Options) { o.Naming = Passthrough }), "passthrough")
	})
}

func golden(t *testing.T, s *Server, name string) {
	t.Helper()
	var b strings.Builder
	listed := all(t, s, alice, mcp.Tools)
	if len(listed) != 24 {
		t.Errorf("%d tools are listed, want 24", len(listed))
	}
	for _, id := range listed {
		target, err := s.Resolve(t.Context(), alice, mcp.Tools, id)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", id, target.Upstream, target.ID, target.Rule)
	}
	path := filepath.Join("testdata", "federation-"+name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("public names changed (-was +now):\n%s", diff)
	}
}

var (
	drawKey  = rapid.StringMatching(`[ab][ab_.-]{0,4}`)
	drawName = rapid.OneOf(
		rapid.StringMatching(`[ab_-]{1,6}`),
		rapid.StringMatching(`[a-zA-Z0-9_.:/ -]{1,80}`),
		rapid.StringN(1, 40, 120),
	)
)

type drawnFederation struct {
	members []Member
	tools   [][]string
	rule    Naming
	aliases map[string]Alias
}

func drawFederation(t *rapid.T) drawnFederation {
	var d drawnFederation
	d.rule = rapid.SampledFrom([]Naming{Namespaced, Prefixed, Passthrough}).Draw(t, "rule")
	most := 4
	if d.rule == Passthrough {
		most = 1
	}
	keys := rapid.SliceOfNDistinct(drawKey, 1, most, rapid.ID[string]).Draw(t, "keys")
	slices.Sort(keys)
	d.aliases = map[string]Alias{}
	for _, key := range keys {
		d.members = append(d.members, Member{Key: key})
		names := rapid.SliceOfN(drawName, 0, 8).Draw(t, "tools of "+key)
		d.tools = append(d.tools, names)
		for _, n := range names {
			if n != "" && rapid.IntRange(0, 5).Draw(t, "alias") == 0 {
				d.aliases[rapid.OneOf(drawName, rapid.StringMatching(`[ab][-_]{1,2}[ab_-]{1,3}`)).Filter(func(s string) bool { return s != "" }).Draw(t, "alias of "+n)] = Alias{key, n}
			}
		}
	}
	return d
}

// table builds a name table without a network; order is the order in which
// upstreams and their items are given.
func (d *drawnFederation) table(t *rapid.T, shuffle bool) (*Server, *table) {
	members := slices.Clone(d.members)
	if shuffle {
		members = rapid.Permutation(members).Draw(t, "members")
	}
	s, err := New(Options{Name: "s", Members: members, Naming: d.rule, Aliases: d.aliases}, newFleet())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lists := make([]*itemSet, len(d.members))
	for i, names := range d.tools {
		page := []byte{'['}
		for j, n := range names {
			if j > 0 {
				page = append(page, ',')
			}
			quotedName, _ := json.Marshal(n)
			page = fmt.Appendf(page, `{"name":%s}`, quotedName)
		}
		lists[i] = s.read(d.members[i].Key, mcp.Tools, [][]byte{append(page, ']')}, reading{headers: true})
		if shuffle {
			lists[i].items = rapid.Permutation(lists[i].items).Draw(t, "items")
		}
	}
	return s, s.build(mcp.Tools, lists, [32]byte{})
}

func TestPropertyEveryListedNameRoutesBackAndNamesAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawFederation(t)
		s, tab := d.table(t, false)
		seen := map[string]bool{}
		for _, n := range tab.all.listed {
			if seen[n.exposed] {
				t.Fatalf("%q is listed twice", n.exposed)
			}
			seen[n.exposed] = true
			r := tab.byName[n.exposed]
			if r == nil || r.member != n.member || r.ID != n.item.id || r.Exposed != n.exposed {
				t.Fatalf("%q of member %d is exposed as %q, which leads to %+v", n.item.id, n.member, n.exposed, r)
			}
			if len(n.aliases) == 0 && !s.names.plain && !fits(n.exposed) {
				t.Fatalf("%q is no portable name", n.exposed)
			}
		}
		want := 0
		for _, names := range d.tools {
			distinct := map[string]bool{}
			for _, n := range names {
				distinct[n] = n != ""
			}
			for _, real := range distinct {
				if real {
					want++
				}
			}
		}
		if len(tab.all.listed) != want {
			t.Fatalf("%d tools are listed, want %d", len(tab.all.listed), want)
		}
		for name, a := range d.aliases {
			if r := tab.byName[name]; r == nil || r.Upstream != a.Upstream || r.ID != a.Tool {
				t.Fatalf("alias %q leads to %+v, want %+v", name, r, a)
			}
		}
	})
}

func TestPropertyNamesDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawFederation(t)
		s1, t1 := d.table(t, false)
		s2, t2 := d.table(t, true)
		a, b := s1.render(&t1.all, mcp.LatestModern), s2.render(&t2.all, mcp.LatestModern)
		if string(a.items) != string(b.items) {
			t.Fatalf("the same lists in another order give\n%s\nand\n%s", a.items, b.items)
		}
		if diff := cmp.Diff(t1.collisions, t2.collisions); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestShortFormsAreStableReadableAndPortable(t *testing.T) {
	s := serve(t, federation(), nil)
	long := strings.Repeat("segment_", 12)
	got, short := s.names.name(0, long)
	if !short || len(got) != maxName || !strings.HasPrefix(got, "git__segment_") || !looksShort(got) {
		t.Errorf("got %q (short %v)", got, short)
	}
	f := newFleet()
	f.up("git", nil)
	f.up("zzz", nil)
	if other, _ := serve(t, f, nil).names.name(0, long); other != got {
		t.Errorf("another federation gives %q, this one %q", other, got)
	}
	// Names that only differ in what is replaced stay apart.
	a, _ := s.names.name(0, "x:y")
	b, _ := s.names.name(0, "x/y")
	if a == b || !fits(a) || !fits(b) {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestAShortFormThatIsTakenGetsAnother(t *testing.T) {
	f := newFleet()
	f.up("a", tools("x"))
	s := serve(t, f, nil)
	taken := s.names.short(0, "x:y", 0)
	f.up("a", tools("x:y", strings.TrimPrefix(taken, "a__")))
	s = serve(t, f, nil)
	goesTo(t, s, mcp.Tools, taken, "a", strings.TrimPrefix(taken, "a__"))
	for _, n := range all(t, s, alice, mcp.Tools) {
		if n != taken {
			goesTo(t, s, mcp.Tools, n, "a", "x:y")
		}
	}
}

func TestConfigurationFaultsAreReportedTogether(t *testing.T) {
	_, err := New(Options{
		Name:    "s",
		Members: []Member{{Key: "a", Namespace: "n"}, {Key: "b", Namespace: "n"}, {Key: "a"}, {Key: ""}},
		Aliases: map[string]Alias{"x": {"ghost", "t"}, "": {"a", "t"}},
	}, newFleet())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"share the namespace", "listed twice", "empty key", "ghost", "neither may be empty"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if _, err := New(Options{Naming: Passthrough, Members: []Member{{Key: "a"}, {Key: "b"}}}, newFleet()); err == nil {
		t.Error("passthrough accepts two upstreams")
	}
}

func FuzzNameTable(f *testing.F) {
	f.Add("a", "a-b", "b-c", "c", "a-b-c")
	f.Add("x", "y", "t:1", strings.Repeat("n", 90), "x__t_1")
	f.Add("k", "k_", "_x", "x", "k___x")
	f.Fuzz(func(t *testing.T, key1, key2, tool1, tool2, alias string) {
		for _, rule := range []Naming{Namespaced, Prefixed} {
			d := drawnFederation{rule: rule, members: []Member{{Key: key1}, {Key: key2}}}
			s, err := New(Options{Members: d.members, Naming: rule, Aliases: map[string]Alias{alias: {key1, tool1}}}, newFleet())
			if err != nil {
				continue
			}
			lists := make([]*itemSet, 2)
			for i, m := range s.o.Members {
				var items []string
				for _, n := range []string{tool1, tool2} {
					q, _ := json.Marshal(n)
					items = append(items, fmt.Sprintf(`{"name":%s}`, q))
				}
				lists[i] = s.read(m.Key, mcp.Tools, [][]byte{[]byte("[" + strings.Join(items, ",") + "]")}, reading{})
			}
			tab := s.build(mcp.Tools, lists, [32]byte{})
			total := 0
			for _, l := range lists {
				total += len(l.items)
			}
			if len(tab.all.listed) != total {
				t.Fatalf("%d of %d tools are listed", len(tab.all.listed), total)
			}
			for i, n := range tab.all.listed {
				if i > 0 && tab.all.listed[i-1].exposed >= n.exposed {
					t.Fatalf("%q is not before %q", tab.all.listed[i-1].exposed, n.exposed)
				}
				if r := tab.byName[n.exposed]; r == nil || r.node != n {
					t.Fatalf("%q leads elsewhere", n.exposed)
				}
			}
			s.Close()
		}
	})
}
