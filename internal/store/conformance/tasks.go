package conformance

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Tasks holds an engine to the contract of store.Tasks. open returns an empty
// repository with those bounds; what it opens ends with t.
func Tasks(t *testing.T, open func(t *testing.T, b Bounds) store.Tasks) {
	for name, test := range map[string]func(*testing.T, *tasks){
		"a minted record reads back equal and unshared":             taskReadsBack,
		"names may be any bytes":                                    taskOddNames,
		"an unknown id is told from a foreign one to the caller":    taskKnown,
		"a mint without times gets those of the clock":              taskTimes,
		"a second mint of one upstream refreshes":                   taskRefreshes,
		"a mint does not take another upstream's task":              taskCollides,
		"a mint takes the place of what was located":                taskOverLocated,
		"others' located records give way to a mint":                taskDisplaces,
		"replace takes only the generation it was read at":          taskReplaces,
		"locate stores only where nobody has a record":              taskLocates,
		"touch moves uses forward and expiries anywhere":            taskTouches,
		"mark sets the mark at its generation":                      taskMarks,
		"delete removes exactly one":                                taskDeletes,
		"the bounds refuse one more and nothing else":               taskBounds,
		"a bound can be filled to the last":                         taskFills,
		"what gives way makes room":                                 taskRoom,
		"a principal's tasks come in pages, newest first":           taskPages,
		"all tasks come in pages, also those with one id and time":  taskPagesOfAll,
		"expire removes what expired or was not used":               taskExpires,
		"expire keeps to its limit":                                 taskExpiresInBatches,
		"of two upstreams that mint one id at once one wins":        taskMintRaces,
		"one id at once by many principals is everybody's own":      taskPrincipalsRace,
		"one of many replaces of a generation wins":                 taskReplaceRaces,
		"one of many who locate an id gets it":                      taskLocateRaces,
		"no located record survives a mint beside it":               taskLocateAndMintRace,
		"mints beside each other keep both bounds":                  taskBoundsRace,
		"counts are exact after mints, deletes and expiry at once":  taskCountsRace,
		"what one changes another reads at once in the same handle": taskSeesOwnWrites,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, &tasks{open: open, clock: newClock()})
		})
	}
}

type tasks struct {
	open  func(*testing.T, Bounds) store.Tasks
	clock *clock
}

func (s *tasks) with(t *testing.T, max, maxFor int) store.Tasks {
	t.Helper()
	return s.open(t, Bounds{Max: max, MaxFor: maxFor, Now: s.clock.now})
}

var noon = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// task is a minted record as its caller makes it.
func task(id string, principal byte) *store.Task {
	return &store.Task{
		Hash: sha256.Sum256([]byte(id)), Principal: [32]byte{principal, 31: 1}, Server: "default", Upstream: "jobs", Tool: "start_job", Exposed: "jobs__start_job",
		Replica: [32]byte{7}, Instance: "one", Session: "digest", Sealed: []byte("sealed " + id), Created: noon, Expires: noon.Add(time.Hour), Used: noon,
	}
}

func mint(t *testing.T, r store.Tasks, is *store.Task) *store.Task {
	t.Helper()
	stored, err := r.Mint(t.Context(), is)
	if err != nil {
		t.Fatalf("mint: %v", err)
	}
	return stored
}

func locate(t *testing.T, r store.Tasks, is *store.Task) *store.Task {
	t.Helper()
	stored, err := r.Locate(t.Context(), is)
	if err != nil {
		t.Fatalf("locate: %v", err)
	}
	return stored
}

// owned is what Get returns of the record of is, with what is sealed from the
// list.
func owned(t *testing.T, r store.Tasks, is *store.Task) *store.Task {
	t.Helper()
	got, known, err := r.Get(t.Context(), is.Hash, is.Principal)
	if err != nil || !known {
		t.Fatalf("get: known %v, error %v", known, err)
	}
	if got.Sealed != nil {
		t.Error("get returned what is sealed")
	}
	for _, listed := range everything(t, r) {
		if listed.Hash == is.Hash && listed.Principal == is.Principal {
			whole := *got
			whole.Sealed = listed.Sealed
			if d := cmp.Diff(listed, &whole); d != "" {
				t.Errorf("the list and get differ: %s", d)
			}
			return &whole
		}
	}
	t.Fatal("the record is in no list")
	return nil
}

