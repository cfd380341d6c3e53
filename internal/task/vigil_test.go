package task

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// asker is an upstream that asks.
type asker struct {
	mu    sync.Mutex // guards heard
	heard []string
	err   error
}

func (a *asker) question(id string) *Question {
	return &Question{
		ID: id, Method: "elicitation/create", Params: []byte(`{"message":"?"}`), Patience: time.Minute,
		Fits: func(r []byte) bool { return strings.Contains(string(r), "action") },
		Respond: func(_ context.Context, r []byte) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.heard = append(a.heard, id+string(r))
			return a.err
		},
		Nobody: func(context.Context) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.heard = append(a.heard, id+" nobody")
		},
	}
}

func (a *asker) all() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.heard, ",")
}

// vigils are some whose questions are open for a minute.
func vigils(t *testing.T, test func(t *testing.T, s *Vigils, v *Vigil)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := NewVigils(VigilOptions{Stir: func(FollowKey, string) bool { return true }})
		defer s.Close()
		test(t, s, s.Of(VigilKey{Server: "default"}))
	})
}

func keyed(requests []byte) string {
	_, rest, _ := strings.Cut(string(requests), `"`)
	key, _, _ := strings.Cut(rest, `"`)
	return key
}

func only(key string, answer string) func(string) []byte {
	return func(k string) []byte {
		if k == key {
			return []byte(answer)
		}
		return nil
	}
}

const yes = `{"action":"accept"}`

func TestAQuestionIsAnsweredOnceUnderAKeyThatNoOtherHas(t *testing.T) {
	vigils(t, func(t *testing.T, _ *Vigils, v *Vigil) {
		up, seen := &asker{}, map[string]bool{}
		for i := range 3 {
			for range 2 {
				if !v.Ask(up.question("1")) {
					t.Fatal("it was not asked")
				}
			}
			key := keyed(v.Requests(true))
			if seen[key] || key == "" {
				t.Errorf("round %d has key %q again", i, key)
			}
			seen[key] = true
			if err := v.Answer(t.Context(), only(key, `{}`)); !errors.Is(err, ErrMisshapen) {
				t.Errorf("what does not fit: %v", err)
			}
			for range 2 {
				if err := v.Answer(t.Context(), only(key, yes)); err != nil {
					t.Error(err)
				}
			}
			if r := v.Requests(true); r != nil {
				t.Errorf("still open: %s", r)
			}
		}
		if got := up.all(); strings.Count(got, "accept") != 3 {
			t.Errorf("heard %s", got)
		}
	})
}

func TestAnAnswerThatWasNotHeardCanBeGivenAgain(t *testing.T) {
	vigils(t, func(t *testing.T, _ *Vigils, v *Vigil) {
		for err, again := range map[error]bool{ErrUnheard: true, ErrWithdrawn: false, errors.New("lost"): false} {
			up := &asker{err: err}
			v.Ask(up.question("1"))
			key := keyed(v.Requests(true))
			if got := v.Answer(t.Context(), only(key, yes)); errors.Is(err, ErrWithdrawn) != (got == nil) {
				t.Errorf("%v: %v", err, got)
			}
			if open := v.Requests(true) != nil; open != again {
				t.Errorf("%v: open: %v", err, open)
			}
			v.Quit()
		}
	})
}

func TestAQuestionIsOpenForItsTime(t *testing.T) {
	vigils(t, func(t *testing.T, _ *Vigils, v *Vigil) {
		up := &asker{}
		v.Ask(up.question("1"))
		time.Sleep(59 * time.Second)
		if v.Requests(true) == nil || up.all() != "" {
			t.Error("it is not open any more")
		}
		time.Sleep(2 * time.Second)
		if v.Requests(true) != nil || up.all() != "1 nobody" {
			t.Errorf("heard %q", up.all())
		}
	})
}

