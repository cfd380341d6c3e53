package durable

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

var testTop = ceilings{runtime: 30 * time.Second, retention: time.Hour}

const testNow = 1_700_000_000_000

// goodTask is a submission that nothing is wrong with.
func goodTask(sp Spelling) map[string]any {
	return map[string]any{
		"schemaVersion": sp.Schema("task-submission"), "logicalTaskId": "logical", "attemptId": "attempt", "correlationId": "correlation",
		"idempotencyKey": "key", "providerInterfaceVersion": "provider", "inputSha256": Sum([]byte("{}")).String(),
		"acceptancePolicySha256": Sum([]byte("p")).String(), "artifactScopeSha256": Sum([]byte("s")).String(),
		"deadlineUnixMs": testNow + 60_000, "retentionMs": 600_000,
		"limits":          map[string]any{"maxRuntimeMs": 30_000, "maxOutputBytes": 65_536, "maxArtifactBytes": 8_388_608, "maxAttempts": 1},
		"permittedEffect": "non_idempotent_write", "cleanupRequired": true,
	}
}

// judged is the code that a document is refused with, "" for none.
func judged(sp Spelling, doc []byte) string {
	s, err := parseSubmission(doc)
	if err != nil {
		return "TASK_SUBMISSION_INVALID"
	}
	return s.check(sp, Sum([]byte("{}")), "provider", time.UnixMilli(testNow), testTop)
}

