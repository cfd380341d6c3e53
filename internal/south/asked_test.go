package south

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/wire"
)

const askRoots = "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"roots/list\"}\n\n"

// askingStub is a legacy upstream whose tool asks under each of ids and answers once
// it has heard as many responses as it waits for.
func askingStub(t *testing.T, wait int, heard chan string, ids ...string) *stub {
	s := &stub{legacy: true}
	come := make(chan struct{}, 16)
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		switch {
		case a.method == "" && a.id != "":
			heard <- a.body
			come <- struct{}{}
			return false
		case a.method != "tools/call":
			return false
		}
		write := stream(w)
		for _, id := range ids {
			write(fmt.Sprintf(askRoots, id))
		}
		for range wait {
			select {
			case <-come:
			case <-r.Context().Done():
				return true
			}
		}
		write("data: " + strings.ReplaceAll(okResult, "$ID", a.id) + "\n\n")
		return true
	}
	return s.start(t)
}

// A response that comes later neither stops the reader nor the clock from being
// stopped: siblings are read on, and the call's time stands still until the last
// of them has its response.
func TestAResponseMayComeLater(t *testing.T) {
	leakless(t)
	heard := make(chan string, 8)
	s := askingStub(t, 2, heard, "7", `"b"`)
	u := reach(t, s.url, func(o *Options) { o.Timeout, o.TimeoutMax = 300*time.Millisecond, 300*time.Millisecond })
	l := link(t, u, SessionKey{Caps: `{"roots":{}}`})
	r := toolsCall(l)
	asked := make(chan string, 8)
	r.OnRequest = func(_ context.Context, q *wire.Answer) ([]byte, error) {
		asked <- string(q.ID.Of(q.Raw))
		return nil, ErrDeferred
	}
	over := make(chan error, 1)
	go func() {
		_, err := send(t, l, r)
		over <- err
	}()
	ids := []string{<-asked, <-asked}
	time.Sleep(700 * time.Millisecond) // more than the call has
	if err := r.Respond(t.Context(), []byte(`{"jsonrpc":"2.0","id":`+ids[0]+`,"result":{}}`)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(400 * time.Millisecond) // one is still open
	if err := r.Respond(t.Context(), []byte(`{"jsonrpc":"2.0","id":`+ids[1]+`,"result":{}}`)); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if ids[0] != "7" || ids[1] != `"b"` {
		t.Errorf("asked %v", ids)
	}
	// Once nothing is open the clock runs again.
	s = askingStub(t, 2, heard, "7")
	u = reach(t, s.url, func(o *Options) { o.Timeout, o.TimeoutMax = 300*time.Millisecond, 300*time.Millisecond })
	l = link(t, u, SessionKey{Caps: `{"roots":{}}`})
	r = toolsCall(l)
	r.OnRequest = func(_ context.Context, q *wire.Answer) ([]byte, error) {
		asked <- string(q.ID.Of(q.Raw))
		return nil, ErrDeferred
	}
	go func() {
		_, err := send(t, l, r)
		over <- err
	}()
	<-asked
	if err := r.Respond(t.Context(), []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-over, fault.UpstreamTimeout)
}

func TestAnUpstreamThatAsksTwiceWithOneIDIsHeardOnce(t *testing.T) {
	heard := make(chan string, 8)
	s := askingStub(t, 2, heard, "7", "7", `"7"`, `"\u0037"`)
	l := link(t, reach(t, s.url), SessionKey{Caps: `{"roots":{}}`})
	r := toolsCall(l)
	var asked []string
	r.OnRequest = func(_ context.Context, q *wire.Answer) ([]byte, error) {
		id := string(q.ID.Of(q.Raw))
		asked = append(asked, id)
		return []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`), nil
	}
	if _, err := send(t, l, r); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 2 || asked[0] != "7" || asked[1] != `"7"` || len(heard) != 2 {
		t.Errorf("asked %v, and %d responses", asked, len(heard))
	}
}

func TestAFloodOfQuestionsIsRefused(t *testing.T) {
	const more = 20
	var ids []string
	for i := range maxAsked + more {
		ids = append(ids, itoa(i))
	}
	heard := make(chan string, len(ids))
	s := askingStub(t, maxAsked+more, heard, ids...)
	l := link(t, reach(t, s.url), SessionKey{Caps: `{"roots":{}}`})
	r := toolsCall(l)
	asked := 0
	r.OnRequest = func(_ context.Context, q *wire.Answer) ([]byte, error) {
		asked++
		return []byte(`{"jsonrpc":"2.0","id":` + string(q.ID.Of(q.Raw)) + `,"result":{}}`), nil
	}
	if _, err := send(t, l, r); err != nil {
		t.Fatal(err)
	}
	if asked != maxAsked {
		t.Errorf("%d of %d questions were asked", asked, len(ids))
	}
}

func TestAResponseToASessionThatIsGoneIsNotTaken(t *testing.T) {
	heard := make(chan string, 8)
	s := askingStub(t, 1, heard, "7")
	l := link(t, reach(t, s.url), SessionKey{Caps: `{"roots":{}}`})
	r := toolsCall(l)
	asked := make(chan struct{}, 1)
	r.OnRequest = func(context.Context, *wire.Answer) ([]byte, error) {
		asked <- struct{}{}
		return nil, ErrDeferred
	}
	over := make(chan error, 1)
	go func() {
		_, err := send(t, l, r)
		over <- err
	}()
	<-asked
	s.amnesia()
	if err := r.Respond(t.Context(), []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`)); !errors.Is(err, ErrNotTaken) {
		t.Errorf("%v", err)
	}
	<-over
}

// An answer ends the time of what is open: the rest of it is under the clock
// again, but for while nobody takes it.
func TestAnAnswerThatNobodyTakesHasTime(t *testing.T) {
	s := answering(t, true, func(w http.ResponseWriter, r *http.Request, a arrived) {
		write := stream(w)
		write(fmt.Sprintf(askRoots, "7"))
		write("data: {\"jsonrpc\":\"2.0\",\"id\":" + a.id + ",\"result\":{\"x\":\"" + strings.Repeat("x", 2*window))
		if strings.Contains(a.body, "slow") {
			<-r.Context().Done()
			return
		}
		write(strings.Repeat("x", 4<<20) + "\"}}\n\n")
	})
	u := reach(t, s.url, func(o *Options) { o.Timeout, o.TimeoutMax = 300*time.Millisecond, 300*time.Millisecond })
	l := link(t, u, SessionKey{Caps: `{"roots":{}}`})
	later := func(context.Context, *wire.Answer) ([]byte, error) { return nil, ErrDeferred }
	for _, slow := range []bool{false, true} {
		r := toolsCall(l)
		r.OnRequest = later
		if slow {
			r.Body = []byte(strings.Replace(string(r.Body), `"a"`, `"slow"`, 1))
		}
		a, err := l.Send(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if !slow {
			a.Hold()
			time.Sleep(600 * time.Millisecond) // more than the call has
			if err := r.Respond(t.Context(), []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`)); err != nil {
				t.Error(err)
			}
			time.Sleep(400 * time.Millisecond)
			a.Run()
		}
		_, err = io.Copy(io.Discard, a.Rest)
		if (err != nil) != slow {
			t.Errorf("slow %v: %v", slow, err)
		}
		if slow {
			wantCode(t, a.Fault(err), fault.UpstreamTimeout)
		}
		a.Close()
	}
}
