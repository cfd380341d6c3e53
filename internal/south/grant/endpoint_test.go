package grant

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestARequestIsThatOfTheSpecification(t *testing.T) {
	i := newIssuer(t)
	alice := subject("alice")
	full := options(i, nil)
	full.Scopes, full.Resource = []string{"read", "write"}, "https://up.example/mcp"
	public := options(i, nil)
	public.ClientSecret, public.Audience = NewSecret(""), ""

	const exchangeType = "urn:ietf:params:oauth:grant-type:token-exchange"
	for name, c := range map[string]struct {
		o        Options
		exchange bool
		form     url.Values
	}{
		"exchange": {full, true, url.Values{
			"grant_type": {exchangeType}, "subject_token": {alice.Token}, "subject_token_type": {accessTokenType}, "requested_token_type": {accessTokenType},
			"audience": {"aud"}, "resource": {"https://up.example/mcp"}, "scope": {"read write"},
		}},
		"exchange without a secret": {public, true, url.Values{
			"grant_type": {exchangeType}, "subject_token": {alice.Token}, "subject_token_type": {accessTokenType}, "requested_token_type": {accessTokenType},
			"client_id": {"penstock"},
		}},
		"credentials": {full, false, url.Values{
			"grant_type": {"client_credentials"}, "audience": {"aud"}, "resource": {"https://up.example/mcp"}, "scope": {"read write"},
		}},
		"credentials without a secret": {public, false, url.Values{"grant_type": {"client_credentials"}, "client_id": {"penstock"}}},
	} {
		var err error
		if c.exchange {
			_, err = exchange(t, c.o).Token(t.Context(), alice)
		} else {
			_, err = credentials(t, c.o).Token(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		a := i.last()
		if d := cmp.Diff(c.form, a.form); d != "" {
			t.Errorf("%s: the form (-want +got):\n%s", name, d)
		}
		want := ""
		if c.o.ClientSecret.Reveal() != "" {
			want = "Basic " + base64.StdEncoding.EncodeToString([]byte("penstock:s3cr3t%3A%C3%A4%2F%26%3D%2B+%25"))
		}
		if got := a.header.Get("Authorization"); got != want {
			t.Errorf("%s: Authorization %q, want %q", name, got, want)
		}
		if got := a.header.Get("Content-Type"); got != "application/x-www-form-urlencoded" {
			t.Errorf("%s: Content-Type %q", name, got)
		}
	}
}

// A redirect would carry the secret in the header, or the caller's token in the
// body, to wherever the endpoint says.
func TestARedirectIsRefusedAndNotFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		answerToken(w, "stolen", 3600)
	}))
	defer other.Close()
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		i := newIssuer(t)
		clk := newClock()
		for _, to := range []string{other.URL + "/token", i.srv.URL + "/other", "/token", ""} {
			i.behave(func(w http.ResponseWriter, _ asked, _ int) {
				if to != "" {
					w.Header().Set("Location", to)
				}
				w.WriteHeader(status)
				answerToken(w, "with-the-redirect", 3600)
			})
			x, before := exchange(t, options(i, clk)), i.count()
			for range 20 {
				f := fails(t, func(ctx context.Context) (string, error) { return x.Token(ctx, subject("alice")) })
				if !strings.Contains(f.Public(), "redirect") || !strings.Contains(f.Public(), "token_url") || strings.Contains(f.Public(), "127.0.0.1") {
					t.Errorf("%d to %q: %s", status, to, f.Public())
				}
			}
			if n := i.count() - before; n != 1 {
				t.Errorf("%d to %q: %d requests", status, to, n)
			}
		}
	}
	if elsewhere.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestEachFailureIsToldForWhatItIs(t *testing.T) {
	huge := `{"x":"` + strings.Repeat("a", maxAnswer) + `","access_token":"a","token_type":"bearer"}`
	long := strings.Repeat("Z", maxHeader+1)
	for name, c := range map[string]struct {
		on       func(w http.ResponseWriter)
		public   string
		outcome  string
		again    time.Duration // when it is asked anew
		exchange bool
	}{
		"invalid_grant":     {write(400, `{"error":"invalid_grant","error_description":"hidden"}`), "refused the exchange: invalid_grant; sign in again", "refused", rememberRefusal, true},
		"invalid_client":    {write(401, `{"error":"invalid_client"}`), "refused the exchange: invalid_client; ask the operator", "refused", rememberRefusal, true},
		"own invalid_grant": {write(400, `{"error":"invalid_grant"}`), "refused the client credentials: invalid_grant; ask the operator", "refused", rememberRefusal, false},
		"own words":         {write(403, `{"error":"hidden","error_uri":"https://hidden"}`), "refused the exchange; ask", "refused", rememberRefusal, true},
		"bare 400":          {write(400, "hidden"), "refused the exchange; ask", "refused", rememberRefusal, true},
		"404":               {write(404, "hidden"), "cannot be used", "failed", rememberRefusal, true},
		"201":               {write(201, `{"access_token":"a","token_type":"bearer"}`), "cannot be used", "failed", rememberRefusal, true},
		"204":               {write(204, ""), "cannot be used", "failed", rememberRefusal, true},
		"rubbish":           {write(200, "<hidden>"), "cannot be used", "failed", rememberRefusal, true},
		"a hidden name":     {write(200, `{"hidden":1,"hidden":2}`), "cannot be used", "failed", rememberRefusal, true},
		"empty":             {write(200, ""), "cannot be used", "failed", rememberRefusal, true},
		"huge":              {write(200, huge), "cannot be used", "failed", rememberRefusal, true},
		"another type":      {write(200, `{"access_token":"hidden","token_type":"mac"}`), "cannot be used", "failed", rememberRefusal, true},
		"500":               {write(500, "hidden"), "not available", "unavailable", rememberDown, true},
		"503":               {write(503, "hidden"), "not available", "unavailable", rememberDown, false},
		"429":               {write(429, `{"error":"slow_down"}`), "not available", "unavailable", rememberDown, true},
		"a large header": {func(w http.ResponseWriter) {
			w.Header().Set("X-Hidden", long)
			answerToken(w, "a", 3600)
		}, "not available", "unavailable", rememberDown, true},
		"cut": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"access_token":"hidden`)
		}, "not available", "unavailable", rememberDown, true},
		"no HTTP": {func(w http.ResponseWriter) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "hidden hidden hidden\r\n\r\n")
				_ = conn.Close()
			}
		}, "not available", "unavailable", rememberDown, true},
		"closed": {func(w http.ResponseWriter) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.Close()
			}
		}, "not available", "unavailable", rememberDown, true},
	} {
		t.Run(name, func(t *testing.T) {
			i, clk, counts := newIssuer(t), newClock(), &tally{}
			i.behave(func(w http.ResponseWriter, _ asked, _ int) { c.on(w) })
			o := options(i, clk)
			o.Outcome = counts.outcome
			var token func(context.Context) (string, error)
			kind := kindClient
			if c.exchange {
				kind = kindExchange
				x := exchange(t, o)
				token = func(ctx context.Context) (string, error) { return x.Token(ctx, subject("alice")) }
			} else {
				token = credentials(t, o).Token
			}
			f := fails(t, token)
			if !strings.Contains(f.Public(), c.public) {
				t.Errorf("public: %s", f.Public())
			}
			if strings.Contains(f.Error(), "hidden") || strings.Contains(f.Error(), "ZZ") || strings.Contains(f.Public(), "127.0.0.1") {
				t.Errorf("it repeats what the provider wrote, or tells an address: %s; %v", f.Public(), f)
			}
			if f.Cause == nil {
				t.Error("there is nothing for the log")
			}
			if (f.RetryAfter > 0) != (c.outcome == outcomeUnavailable) {
				t.Errorf("retry after %v", f.RetryAfter)
			}
			clk.pass(c.again - time.Millisecond)
			if fails(t, token); i.count() != 1 {
				t.Errorf("%d requests within %v", i.count(), c.again)
			}
			clk.pass(time.Millisecond)
			if fails(t, token); i.count() != 2 {
				t.Errorf("%d requests after %v", i.count(), c.again)
			}
			if n := counts.of(kind + " " + c.outcome); n != 2 {
				t.Errorf("outcomes: %v", counts.n)
			}
			i.behave(nil)
			clk.pass(c.again)
			if got, err := token(t.Context()); err != nil || got != "token-3" {
				t.Errorf("once it is well: %q, %v", got, err)
			}
		})
	}
}