func unowned(t *testing.T, r store.Tasks, is *store.Task, wantKnown bool) {
	t.Helper()
	got, known, err := r.Get(t.Context(), is.Hash, is.Principal)
	if !errors.Is(err, store.ErrNotFound) || known != wantKnown {
		t.Errorf("get: %+v, known %v, error %v; want ErrNotFound and known %v", got, known, err, wantKnown)
	}
}

// everything lists all records, in pages.
func everything(t *testing.T, r store.Tasks) (all []*store.Task) {
	t.Helper()
	for after := (store.TaskPosition{}); ; {
		page, err := r.All(t.Context(), "", after, 50)
		if err != nil {
			t.Fatalf("all: %v", err)
		}
		all = append(all, page...)
		if len(page) < 50 {
			return all
		}
		after = page[len(page)-1].Position()
	}
}

// counted checks the counts against the records.
func counted(t *testing.T, r store.Tasks, want int) {
	t.Helper()
	each := map[[32]byte]int{{99}: 0}
	all := everything(t, r)
	for _, is := range all {
		each[is.Principal]++
	}
	if len(all) != want {
		t.Errorf("%d records; want %d", len(all), want)
	}
	for principal, n := range each {
		if own, total, err := r.Count(t.Context(), principal); err != nil || own != n || total != len(all) {
			t.Errorf("principal %v: counted %d of %d, error %v; there are %d of %d", principal[0], own, total, err, n, len(all))
		}
	}
}

func same(t *testing.T, what string, want, got *store.Task) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

func conflict(t *testing.T, what string, stands *store.Task, want *store.Task, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("%s: %v; want ErrConflict", what, err)
	}
	same(t, what, want, stands)
}

func taskReadsBack(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	in := task("a", 1)
	in.Generation = 7 // is the store's to say
	want := *task("a", 1)
	want.Generation = 1
	stored := mint(t, r, in)
	in.Upstream, in.Sealed[0] = "changed", 'X'
	same(t, "stored", &want, stored)
	for range 2 { // read and cached
		same(t, "got", &want, owned(t, r, in))
	}
	plain := &store.Task{Hash: [32]byte{1}, Principal: [32]byte{2}, Server: "s", Upstream: "u", Legacy: true, Created: noon.Add(1), Used: noon.Add(2)}
	want = *plain
	want.Generation = 1
	same(t, "stored with nothing set", &want, mint(t, r, plain))
	same(t, "got with nothing set", &want, owned(t, r, plain))
	counted(t, r, 2)
}

func taskOddNames(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	is := task("a", 1)
	is.Tool, is.Exposed = "nul\x00 and \xff\xfe", "jobs__\x00"
	stored := mint(t, r, is)
	if stored.Tool != is.Tool || stored.Exposed != is.Exposed {
		t.Errorf("stored %q, %q", stored.Tool, stored.Exposed)
	}
	same(t, "got", stored, owned(t, r, is))
}

func taskKnown(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	unowned(t, r, task("a", 1), false)
	mint(t, r, task("a", 1))
	unowned(t, r, task("a", 0), true) // before and behind it in the order of keys
	unowned(t, r, task("a", 2), true)
	unowned(t, r, task("b", 1), false)
	mint(t, r, task("a", 2)) // which nobody has cached as missing
	owned(t, r, task("a", 2))
	for i := range byte(2) {
		if err := r.Delete(t.Context(), task("a", 0).Hash, task("a", i+1).Principal); err != nil {
			t.Fatal(err)
		}
	}
	unowned(t, r, task("a", 0), false)
}

func taskTimes(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	is := task("a", 1)
	is.Created, is.Used = time.Time{}, time.Time{}
	if stored := mint(t, r, is); !stored.Created.Equal(s.clock.now()) || !stored.Used.Equal(s.clock.now()) {
		t.Errorf("created %v, used %v", stored.Created, stored.Used)
	}
}