// TestSubmissionTable holds each field and bound of the contract (2.1) to its
// code, in both spellings.
func TestSubmissionTable(t *testing.T) {
	const raw = "\x00raw:" // what follows is written as it is
	zero := Digest{}.String()
	long := strings.Repeat("k", 129)
	identity := []struct {
		value any
		code  string
	}{
		{"", "TASK_IDENTITY_INVALID"},
		{long, "TASK_IDENTITY_INVALID"},
		{strings.Repeat("é", 65), "TASK_IDENTITY_INVALID"}, // 130 bytes
		{"a b", "TASK_IDENTITY_INVALID"},
		{"a\u00a0b", "TASK_IDENTITY_INVALID"},
		{"a\u2003", "TASK_IDENTITY_INVALID"},
		{"a\n", "TASK_IDENTITY_INVALID"},
		{"a\u0085", "TASK_IDENTITY_INVALID"},
		{raw + "null", "TASK_SUBMISSION_INVALID"},
		{7, "TASK_SUBMISSION_INVALID"},
	}
	type row struct {
		member string
		value  any // nil: the member is left out
		code   string
	}
	var rows []row
	for _, m := range []string{"logicalTaskId", "attemptId", "correlationId", "idempotencyKey", "providerInterfaceVersion"} {
		for _, v := range identity {
			rows = append(rows, row{m, v.value, v.code})
		}
	}
	for _, m := range []string{"logicalTaskId", "attemptId", "correlationId", "idempotencyKey"} {
		rows = append(rows, row{m, long[:128], ""}, row{m, "ключ-😀", ""})
	}
	for member := range goodTask(Penstock) {
		rows = append(rows, row{member, nil, "TASK_SUBMISSION_INVALID"}, row{member, raw + "null", "TASK_SUBMISSION_INVALID"}, row{member, []any{}, "TASK_SUBMISSION_INVALID"})
	}
	for _, member := range []string{"maxRuntimeMs", "maxOutputBytes", "maxArtifactBytes", "maxAttempts"} {
		for _, v := range []any{nil, "1", raw + "1.0", raw + "1e0", -1, raw + "18446744073709551616", true} {
			rows = append(rows, row{"limits." + member, v, "TASK_SUBMISSION_INVALID"})
		}
		rows = append(rows, row{"limits." + member, 0, "TASK_RESOURCE_LIMIT_INVALID"})
	}
	rows = append(
		rows,
		row{"limits.more", 1, "TASK_SUBMISSION_INVALID"},
		row{"more", 1, "TASK_SUBMISSION_INVALID"},
		row{"SchemaVersion", "x", "TASK_SUBMISSION_INVALID"},
		row{"schemaVersion", "penstock.task-submission/2", "TASK_SCHEMA_UNSUPPORTED"},
		row{"schemaVersion", "other.task-submission/1", "TASK_SCHEMA_UNSUPPORTED"},
		row{"providerInterfaceVersion", "other", "TASK_PROVIDER_VERSION_UNSUPPORTED"},
		row{"inputSha256", Sum([]byte("x")).String(), "TASK_INPUT_IDENTITY_MISMATCH"},
		row{"inputSha256", zero, "TASK_INPUT_IDENTITY_MISMATCH"},
		row{"inputSha256", strings.ToUpper(Sum([]byte("{}")).String()), "TASK_SUBMISSION_INVALID"}, // its prefix, too
		row{"inputSha256", "sha256:" + strings.ToUpper(Sum([]byte("{}")).String()[7:]), ""},
		row{"inputSha256", "md5:00", "TASK_SUBMISSION_INVALID"},
		row{"acceptancePolicySha256", zero, "TASK_POLICY_IDENTITY_INVALID"},
		row{"artifactScopeSha256", zero, "TASK_POLICY_IDENTITY_INVALID"},
		row{"artifactScopeSha256", "sha256:", "TASK_SUBMISSION_INVALID"},
		row{"deadlineUnixMs", testNow, "TASK_DEADLINE_INVALID"},
		row{"deadlineUnixMs", 0, "TASK_DEADLINE_INVALID"},
		row{"deadlineUnixMs", testNow + 1, ""},
		row{"deadlineUnixMs", testNow + 3_600_001, "TASK_DEADLINE_INVALID"},
		row{"deadlineUnixMs", raw + "18446744073709551615", "TASK_DEADLINE_INVALID"},
		row{"deadlineUnixMs", raw + "18446744073709551616", "TASK_SUBMISSION_INVALID"},
		row{"deadlineUnixMs", -1, "TASK_SUBMISSION_INVALID"},
		row{"deadlineUnixMs", testNow + 600_000, ""},
		row{"deadlineUnixMs", testNow + 600_001, "TASK_RESOURCE_LIMIT_INVALID"}, // beyond the retention
		row{"retentionMs", 29_999, "TASK_RESOURCE_LIMIT_INVALID"},
		row{"retentionMs", 60_000, ""},
		row{"retentionMs", 59_999, "TASK_RESOURCE_LIMIT_INVALID"}, // the deadline is beyond it
		row{"retentionMs", 3_600_000, ""},
		row{"retentionMs", 3_600_001, "TASK_RESOURCE_LIMIT_INVALID"},
		row{"limits.maxRuntimeMs", 1, ""},
		row{"limits.maxRuntimeMs", 30_001, "TASK_RESOURCE_LIMIT_INVALID"},
		row{"limits.maxOutputBytes", 1, ""},
		row{"limits.maxOutputBytes", 65_537, "TASK_RESOURCE_LIMIT_INVALID"},
		row{"limits.maxArtifactBytes", 1, ""},
		row{"limits.maxArtifactBytes", 8_388_609, "TASK_RESOURCE_LIMIT_INVALID"},
		row{"limits.maxAttempts", 2, "TASK_RESOURCE_LIMIT_INVALID"},
		row{"limits.maxAttempts", 65_535, "TASK_RESOURCE_LIMIT_INVALID"},
		row{"limits.maxAttempts", 65_536, "TASK_SUBMISSION_INVALID"},
		row{"permittedEffect", "read_only", "TASK_EFFECT_MISMATCH"},
		row{"permittedEffect", "idempotent_write", "TASK_EFFECT_MISMATCH"},
		row{"permittedEffect", "destroy", "TASK_SUBMISSION_INVALID"},
		row{"cleanupRequired", false, "TASK_CLEANUP_REQUIRED"},
		row{"cleanupRequired", "true", "TASK_SUBMISSION_INVALID"},
	)
	for _, sp := range []Spelling{Penstock, GaugeMesh} {
		if code := judged(sp, encode(t, goodTask(sp))); code != "" {
			t.Fatalf("%s: the good submission is refused with %s", sp, code)
		}
		for _, r := range rows {
			doc := goodTask(sp)
			in, member := doc, r.member
			if under, ok := strings.CutPrefix(member, "limits."); ok {
				limits := maps.Clone(doc["limits"].(map[string]any))
				doc["limits"], in, member = limits, limits, under
			}
			in[member] = r.value
			if text, ok := r.value.(string); ok && strings.HasPrefix(text, raw) {
				in[member] = json.RawMessage(text[len(raw):])
			}
			if r.value == nil {
				delete(in, member)
			}
			if got := judged(sp, encode(t, doc)); got != r.code {
				t.Errorf("%s: %s = %.60v: got %q, want %q", sp, r.member, r.value, got, r.code)
			}
		}
		if got := judged(sp, encode(t, goodTask(1-sp))); got != "TASK_SCHEMA_UNSUPPORTED" {
			t.Errorf("%s: the other spelling's schema: %q", sp, got)
		}
	}
	twice := strings.Replace(string(encode(t, goodTask(Penstock))), `{`, `{"idempotencyKey":"other",`, 1)
	for _, doc := range []string{twice, ``, `null`, `[]`, `{}`, `"x"`, "{\"schemaVersion\":\"\xff\"}"} {
		if got := judged(Penstock, []byte(doc)); got != "TASK_SUBMISSION_INVALID" {
			t.Errorf("%.40q: %q", doc, got)
		}
	}
}

