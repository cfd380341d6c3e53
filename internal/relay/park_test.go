package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// side is an upstream's side of a call under the test's control.
type side struct {
	mu    sync.Mutex // guards heard
	heard []string
	fail  error
}

func (s *side) Respond(_ context.Context, response []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, string(response))
	return s.fail
}

func (s *side) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.heard, "\n")
}

// end is how a call ended.
type end struct {
	once   bool
	closed atomic.Int32
}

func (e *end) Once() bool { return e.once }
func (e *end) Close()     { e.closed.Add(1) }

func anything(*Question) bool { return true }

func nothing(*wire.Answer) error { return nil }

func form(id string) *Question {
	return &Question{Method: elicitation, Params: []byte(`{"message":"?"}`), ID: []byte(id)}
}

// asking begins a call that asks each of ids, one after the other with a pause
// between them, and then runs until it is let go.
func asking(t *testing.T, ps *Parks, s *side, pause time.Duration, f Final, ids ...string) (v *Visit, release chan error) {
	t.Helper()
	release = make(chan error, 1)
	v, err := ps.Begin(&Start{Call: s, Wait: 30 * time.Minute, Can: anything, Parked: 2, Run: func(ctx context.Context, p *Park) (Final, error) {
		for i, id := range ids {
			if i > 0 {
				time.Sleep(pause)
			}
			if r, deferred := p.Ask(form(id)); !deferred {
				_ = s.Respond(ctx, r)
			}
		}
		select {
		case err := <-release:
			return f, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return v, release
}

func next(t *testing.T, v *Visit) Turn {
	t.Helper()
	turn, err := v.Wait(t.Context(), nothing)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func inputs(t *testing.T, raw string) Inputs {
	t.Helper()
	in, err := ParseInputs([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// yes answers every question of a round.
func yes(t *testing.T, o *Offer) Inputs {
	t.Helper()
	var all []string
	for _, q := range o.Asked {
		all = append(all, `"`+q.Key+`":{"action":"accept"}`)
	}
	return inputs(t, "{"+strings.Join(all, ",")+"}")
}

func newParks() *Parks { return NewParks(slog.New(slog.DiscardHandler), nil) }

func state(ps *Parks) string { r, w, k := ps.State(); return fmt.Sprint(r, w, k) }

// Checklist 7.3: siblings that come within a short while are one round; what comes
// later is the next.
func TestSiblingsAreOneRound(t *testing.T) {
	for pause, want := range map[time.Duration]int{10 * time.Millisecond: 3, 40 * time.Millisecond: 1} {
		synctest.Test(t, func(t *testing.T) {
			ps, s := newParks(), &side{}
			v, release := asking(t, ps, s, pause, &end{}, "1", "2", "3")
			began := time.Now()
			turn := next(t, v)
			if turn.Offer == nil || len(turn.Offer.Asked) != want || time.Since(began) != siblings {
				t.Errorf("pause %v: %+v after %v", pause, turn.Offer, time.Since(began))
			}
			release <- nil
			ps.Close(t.Context())
		})
	}
}

// What becomes of the time: a question may stay open for half an hour, an answer
// that was lost is there for a minute, a client may be away for five seconds.
func TestTheTimesOfAPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps, s := newParks(), &side{}
		v, release := asking(t, ps, s, 0, &end{}, "1")
		o := next(t, v).Offer
		time.Sleep(29 * time.Minute)
		v, err := ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything)
		if err != nil {
			t.Fatal(err)
		}
		if s.all() != `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}` {
			t.Errorf("heard %s", s.all())
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, err := v.Wait(ctx, nothing); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		time.Sleep(4 * time.Second)
		if v, err = ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { release <- nil })
		if turn := next(t, v); turn.Final == nil || !turn.Asked {
			t.Errorf("%+v", turn)
		}
		time.Sleep(59 * time.Second)
		if v, err = ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything); err != nil || next(t, v).Final == nil {
			t.Errorf("%v", err)
		}
		if got := state(ps); got != "0 0 1" {
			t.Errorf("state %s", got)
		}
		time.Sleep(2 * time.Second)
		if _, err = ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything); !errors.Is(err, ErrLost) || state(ps) != "0 0 0" {
			t.Errorf("%v, state %s", err, state(ps))
		}
		if _, err = ps.Return(o.ID, [32]byte{}, 1, inputs(t, "{}"), anything); !errors.Is(err, ErrLost) {
			t.Errorf("%v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ps, s := newParks(), &side{}
		v, _ := asking(t, ps, s, 0, &end{}, "1")
		o := next(t, v).Offer
		time.Sleep(30*time.Minute + 500*time.Millisecond)
		if !strings.Contains(s.all(), "cancel") || state(ps) != "1 0 0" {
			t.Errorf("heard %s, state %s", s.all(), state(ps))
		}
		time.Sleep(600 * time.Millisecond) // it had a second
		if state(ps) != "0 0 0" {
			t.Errorf("state %s", state(ps))
		}
		if _, err := ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything); !errors.Is(err, ErrLost) {
			t.Errorf("%v", err)
		}
		// A client that stays away after its answer.
		v, _ = asking(t, ps, s, 0, &end{}, "1")
		o = next(t, v).Offer
		v, err := ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		_, _ = v.Wait(ctx, nothing)
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		if state(ps) != "0 0 0" {
			t.Errorf("state %s", state(ps))
		}
	})
}

func TestAnswersAreFromTheirOwnerOnceAndOfShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps, s := newParks(), &side{}
		v, release := asking(t, ps, s, 0, &end{}, "1")
		o := next(t, v).Offer
		key := o.Asked[0].Key
		for _, c := range []struct {
			id    string
			who   byte
			round int
			in    string
			want  error
		}{
			{o.ID, 1, 1, `{}`, ErrLost},
			{"x", 0, 1, `{}`, ErrLost},
			{o.ID, 0, 0, `{}`, ErrLost},
			{o.ID, 0, 2, `{}`, ErrLost},
			{o.ID, 0, 1, `{"` + key + `":{"content":{}}}`, ErrInputs},
			{o.ID, 0, 1, `{"` + key + `":{"action":{}}}`, ErrInputs},
		} {
			if _, err := ps.Return(c.id, [32]byte{c.who}, c.round, inputs(t, c.in), anything); !errors.Is(err, c.want) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if s.all() != "" {
			t.Errorf("heard %s", s.all())
		}
		a, err := ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ps.Return(o.ID, [32]byte{}, 1, inputs(t, `{ "`+key+`" : {"\u0061ction":"accept"}}`), anything)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ps.Return(o.ID, [32]byte{}, 1, inputs(t, `{"`+key+`":{"action":"accept","content":{}}}`), anything); !errors.Is(err, ErrAnswered) {
			t.Errorf("%v", err)
		}
		release <- nil
		if next(t, a).Final == nil || next(t, b).Final == nil || strings.Count(s.all(), "jsonrpc") != 1 {
			t.Errorf("heard %s", s.all())
		}
		ps.Close(t.Context())
	})
}

// An answer that streams is given once and, when nobody takes it, closed.
func TestAnAnswerThatStreamsIsGivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps, s, f := newParks(), &side{}, &end{once: true}
		v, release := asking(t, ps, s, 0, f, "1")
		o := next(t, v).Offer
		release <- nil
		time.Sleep(20 * time.Minute) // it ended while the user thinks
		v, err := ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything)
		if err != nil {
			t.Fatal(err)
		}
		if next(t, v).Final != f || f.closed.Load() != 0 {
			t.Errorf("closed %d times", f.closed.Load())
		}
		if v, err = ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything); err != nil || !errors.Is(next(t, v).Err, ErrTaken) {
			t.Errorf("%v", err)
		}
		ps.Close(t.Context())
		if f.closed.Load() != 0 {
			t.Error("it was closed under its reader")
		}
		ps, f = newParks(), &end{once: true}
		v, release = asking(t, ps, s, 0, f, "1")
		next(t, v)
		release <- nil
		time.Sleep(31 * time.Minute)
		if f.closed.Load() != 1 || state(ps) != "0 0 0" {
			t.Errorf("closed %d times, state %s", f.closed.Load(), state(ps))
		}
	})
}

