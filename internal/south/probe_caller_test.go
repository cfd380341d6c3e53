package south

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// What an upstream answers to the credential of one caller, or to none, is not told
// to another who came while it was asked.
func TestAProbeWithAnothersCredentialDecidesForNobodyElse(t *testing.T) {
	for what, refuse := range map[string]func(http.ResponseWriter, *http.Request, arrived){
		"HTTP 401":                       discoverSays(401, "text/plain", "who?"),
		"HTTP 401 with a JSON-RPC error": discoverError(401, -32001, ""),
		"HTTP 403":                       discoverSays(403, "text/plain", "no"),
		"HTTP 404 for strangers":         discoverSays(404, "text/plain", "nothing here"),
		"HTTP 400 with a JSON-RPC error": discoverError(400, -32600, ""),
	} {
		for _, legacy := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				asked, release := make(chan struct{}), make(chan struct{})
				var once sync.Once
				s := (&stub{legacy: legacy, on: func(w http.ResponseWriter, r *http.Request, a arrived) bool {
					if r.Header.Get("Authorization") == "Bearer alice" {
						return false
					}
					once.Do(func() { close(asked) })
					<-release
					refuse(w, r, a)
					return true
				}}).start(t)
				u := reach(t, s.url, func(o *Options) { o.Authorize = byContext{} })
				link := func(who string) chan error {
					out := make(chan error, 1)
					go func() {
						_, err := u.Link(context.WithValue(t.Context(), whoKey{}, who), SessionKey{})
						out <- err
					}()
					return out
				}
				nobody := link("")
				<-asked
				alice, bob := link("Bearer alice"), link("Bearer bob")
				time.Sleep(50 * time.Millisecond) // they wait for nobody's
				close(release)
				<-nobody // what it learns depends on whether alice was first
				if err := <-alice; err != nil {
					t.Errorf("alice, whose credential is good: %v", err)
				}
				<-bob
				// Her answer tells what the upstream is, or else his own refusal does.
				for _, a := range s.got("server/discover") {
					if who := a.header.Get("Authorization"); who == "Bearer alice" {
						return
					}
				}
				t.Errorf("the upstream was never asked with alice's credential: %v", s.log())
			})
		}
	}
}

// noToken is an issuer that has a token for alice alone.
type noToken struct{ byContext }

func (n noToken) Authorize(ctx context.Context) (string, error) {
	if v, _ := n.byContext.Authorize(ctx); v == "Bearer alice" {
		return v, nil
	}
	if gate, ok := ctx.Value(gateKey{}).(chan struct{}); ok {
		gate <- struct{}{}
		<-gate
	}
	return "", fault.New(fault.CredentialFailed, "no token")
}

type gateKey struct{}

func TestAProbeWithoutATokenDecidesForNobodyElse(t *testing.T) {
	s := (&stub{}).start(t)
	u := reach(t, s.url, func(o *Options) { o.Authorize = noToken{} })
	gate := make(chan struct{})
	nobody, alice := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := u.Link(context.WithValue(t.Context(), gateKey{}, gate), SessionKey{})
		nobody <- err
	}()
	<-gate
	go func() {
		_, err := u.Link(context.WithValue(t.Context(), whoKey{}, "Bearer alice"), SessionKey{})
		alice <- err
	}()
	time.Sleep(50 * time.Millisecond) // she waits for nobody's
	gate <- struct{}{}
	if err := <-nobody; fault.From(err).Code != fault.CredentialFailed {
		t.Errorf("nobody: %v", err)
	}
	if err := <-alice; err != nil {
		t.Errorf("alice, who has a token: %v", err)
	}
}

// An upstream that cannot be reached is that for every caller: they do not each
// knock at it.
func TestAnUnreachableUpstreamIsNotAskedByEachCallerAlone(t *testing.T) {
	asked, release := make(chan struct{}, 100), make(chan struct{})
	s := (&stub{on: func(http.ResponseWriter, *http.Request, arrived) bool {
		asked <- struct{}{}
		<-release
		drop()
		return true
	}}).start(t)
	u := reach(t, s.url, func(o *Options) { o.Authorize = byContext{} })
	var all, begun sync.WaitGroup
	for i := range 20 {
		begun.Add(1)
		all.Go(func() {
			begun.Done()
			ctx := context.WithValue(t.Context(), whoKey{}, "Bearer "+itoa(i))
			if _, err := u.Link(ctx, SessionKey{}); fault.From(err).Code != fault.UpstreamUnavailable {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	begun.Wait()
	<-asked
	time.Sleep(200 * time.Millisecond) // they wait for the first
	close(release)
	all.Wait()
	if n := len(s.got("server/discover")); n > 2 {
		t.Errorf("the upstream was asked %d times for 20 callers", n)
	}
}

// Who waits for another's probe waits no longer than allowed, and begins none then.
func TestAWaitForAnothersProbeEndsInTime(t *testing.T) {
	release := make(chan struct{})
	s := (&stub{on: func(w http.ResponseWriter, _ *http.Request, _ arrived) bool {
		<-release
		say(w, 401, "text/plain", "who?")
		return true
	}}).start(t)
	u := reach(t, s.url, func(o *Options) { o.Authorize = byContext{} })
	first := make(chan struct{})
	go func() {
		defer close(first)
		_, _ = u.Link(t.Context(), SessionKey{})
	}()
	for len(s.got("server/discover")) == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, stop := context.WithTimeout(context.WithValue(t.Context(), whoKey{}, "Bearer alice"), 50*time.Millisecond)
	defer stop()
	if _, err := u.Link(ctx, SessionKey{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	close(release)
	<-first
	if n := len(s.got("server/discover")); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
