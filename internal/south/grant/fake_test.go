package grant

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a token endpoint without a network, for tests within a bubble. Its
// tokens tell whom they are for and which request they came of.
type fake struct {
	takes time.Duration // a request
	life  any           // expires_in

	mu     sync.Mutex // guards what follows
	n      int        // requests so far
	under  map[string]int
	most   int // requests under way for one subject
	status int // of the next answers; 0: 200
}

func (f *fake) set(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// RoundTrip answers a request after the time it takes.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	who := form.Get("subject_token")
	f.mu.Lock()
	f.n++
	n := f.n
	if f.under == nil {
		f.under = map[string]int{}
	}
	f.under[who]++
	f.most = max(f.most, f.under[who])
	f.mu.Unlock()
	var err error
	select {
	case <-time.After(f.takes):
	case <-r.Context().Done():
		err = r.Context().Err()
	}
	f.mu.Lock()
	f.under[who]--
	status := f.status
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var answer strings.Builder
	answerToken(&answer, fmt.Sprintf("%d.for.%s", n, who), f.life)
	if status == 0 {
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer.String()))}, nil
}

// of says whose token it is, and of which request.
func of(token string) (n int, who string) {
	first, who, _ := strings.Cut(token, ".for.")
	_, _ = fmt.Sscan(first, &n)
	return n, who
}

func (f *fake) exchange(t testing.TB, o Options) *Exchange {
	t.Helper()
	o.TokenURL = "https://idp.example/token"
	x := exchange(t, o)
	x.k.e.t = f
	return x
}

func (f *fake) credentials(t testing.TB, o Options) *ClientCredentials {
	t.Helper()
	o.TokenURL = "https://idp.example/token"
	c := credentials(t, o)
	c.k.e.t = f
	return c
}