// A client that takes less with a retry than it did before is not asked more.
func TestARetryIsAskedWhatItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps, s := newParks(), &side{}
		v, release := asking(t, ps, s, time.Second, &end{}, "1", "2")
		o := next(t, v).Offer
		time.Sleep(2 * time.Second)
		v, err := ps.Return(o.ID, [32]byte{}, 1, yes(t, o), func(*Question) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { release <- nil })
		if turn := next(t, v); turn.Final == nil || !strings.Contains(s.all(), `"id":2,"error":{"code":-32602`) {
			t.Errorf("%+v, heard %s", turn, s.all())
		}
		ps.Close(t.Context())
	})
}

func TestParksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps, s := newParks(), &side{}
		for range 2 {
			v, _ := asking(t, ps, s, 0, &end{}, "1")
			next(t, v)
		}
		v, _ := asking(t, ps, s, 0, &end{}, "3")
		if turn := next(t, v); !errors.Is(turn.Err, ErrQuota) || !strings.Contains(s.all(), `"id":3,"result":{"action":"cancel"}`) {
			t.Errorf("%+v, heard %s", turn, s.all())
		}
		if got := state(ps); got != "3 2 0" && got != "2 2 0" {
			t.Errorf("state %s", got)
		}
		var many []string
		for i := range maxOpen + 5 {
			many = append(many, fmt.Sprint(100+i))
		}
		ps.Close(t.Context())
		if _, err := ps.Begin(&Start{}); !errors.Is(err, ErrClosed) || state(ps) != "0 0 0" {
			t.Errorf("%v, state %s", err, state(ps))
		}
		ps, s = newParks(), &side{}
		v, _ = asking(t, ps, s, 0, &end{}, many...)
		if o := next(t, v).Offer; len(o.Asked) != maxOpen || strings.Count(s.all(), "cancel") != 5 {
			t.Errorf("%d asked, heard %s", len(o.Asked), s.all())
		}
		ps.Close(t.Context())
		// What is kept after its end makes way, oldest first.
		ps = newParks()
		var offers []*Offer
		for range maxKept + 1 {
			v, release := asking(t, ps, s, 0, &end{}, "1")
			o := next(t, v).Offer
			release <- nil
			v, err := ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything)
			if err != nil {
				t.Fatal(err)
			}
			next(t, v)
			offers = append(offers, o)
		}
		_, err := ps.Return(offers[0].ID, [32]byte{}, 1, yes(t, offers[0]), anything)
		if last := state(ps); !errors.Is(err, ErrLost) || last != fmt.Sprint(0, 0, maxKept) {
			t.Errorf("%v, state %s", err, last)
		}
		ps.Close(t.Context())
	})
}