func write(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestAProviderThatIsNotThereIsUnavailable(t *testing.T) {
	i, clk := newIssuer(t), newClock()
	address := i.srv.Listener.Addr().String()
	i.srv.Close()
	c := credentials(t, options(i, clk))
	if f := fails(t, c.Token); !strings.Contains(f.Public(), "not available") || strings.Contains(f.Public(), "127.0.0.1") || f.RetryAfter != rememberDown {
		t.Error(f.Public(), f.RetryAfter)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("somebody else took the port:", err)
	}
	back := &http.Server{Handler: i, ReadHeaderTimeout: time.Minute}
	go func() { _ = back.Serve(l) }()
	defer back.Close()
	fails(t, c.Token)
	clk.pass(rememberDown)
	if got, err := c.Token(t.Context()); err != nil || got != "token-1" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRequestsAtOnceAreBounded(t *testing.T) {
	i := newIssuer(t)
	var under, most atomic.Int32
	full := make(chan struct{})
	var once sync.Once
	i.behave(func(w http.ResponseWriter, _ asked, n int) {
		now := under.Add(1)
		defer under.Add(-1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		if now == maxConns {
			once.Do(func() { close(full) })
		}
		<-full
		time.Sleep(time.Millisecond)
		answerToken(w, fmt.Sprintf("token-%d", n), 3600)
	})
	o := options(i, nil)
	o.Timeout = time.Minute
	x := exchange(t, o)
	var n atomic.Int32
	got := crowd(t, 3*maxConns, func(ctx context.Context) (string, error) {
		return x.Token(ctx, subject(fmt.Sprint(n.Add(1))))
	})
	if most.Load() != maxConns || len(got) != 3*maxConns {
		t.Errorf("%d at once, %d tokens: %v", most.Load(), len(got), got)
	}
}

func TestASlowProviderIsGivenUp(t *testing.T) {
	for name, begun := range map[string]string{"header": "", "body": `{"access_token":`} {
		i := newIssuer(t)
		end := make(chan struct{})
		i.behave(func(w http.ResponseWriter, _ asked, _ int) {
			if begun != "" {
				_, _ = io.WriteString(w, begun)
				_ = http.NewResponseController(w).Flush()
			}
			<-end
		})
		o := options(i, newClock())
		o.Timeout = 50 * time.Millisecond
		f := fails(t, credentials(t, o).Token)
		close(end)
		if !strings.Contains(f.Public(), "not available") || !strings.Contains(f.Error(), "in time") {
			t.Errorf("%s: %v", name, f)
		}
	}
}

func TestTheCallersOwnTokenIsNeverTakenForAnExchangedOne(t *testing.T) {
	i, alice := newIssuer(t), subject("alice")
	i.behave(func(w http.ResponseWriter, a asked, _ int) { answerToken(w, a.form.Get("subject_token"), 3600) })
	x := exchange(t, options(i, newClock()))
	f := fails(t, func(ctx context.Context) (string, error) { return x.Token(ctx, alice) })
	if !strings.Contains(f.Public(), "caller's own token") || strings.Contains(f.Error(), alice.Token) {
		t.Error(f)
	}
}

func TestNoProxyIsReadFromTheEnvironment(t *testing.T) {
	e := newEndpoint(kindExchange, &url.URL{Scheme: "https", Host: "idp.example"}, &Options{})
	if e.t.(*http.Transport).Proxy != nil {
		t.Error("the environment decides where secrets go")
	}
}

func TestTheEndpointsCertificateCounts(t *testing.T) {
	i := &issuer{}
	for name, c := range map[string]struct {
		trusted bool
		highest uint16
		ok      bool
	}{"known": {true, 0, true}, "unknown": {false, 0, false}, "TLS 1.1": {true, tls.VersionTLS11, false}} {
		srv := httptest.NewUnstartedServer(i)
		srv.Config.ErrorLog = quiet()
		srv.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: c.highest} //nolint:gosec // an old server
		srv.StartTLS()
		o := options(i, newClock())
		o.TokenURL = srv.URL
		if c.trusted {
			o.RootCAs = x509.NewCertPool()
			o.RootCAs.AddCert(srv.Certificate())
		}
		_, err := credentials(t, o).Token(t.Context())
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
	}
	if n := i.count(); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestWithoutTLSOnlyLoopbackIsDialled(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:80": true, "127.1.2.3:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true,
		"10.0.0.1:80": false, "[fe80::1]:80": false, "0.0.0.0:80": false, "localhost:80": false, "rubbish": false,
	} {
		if err := onlyLoopback("tcp", address, nil); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	if got := fmt.Sprint(reason(&net.OpError{Op: "dial", Err: errNotLoopback})); got != errNotLoopback.Error() {
		t.Error(got)
	}
}

func TestAnErrorKeepsItsKind(t *testing.T) {
	i := newIssuer(t)
	i.says(400, `{"error":"invalid_scope"}`)
	_, err := credentials(t, options(i, nil)).Token(t.Context())
	if f := fault.From(fmt.Errorf("call: %w", err)); f.Code != fault.CredentialFailed {
		t.Error(f)
	}
}