func TestAQuestionOutlivesItsStream(t *testing.T) {
	vigils(t, func(t *testing.T, _ *Vigils, v *Vigil) {
		up := &asker{}
		asks := func(id string) Await {
			return func(context.Context) ([]byte, error) {
				v.Ask(up.question(id))
				time.Sleep(time.Second)
				return nil, errors.New("broken")
			}
		}
		v.Watch(nil, asks("1"))
		v.Asked(t.Context())
		first := keyed(v.Requests(true))
		time.Sleep(2 * time.Second)
		if got := keyed(v.Requests(true)); got != first {
			t.Errorf("without a stream it is open under %q", got)
		}
		// The next stream asks the same under another id.
		v.Watch(nil, asks("2"))
		synctest.Wait()
		if got := v.Requests(true); keyed(got) != first || strings.Count(string(got), "method") != 1 {
			t.Errorf("asked again: %s", got)
		}
		if err := v.Answer(t.Context(), only(first, yes)); err != nil || up.all() != "2"+yes {
			t.Errorf("heard %q, %v", up.all(), err)
		}
		time.Sleep(2 * time.Second)
		// What went on without an answer is not asked any more.
		v.Ask(up.question("3"))
		if v.Requests(false) == nil || v.Requests(true) == nil || v.Requests(false) != nil {
			t.Error("it is not closed with its task's need")
		}
	})
}

func TestAWaitThatFailsIsBegunAgainLater(t *testing.T) {
	vigils(t, func(t *testing.T, s *Vigils, v *Vigil) {
		tries := 0
		fails := func(context.Context) ([]byte, error) { tries++; return nil, errors.New("broken") }
		for range 100 {
			v.Watch(nil, fails)
			time.Sleep(100 * time.Millisecond)
		}
		if tries < 3 || tries > 6 {
			t.Errorf("%d waits in ten seconds", tries)
		}
		time.Sleep(time.Minute)
		v.Watch(nil, func(context.Context) ([]byte, error) { time.Sleep(time.Second); return []byte("done"), nil })
		if got := v.Outcome(t.Context()); string(got) != "done" || string(v.Came()) != "done" {
			t.Errorf("it came to %q", got)
		}
		v.End([]byte("ended"), time.Now().Add(time.Minute))
		if string(v.Ended()) != "ended" || v.Ask((&asker{}).question("1")) && v.Requests(true) == nil {
			t.Error("its end is not remembered")
		}
		time.Sleep(2 * time.Minute)
		if v.Ended() != nil {
			t.Error("its end is remembered for too long")
		}
		if _, waiting := s.State(); waiting != 0 {
			t.Errorf("%d waits", waiting)
		}
	})
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	vigils(t, func(t *testing.T, s *Vigils, v *Vigil) {
		v.Watch("gone", func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
		large := make([]byte, maxKept/4)
		var all []*Vigil
		for i := range byte(6) {
			w := s.Of(VigilKey{Hash: [32]byte{1, i}})
			w.End(large, time.Now().Add(time.Hour))
			all = append(all, w)
		}
		if all[0].Ended() != nil || all[1].Ended() != nil || all[2].Ended() == nil || all[5].Ended() == nil {
			t.Error("others than the oldest made way")
		}
		for i := range maxVigils {
			s.Of(VigilKey{Hash: [32]byte{2, byte(i), byte(i >> 8)}})
		}
		if kept, waiting := s.State(); kept > maxVigils || waiting != 1 || s.Of(VigilKey{Server: "default"}) != v {
			t.Errorf("%d are kept, %d wait", kept, waiting)
		}
		for i := range byte(maxWaitsOf) + 10 {
			w := s.Of(VigilKey{Hash: [32]byte{3, i}})
			began := w.Watch("stays", func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
			if began != (int(i) < maxWaitsOf-1) {
				t.Errorf("wait %d of one caller: %v", i, began)
			}
		}
		s.EndFor(func(u any) bool { return u == "gone" })
		synctest.Wait()
		if _, waiting := s.State(); waiting != maxWaitsOf-1 {
			t.Errorf("%d wait", waiting)
		}
	})
}