// A response that the upstream does not take ends the call.
func TestAResponseThatIsNotTakenEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps, s := newParks(), &side{}
		v, _ := asking(t, ps, s, 0, &end{}, "1")
		o := next(t, v).Offer
		s.fail = errors.New("refused")
		v, err := ps.Return(o.ID, [32]byte{}, 1, yes(t, o), anything)
		if err != nil {
			t.Fatal(err)
		}
		if turn := next(t, v); !errors.Is(turn.Err, s.fail) {
			t.Errorf("%+v", turn)
		}
		synctest.Wait()
		if got := state(ps); got != "0 0 1" {
			t.Errorf("state %s", got)
		}
		ps.Close(t.Context())
	})
}

// Events reach the request that waits now, in order and before what ends it, and
// push back; a request that fails to take one has left.
func TestEventsGoToTheRequestThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps, s := newParks(), &side{}
		note := func(n int) *wire.Answer { return &wire.Answer{ErrorCode: int64(n)} }
		v, err := ps.Begin(&Start{Call: s, Wait: time.Minute, Can: anything, Run: func(ctx context.Context, p *Park) (Final, error) {
			for i := range 100 {
				if err := p.Event(note(i)); err != nil {
					return nil, err
				}
			}
			p.Ask(form("1"))
			time.Sleep(time.Second)
			_ = p.Event(note(1000)) // nobody is there
			time.Sleep(10 * time.Second)
			for i := range 100 {
				_ = p.Event(note(100 + i))
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}})
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		note1 := func(a *wire.Answer) error { got = append(got, a.ErrorCode); return nil }
		turn, err := v.Wait(t.Context(), note1)
		if err != nil || len(got) != 100 {
			t.Fatalf("%v after %d events", err, len(got))
		}
		time.Sleep(2 * time.Second)
		if v, err = ps.Return(turn.Offer.ID, [32]byte{}, 1, yes(t, turn.Offer), anything); err != nil {
			t.Fatal(err)
		}
		gone := errors.New("gone")
		if _, err = v.Wait(t.Context(), func(a *wire.Answer) error {
			if a.ErrorCode == 150 {
				return gone
			}
			return note1(a)
		}); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
		for i, n := range got {
			if int64(i) != n {
				t.Fatalf("event %d came as number %d", n, i)
			}
		}
		if len(got) != 150 {
			t.Errorf("%d events", len(got))
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := state(ps); got != "0 0 0" {
			t.Errorf("state %s", got)
		}
	})
}

// A panic in a call is that call's alone.
func TestAPanicEndsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newParks()
		v, err := ps.Begin(&Start{Call: &side{}, Can: anything, Run: func(context.Context, *Park) (Final, error) { panic("x") }})
		if err != nil {
			t.Fatal(err)
		}
		if turn := next(t, v); turn.Err == nil || turn.Asked {
			t.Errorf("%+v", turn)
		}
		ps.Close(t.Context())
	})
}