func taskRefreshes(t *testing.T, s *tasks) {
	r := s.with(t, 1, 1) // a refresh is not one more
	first := mint(t, r, task("a", 1))
	if err := r.Mark(t.Context(), first.Hash, first.Principal, 0, store.TaskWithheld); err != nil {
		t.Fatal(err)
	}
	next := task("a", 1)
	next.Server, next.Tool, next.Exposed, next.Legacy, next.Replica = "other", "again", "jobs__again", true, [32]byte{}
	next.Instance, next.Session, next.Sealed, next.Expires = "", "", []byte("anew"), time.Time{}
	next.Created, next.Used = noon.Add(time.Minute), noon.Add(time.Minute)
	next.Mark, next.Located = store.TaskRevoked, true // neither is a mint's
	want := *next
	want.Created, want.Mark, want.Located, want.Generation = first.Created, store.TaskLive, false, 3
	same(t, "refreshed", &want, mint(t, r, next))
	same(t, "got", &want, owned(t, r, next))
	next.Sealed, next.Used = nil, noon // an earlier use
	want.Generation++
	same(t, "refreshed without what is sealed", &want, mint(t, r, next))
	same(t, "got", &want, owned(t, r, next))
	counted(t, r, 1)
}

func taskCollides(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	first := mint(t, r, task("a", 1))
	thief := task("a", 1)
	thief.Upstream = "thief"
	stands, err := r.Mint(t.Context(), thief)
	conflict(t, "mint", stands, first, err)
	same(t, "got", first, owned(t, r, first))
	thief.Principal[0] = 2 // others do not collide
	mint(t, r, thief)
	same(t, "got", first, owned(t, r, first))
	counted(t, r, 2)
}

func taskOverLocated(t *testing.T, s *tasks) {
	for _, upstream := range []string{"jobs", "other"} {
		r := s.with(t, 1, 1)
		located := locate(t, r, task("a", 1))
		if !located.Located || located.Generation != 1 {
			t.Errorf("located %+v", located)
		}
		same(t, "located", located, owned(t, r, located))
		is := task("a", 1)
		is.Upstream, is.Created = upstream, noon.Add(time.Minute)
		want := *is
		want.Used, want.Generation = noon, 2
		if upstream == "jobs" {
			want.Created = noon // a refresh
		}
		same(t, "minted", &want, mint(t, r, is))
		same(t, "got", &want, owned(t, r, is))
		counted(t, r, 1)
	}
}

func taskDisplaces(t *testing.T, s *tasks) {
	for name, store1 := range map[string]func(r store.Tasks) *store.Task{
		"mint": func(r store.Tasks) *store.Task { return mint(t, r, task("a", 1)) },
		"refresh": func(r store.Tasks) *store.Task {
			other := task("a", 1)
			other.Upstream = "before"
			mint(t, r, other)
			return nil
		},
	} {
		r := s.with(t, 10, 10)
		elsewhere := task("a", 3)
		elsewhere.Upstream = "elsewhere"
		elsewhere = locate(t, r, elsewhere)
		gives := locate(t, r, task("a", 2))
		owned(t, r, gives) // cached
		if name == "mint" {
			store1(r)
		} else { // over another's, by replace
			store1(r)
			own, _, err := r.Get(t.Context(), gives.Hash, task("a", 1).Principal)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Replace(t.Context(), task("a", 1), own); err != nil {
				t.Fatal(err)
			}
		}
		unowned(t, r, gives, true)
		same(t, "that of another upstream", elsewhere, owned(t, r, elsewhere))
		counted(t, r, 2)
		minted := mint(t, r, task("a", 2)) // what was minted stays
		mint(t, r, task("a", 1))
		same(t, "minted", minted, owned(t, r, minted))
		counted(t, r, 3)
	}
}

func taskReplaces(t *testing.T, s *tasks) {
	r := s.with(t, 1, 1)
	next := task("a", 1)
	next.Upstream, next.Created, next.Used, next.Mark, next.Located = "next", noon.Add(time.Minute), noon.Add(time.Minute), store.TaskRevoked, true
	stands, err := r.Replace(t.Context(), next, task("a", 1))
	conflict(t, "replace of nothing", stands, nil, err)
	first := mint(t, r, task("a", 1))
	refreshed := mint(t, r, task("a", 1))
	stands, err = r.Replace(t.Context(), next, first)
	conflict(t, "replace of an old generation", stands, refreshed, err)
	stored, err := r.Replace(t.Context(), next, refreshed)
	if err != nil {
		t.Fatal(err)
	}
	want := *next
	want.Mark, want.Located, want.Generation = store.TaskLive, false, refreshed.Generation+1
	same(t, "replaced", &want, stored)
	same(t, "got", &want, owned(t, r, next))
	counted(t, r, 1)
	// It went and came again, and has the same generation.
	if err := r.Delete(t.Context(), next.Hash, next.Principal); err != nil {
		t.Fatal(err)
	}
	next.Created = noon.Add(time.Hour)
	again := mint(t, r, next)
	stands, err = r.Replace(t.Context(), task("a", 1), first)
	conflict(t, "replace of one that came again", stands, again, err)
}

