package grant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// echo answers with all that was sent to it, at a place of its choice.
var echo = map[string]func(w http.ResponseWriter, all string){
	"refusal": func(w http.ResponseWriter, all string) { refuse(w, 400, all) },
	"description": func(w http.ResponseWriter, all string) {
		refuse(w, 401, "invalid_client\",\"error_description\":\""+all)
	},
	"outage": func(w http.ResponseWriter, all string) { refuse(w, 503, all) },
	"name":   func(w http.ResponseWriter, all string) { _, _ = fmt.Fprintf(w, `{%q:1,%q:2}`, all, all) },
	"string": func(w http.ResponseWriter, all string) { _, _ = fmt.Fprintf(w, `{"access_token":"%s\x"}`, all) },
	"type": func(w http.ResponseWriter, all string) {
		_, _ = fmt.Fprintf(w, `{"access_token":"t","token_type":%q}`, all)
	},
	"issued": func(w http.ResponseWriter, all string) {
		_, _ = fmt.Fprintf(w, `{"access_token":"t","token_type":"bearer","issued_token_type":%q}`, all)
	},
	"expires": func(w http.ResponseWriter, all string) { answerToken(w, "granted-token", fmt.Sprintf("%q", all)) },
	"text":    func(w http.ResponseWriter, all string) { _, _ = io.WriteString(w, all) },
	"location": func(w http.ResponseWriter, all string) {
		w.Header().Set("Location", "https://"+url.QueryEscape(all)+".example/?"+url.QueryEscape(all))
		w.WriteHeader(302)
	},
	"status line": func(w http.ResponseWriter, all string) { raw(w, all+" "+all+"\r\n\r\n") },
	"status":      func(w http.ResponseWriter, all string) { raw(w, "HTTP/1.1 "+all+"\r\n\r\n") },
	"header":      func(w http.ResponseWriter, all string) { raw(w, "HTTP/1.1 200 OK\r\n"+all+"\r\n\r\n") },
	"length":      func(w http.ResponseWriter, all string) { raw(w, "HTTP/1.1 200 OK\r\nContent-Length: "+all+"\r\n\r\n") },
	"encoding": func(w http.ResponseWriter, all string) {
		raw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "+all+"\r\n\r\n")
	},
	"chunk": func(w http.ResponseWriter, all string) {
		raw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+all+"\r\n")
	},
	"behind the answer": func(w http.ResponseWriter, all string) {
		raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"+all)
	},
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":"%s"}`, code)
}

func raw(w http.ResponseWriter, text string) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

// everyText is an error in every way that it may reach a log or a client.
func everyText(err error) string {
	var all strings.Builder
	for e := err; e != nil; e = errors.Unwrap(e) {
		_, _ = fmt.Fprintf(&all, "%v\n%+v\n%#v\n%T\n", e, e, e, e)
	}
	f := fault.From(err)
	_, _ = fmt.Fprintf(&all, "%s\n%s\n%s\n%#v\n", f.Public(), f.Data, f.Error(), *f)
	return all.String()
}

func TestSecretsAreInNoErrorAndNoLog(t *testing.T) {
	const secret, subjectToken = "client-s3cr3t", "eyJsubject.token.alice"
	var out output
	old, flags := log.Writer(), log.Flags()
	log.SetOutput(&out) // where net/http complains
	defer func() { log.SetOutput(old); log.SetFlags(flags) }()
	secrets := []string{secret, subjectToken, "granted-token", "Basic ", "cGVuc3RvY2s6", url.QueryEscape(secret)} // the fifth: penstock:

	for name, answer := range echo {
		i, clk := newIssuer(t), newClock()
		i.srv.Config.ErrorLog = quiet()
		i.behave(func(w http.ResponseWriter, a asked, _ int) {
			answer(w, secret+" "+a.form.Get("subject_token")+" "+a.header.Get("Authorization"))
		})
		o := options(i, clk)
		o.ClientSecret, o.Log = NewSecret(secret), out.log()
		x, c := exchange(t, o), credentials(t, o)
		who := &Subject{Hash: [32]byte{1}, Token: subjectToken}
		for range 3 {
			_, err := x.Token(t.Context(), who)
			_, same := c.Token(t.Context())
			if granted := name == "expires"; granted != (err == nil) || granted != (same == nil) {
				t.Errorf("%s: %v, %v", name, err, same)
			}
			for _, e := range []error{err, same} {
				if e != nil {
					out.log().Error("a call failed", "error", e, "fault", fault.From(e), "subject", who, "options", o)
					slog.New(slog.NewJSONHandler(&out, nil)).Error("a call failed", "error", e, "subject", *who, "options", o)
					without(t, name+": the error", everyText(e), secrets...)
				}
			}
			clk.pass(time.Minute)
		}
		if name == "refusal" {
			x.Refused(who, "t")
		}
		x.Close()
		_, err := x.Token(t.Context(), who)
		without(t, "after Close", everyText(err), secrets...)
	}

	// A renewal that fails behind the callers' backs is logged, too.
	i, clk := newIssuer(t), newClock()
	o := options(i, clk)
	o.ClientSecret, o.Log = NewSecret(secret), out.log()
	i.behave(func(w http.ResponseWriter, a asked, n int) {
		if n == 1 {
			answerToken(w, "granted-token", 3600)
			return
		}
		echo["name"](w, secret+a.form.Get("subject_token"))
	})
	x := exchange(t, o)
	who := &Subject{Hash: [32]byte{1}, Token: subjectToken}
	get(t, x, who)
	clk.pass(50 * time.Minute)
	get(t, x, who)
	eventually(t, "the failed renewal is logged", func() bool { return strings.Contains(out.String(), "not renewed") })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := x.Token(cancelled, &Subject{Hash: [32]byte{2}, Token: subjectToken + "2"})
	without(t, "a call that ended", everyText(err), secrets...)

	without(t, "the log", out.String(), secrets...)
	if !strings.Contains(out.String(), "github") {
		t.Error("nothing was logged")
	}
}
