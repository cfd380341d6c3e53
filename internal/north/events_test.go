package north

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheStandingStreamIsReadAgain(t *testing.T) {
	say := make(chan string)
	g := &rooms{stand: func(ctx context.Context, x *Exchange) error {
		for {
			select {
			case text := <-say:
				if _, err := x.Event([]byte(text)); err != nil {
					return err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}}
	f := open(t, g, resuming)
	session := f.initialize("2025-11-25")
	p := f.get(session).opened()
	primed := p.next()
	if primed.id == "" || primed.data != "" || primed.retry != "1000" {
		t.Fatalf("%+v", primed)
	}
	for n := range 3 {
		say <- fmt.Sprintf(`{"n":%d}`, n)
	}
	p.next()
	one := p.next()
	again := f.back(session, one.id).opened() // closes the first
	if e := again.next(); e.data != `{"n":2}` {
		t.Errorf("%+v", e)
	}
	p.ended()
	say <- `{"live":1}`
	live := again.next()
	if live.data != `{"live":1}` {
		t.Errorf("%+v", live)
	}
	// Without an id nothing is repeated; with one that nobody knows, neither.
	for _, last := range []string{"", "gUNKNOWN-7"} {
		more := []string{}
		if last != "" {
			more = append(more, "Last-Event-ID", last)
		}
		q := f.get(session, more...).opened()
		if e := q.next(); e.data != "" || e.id != live.id {
			t.Errorf("%q: %+v", last, e)
		}
		say <- `{"x":1}`
		if live = q.next(); live.data != `{"x":1}` {
			t.Errorf("%q: %+v", last, live)
		}
	}
	other := f.initialize("2025-11-25")
	q := f.back(other, primed.id).opened()
	if e := q.next(); e.data != "" || e.id == primed.id {
		t.Errorf("of another session: %+v", e)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) { // limits.resume_events
	var tk talk
	tk.begin()
	a, b := tk.newStream("s", ofCall, 3), tk.newStream("s", ofCall, 3)
	tk.add(a, []byte("1"), false)
	tk.add(b, []byte("1"), false)
	tk.add(a, []byte("2"), false)
	tk.add(b, []byte("2"), true)
	if p := tk.after(a, 0, 0); len(p.events) != 1 || p.first != 2 || p.over {
		t.Errorf("the oldest is still there: %+v", p)
	}
	if p := tk.after(b, 0, 0); len(p.events) != 2 || !p.over {
		t.Errorf("%+v", p)
	}
	for range 3 {
		tk.add(a, []byte("3"), false)
	}
	if tk.find("s", b.name, 0) != nil || tk.find("s", a.name, 0) == nil {
		t.Error("a stream whose answer is gone can be read, or one that is kept cannot")
	}
	big := make([]byte, maxKeptBytes/2)
	tk.add(a, big, false)
	tk.add(a, big, false)
	if l := tk.logs["s"]; len(l.order) != 1 || l.bytes > maxKeptBytes {
		t.Errorf("%d events of %d bytes", len(l.order), l.bytes)
	}
	last := tk.add(a, make([]byte, maxKeptBytes), false)
	if l := tk.logs["s"]; l.bytes != 0 || tk.find("s", a.name, last-1) != nil || tk.find("s", a.name, last) == nil {
		t.Errorf("%d bytes are kept behind one that is too large", l.bytes)
	}
}

func TestWhatIsKeptIsThrownAwayInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewOngoing()
		tk := g.talkOf("s")
		a, open := tk.newStream("s", ofCall, 10), tk.newStream("s", ofCall, 10)
		tk.add(a, []byte("1"), true)
		tk.add(open, []byte("1"), false)
		time.Sleep(keptFor)
		g.sweep(time.Now())
		if tk.find("s", a.name, 0) == nil {
			t.Error("thrown away too early")
		}
		time.Sleep(time.Second)
		g.sweep(time.Now())
		if tk.find("s", a.name, 0) != nil || tk.find("s", open.name, 0) == nil || tk.logs["s"].bytes != 1+eventWeight || len(tk.logs["s"].order) != 1 {
			t.Errorf("%+v", tk.logs["s"])
		}
		tk.finish(open)
		time.Sleep(keptFor + time.Second)
		g.sweep(time.Now())
		if len(tk.logs) != 0 {
			t.Error("an empty log is kept")
		}
		tk.add(open, []byte("2"), false) // by whoever has not noticed
	})
}