// TestSubmissionOrder: of two faults the contract's first one is named.
func TestSubmissionOrder(t *testing.T) {
	faults := []struct {
		member string
		value  any
		code   string
	}{
		{"schemaVersion", "x/1", "TASK_SCHEMA_UNSUPPORTED"},
		{"attemptId", "", "TASK_IDENTITY_INVALID"},
		{"inputSha256", Digest{}.String(), "TASK_INPUT_IDENTITY_MISMATCH"},
		{"providerInterfaceVersion", "other", "TASK_PROVIDER_VERSION_UNSUPPORTED"},
		{"artifactScopeSha256", Digest{}.String(), "TASK_POLICY_IDENTITY_INVALID"},
		{"deadlineUnixMs", 1, "TASK_DEADLINE_INVALID"},
		{"retentionMs", 1, "TASK_RESOURCE_LIMIT_INVALID"},
		{"permittedEffect", "read_only", "TASK_EFFECT_MISMATCH"},
		{"cleanupRequired", false, "TASK_CLEANUP_REQUIRED"},
	}
	for i := range faults {
		for j := i + 1; j < len(faults); j++ {
			doc := goodTask(Penstock)
			doc[faults[i].member], doc[faults[j].member] = faults[i].value, faults[j].value
			if got := judged(Penstock, encode(t, doc)); got != faults[i].code {
				t.Errorf("%s and %s: %q", faults[i].member, faults[j].member, got)
			}
		}
	}
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTransitions holds every pair of phases to the contract's table (3.2).
func TestTransitions(t *testing.T) {
	table := map[Phase]string{ // dispatching, routed, cancel_requested, reconciliation_required, terminal
		Prepared:        "y.yyy",
		Dispatching:     ".yyyy",
		Routed:          "..yyy",
		Reconciliation:  ".yy.y",
		CancelRequested: "..y.y",
		Terminal:        ".....",
	}
	columns := []Phase{Dispatching, Routed, CancelRequested, Reconciliation, Terminal}
	for from, row := range table {
		for i, to := range columns {
			if got, want := from.may(to), row[i] == 'y'; got != want {
				t.Errorf("%s to %s: %v", from, to, got)
			}
		}
		if from.may(Prepared) {
			t.Errorf("%s to %s", from, Prepared)
		}
	}
	if len(table) != len(Phases) {
		t.Error(fmt.Sprint(Phases))
	}
}