func taskLocates(t *testing.T, s *tasks) {
	r := s.with(t, 3, 2)
	first := locate(t, r, task("a", 1))
	want := *task("a", 1)
	want.Located, want.Generation = true, 1
	same(t, "located", &want, first)
	stands, err := r.Locate(t.Context(), task("a", 1))
	conflict(t, "again", stands, first, err)
	stands, err = r.Locate(t.Context(), task("a", 2))
	conflict(t, "another's of the same upstream", stands, nil, err)
	elsewhere := task("a", 1)
	elsewhere.Upstream = "elsewhere"
	stands, err = r.Locate(t.Context(), elsewhere)
	conflict(t, "one's own of another upstream", stands, first, err)
	elsewhere.Principal[0] = 2
	locate(t, r, elsewhere)
	mint(t, r, task("b", 1))
	stands, err = r.Locate(t.Context(), task("b", 2))
	conflict(t, "what another minted", stands, nil, err)
	if stands, err = r.Locate(t.Context(), task("c", 2)); !errors.Is(err, store.ErrFull) {
		t.Errorf("at the whole bound: %+v, %v", stands, err)
	}
	counted(t, r, 3)
	r = s.with(t, 3, 1)
	locate(t, r, task("a", 1))
	if stands, err = r.Locate(t.Context(), task("b", 1)); !errors.Is(err, store.ErrFullFor) {
		t.Errorf("at the principal's bound: %+v, %v", stands, err)
	}
	counted(t, r, 1)
}

func taskTouches(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	a, b := mint(t, r, task("a", 1)), mint(t, r, task("b", 1))
	owned(t, r, a)
	touch := func(all ...store.TaskTouch) {
		t.Helper()
		if err := r.Touch(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
	}
	of := func(is *store.Task) store.TaskTouch { return store.TaskTouch{Hash: is.Hash, Principal: is.Principal} }
	touch()
	used, shorter, unlimited, unknown, foreign := of(a), of(a), of(b), of(task("c", 1)), of(task("a", 2))
	used.Used, unknown.Used, foreign.Used = noon.Add(time.Minute), noon, noon
	shorter.Expires = noon.Add(time.Second)
	unlimited.Unlimited, unlimited.Expires, unlimited.Used = true, noon, noon.Add(-time.Minute)
	touch(unknown, unlimited, foreign, used, shorter)
	wantA, wantB := *a, *b
	wantA.Used, wantA.Expires, wantB.Expires = used.Used, shorter.Expires, time.Time{}
	same(t, "used, and shorter", &wantA, owned(t, r, a))
	same(t, "unlimited", &wantB, owned(t, r, b))
	limited := of(b)
	limited.Expires = noon.Add(2 * time.Hour)
	touch(limited, of(a))
	wantB.Expires = limited.Expires
	same(t, "touched with nothing", &wantA, owned(t, r, a))
	same(t, "limited again", &wantB, owned(t, r, b))
	counted(t, r, 2)
}

func taskMarks(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	is := mint(t, r, task("a", 1))
	other := mint(t, r, task("a", 2))
	owned(t, r, is)
	mark := func(generation uint64, m store.TaskMark) error {
		return r.Mark(t.Context(), is.Hash, is.Principal, generation, m)
	}
	if err := mark(is.Generation, store.TaskWithheld); err != nil {
		t.Fatal(err)
	}
	want := *is
	want.Mark, want.Generation = store.TaskWithheld, 2
	same(t, "marked", &want, owned(t, r, is))
	if err := mark(is.Generation, store.TaskLive); !errors.Is(err, store.ErrConflict) {
		t.Errorf("at an old generation: %v", err)
	}
	for _, m := range []store.TaskMark{store.TaskRevoked, store.TaskCancelled, store.TaskLive} {
		if err := mark(0, m); err != nil {
			t.Errorf("at any: %v", err)
		}
		want.Mark = m
		want.Generation++
		same(t, "marked", &want, owned(t, r, is))
	}
	same(t, "another's", other, owned(t, r, other))
	if err := r.Mark(t.Context(), is.Hash, [32]byte{9}, 0, store.TaskLive); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
}
