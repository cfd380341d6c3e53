package grant

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const clientSecret = "s3cr3t:ä/&=+ %"

// asked is one request as it reached an issuer.
type asked struct {
	header http.Header
	form   url.Values
}

// issuer is a token endpoint under the test's control. It grants, to each
// request, a token of its own.
type issuer struct {
	url string
	srv *httptest.Server

	mu   sync.Mutex // guards what follows
	on   func(w http.ResponseWriter, a asked, n int)
	seen []asked
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.srv = httptest.NewServer(i)
	i.url = i.srv.URL + "/token"
	t.Cleanup(i.srv.Close)
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	a := asked{header: r.Header.Clone(), form: form}
	i.mu.Lock()
	i.seen = append(i.seen, a)
	n, on := len(i.seen), i.on
	i.mu.Unlock()
	if on != nil {
		on(w, a, n)
		return
	}
	answerToken(w, fmt.Sprintf("token-%d", n), 3600)
}

func (i *issuer) behave(on func(w http.ResponseWriter, a asked, n int)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.on = on
}

// says has the issuer answer always alike.
func (i *issuer) says(status int, body string) {
	i.behave(func(w http.ResponseWriter, _ asked, _ int) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.seen)
}

func (i *issuer) last() asked {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen[len(i.seen)-1]
}

func answerToken(w io.Writer, token string, expires any) {
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","issued_token_type":%q,"expires_in":%v}`, token, accessTokenType, expires)
}

// clock is a time that only the test moves.
type clock struct {
	mu sync.Mutex // guards t
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(1_800_000_000, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// output is a log that goroutines may write and the test reads.
type output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (o *output) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// tally counts outcomes.
type tally struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

func (c *tally) outcome(kind, outcome string, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[kind+" "+outcome]++
}

func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

func options(i *issuer, c *clock) Options {
	o := Options{Upstream: "github", ClientID: "penstock", ClientSecret: NewSecret(clientSecret), Audience: "aud"}
	if i != nil {
		o.TokenURL = i.url
	}
	if c != nil {
		o.Now = c.now
	}
	return o
}

func exchange(t testing.TB, o Options) *Exchange {
	t.Helper()
	x, err := NewExchange(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func credentials(t testing.TB, o Options) *ClientCredentials {
	t.Helper()
	c, err := NewClientCredentials(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func subject(name string) *Subject {
	token := "subject-token-of-" + name
	return &Subject{Hash: sha256.Sum256([]byte(token)), Token: token}
}

func get(t testing.TB, x *Exchange, s *Subject) string {
	t.Helper()
	token, err := x.Token(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// fails asks and returns the error, which has to be of the one code.
func fails(t *testing.T, token func(context.Context) (string, error)) *fault.Error {
	t.Helper()
	got, err := token(t.Context())
	if err == nil {
		t.Fatalf("a token came: %q", got)
	}
	f := fault.From(err)
	if f.Code != fault.CredentialFailed || got != "" {
		t.Fatalf("%q, %v", got, err)
	}
	if !strings.Contains(f.Message, `"github"`) {
		t.Errorf("the upstream is not named: %s", f.Public())
	}
	return f
}

// eventually waits for what another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// quiet is where a server writes what a test provokes.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
