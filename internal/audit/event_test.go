package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func form(t interface{ Fatalf(string, ...any) }, e *Event) map[string]any {
	line := "{" + string(appendEvent(nil, e, time.Now)) + "}"
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	if strings.ContainsAny(line, "\n\r") || !utf8.ValidString(line) {
		t.Fatalf("not fit for a line: %q", line)
	}
	return m
}

func TestAnEventIsWrittenWithEveryMember(t *testing.T) {
	m := form(t, &Event{
		Time: time.Date(2026, 11, 30, 13, 0, 0, 123456789, time.FixedZone("", 3600)), Duration: 1500 * time.Microsecond,
		Issuer: "i", Tenant: "t", Subject: "s", Credential: "c", Source: "192.0.2.1", Server: "main", Method: "tools/call", Kind: "tools",
		Name: "a__b", Original: "b", Upstream: "a", Decision: "deny", Rule: "r", Outcome: "refused", Code: -31004, BytesIn: 1, BytesOut: 2,
		RequestID: "7", TraceID: "4b", Session: "x", Detail: "d", Arguments: []byte("{\n\t\"n\": 9007199254740993\r\n}"),
	})
	for member, want := range map[string]any{
		"time": "2026-11-30T12:00:00.123456Z", "duration_us": 1500.0, "issuer": "i", "tenant": "t", "subject": "s", "credential": "c",
		"source": "192.0.2.1", "server": "main", "method": "tools/call", "kind": "tools", "name": "a__b", "original": "b", "upstream": "a",
		"decision": "deny", "rule": "r", "outcome": "refused", "code": -31004.0, "bytes_in": 1.0, "bytes_out": 2.0, "request": "7", "trace": "4b",
		"session": "x", "detail": "d",
	} {
		if m[member] != want {
			t.Errorf("%s is %v, want %v", member, m[member], want)
		}
	}
	if len(m) != 24 {
		t.Errorf("%d members: %v", len(m), m)
	}
	if raw := string(appendArguments(nil, []byte("{\"n\": 9007199254740993}"))); raw != `,"arguments":{"n": 9007199254740993}` {
		t.Errorf("arguments: %s", raw)
	}
	if m := form(t, &Event{}); len(m) != 2 {
		t.Errorf("an empty event: %v", m)
	}
}

func TestArgumentsThatCannotBeSplicedAreWrittenAnotherWay(t *testing.T) {
	for _, raw := range []string{`{"a":`, `{"a":1} {}`, `{"a":1},"outcome":"ok"`, "{\"a\":\"\xff\"}", `{"a":1,"a":2}`, "\n", ""} {
		m := form(t, &Event{Arguments: []byte(raw)})
		if want := strings.ToValidUTF8(raw, "�"); m["arguments_text"] != want || m["arguments"] != nil || m["outcome"] != nil {
			t.Errorf("%q: %v", raw, m)
		}
	}
	m := form(t, &Event{Arguments: []byte(`"` + strings.Repeat("x", maxArguments) + `"`)})
	if m["arguments_bytes"] != float64(maxArguments+2) || len(m) != 3 {
		t.Errorf("large: %v", m)
	}
}

func TestLongTextIsCutBetweenRunes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringN(0, 600, -1), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 1200), func(b []byte) string { return string(b) })).Draw(t, "s")
		got, _ := form(t, &Event{Detail: s})["detail"].(string)
		if len(s) <= maxText {
			if got != strings.ToValidUTF8(s, "�") && utf8.ValidString(s) {
				t.Fatalf("%q became %q", s, got)
			}
			return
		}
		if !strings.HasSuffix(got, "…") || utf8.ValidString(s) && (len(got) > maxText || !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) || len(got) < maxText-utf8.UTFMax) {
			t.Fatalf("%q became %q", s, got)
		}
	})
}
