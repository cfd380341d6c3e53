package governance_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// event is a line of the audit record.
type event struct {
	Server, Method, Kind, Name, Original, Upstream string
	Issuer, Tenant, Subject, Credential, Source    string
	Decision, Rule, Outcome                        string
	Code                                           int
	Micros                                         int64 `json:"duration_us"`
	In                                             int64 `json:"bytes_in"`
	Out                                            int64 `json:"bytes_out"`
	Request, Trace, Session, Detail                string
	Arguments                                      json.RawMessage
	Time                                           time.Time

	line string
}

func (e *event) String() string { return e.line }

// events reads the events of the record that begin at or behind an offset, and where what follows them begins.
func events(t reporter, file string, from int64) (out []event, next int64) {
	t.Helper()
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return nil, from
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.NewSectionReader(f, from, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1] // the last line may be on its way
	for line := range strings.Lines(string(raw)) {
		if !strings.Contains(line, `"duration_us":`) {
			continue
		}
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		e.line = strings.TrimSpace(line)
		out = append(out, e)
	}
	return out, from + int64(len(raw))
}

// due is an event that has to be there. What names it is one of its trace, its request id and its session.
type due struct {
	what                                            string
	trace, request, session                         string
	subject, method, kind, name, original, upstream string
	decision, rule, outcome                         string
	code                                            int
	in, out                                         int64 // -1: whatever
	stdio                                           bool
}

// is tells whether an event is the one that is due.
func (d *due) is(e *event) bool {
	switch {
	case d.request != "":
		return e.Request == d.request
	case d.trace != "":
		return e.Trace == d.trace
	}
	return e.Session == sessionMark(d.session) && e.Method == d.method
}

// check holds an event to be as it is due.
func (d *due) check(e *event) string {
	var wrong []string
	same := func(what, got, want string) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", what, got, want))
		}
	}
	same("server", e.Server, "default")
	same("method", e.Method, d.method)
	same("kind", e.Kind, d.kind)
	same("name", e.Name, d.name)
	same("original", e.Original, d.original)
	same("upstream", e.Upstream, d.upstream)
	same("decision", e.Decision, d.decision)
	same("rule", e.Rule, d.rule)
	same("outcome", e.Outcome, d.outcome)
	same("code", fmt.Sprint(e.Code), fmt.Sprint(d.code))
	same("subject", e.Subject, d.subject)
	if d.request != "" && d.trace != "" {
		same("trace", e.Trace, d.trace)
	}
	if d.session != "" {
		same("session", e.Session, sessionMark(d.session))
	}
	switch {
	case d.stdio:
		same("source", e.Source, "")
	default:
		same("source", e.Source, "127.0.0.1")
		if d.subject != "" {
			same("credential", e.Credential, "key-"+d.subject)
			same("tenant", e.Tenant, "acme")
		}
	}
	if d.in >= 0 {
		same("bytes_in", fmt.Sprint(e.In), fmt.Sprint(d.in))
	}
	if d.out >= 0 {
		same("bytes_out", fmt.Sprint(e.Out), fmt.Sprint(d.out))
	}
	if e.Micros < 0 || e.Time.IsZero() || time.Since(e.Time) > time.Hour {
		wrong = append(wrong, "it has no time or duration")
	}
	return strings.Join(wrong, "; ")
}

// sessionMark is what stands for a session in the record, from which nobody can speak in it.
func sessionMark(session string) string {
	if session == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:6])
}
