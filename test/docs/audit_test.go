package docs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/config"
)

var member = regexp.MustCompile(`"([a-z_]+)": ?("[^"]*"|[0-9]+)`)

// What an operator reads of a line of the audit record is what stands there, member for member.
func TestTheRecordedCallIsTheOneOfThePage(t *testing.T) {
	t.Parallel()
	want := member.FindAllStringSubmatch(block(t, section(t, page(t, "operations.md"), "## The audit record"), "json", 0), -1)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	r := serve(t, `
upstreams:
  docs: # offers search
    url: http://127.0.0.1:1/
auth:
  api_keys:
    - {name: alice, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000001", subject: alice}
policy:
  - {id: readers, allow: {tools: ["*"]}}
`, func(doc *config.Document) {
		doc.Audit = &config.Audit{File: file, MaxSize: 1 << 20, Flush: config.Duration(time.Millisecond), OnFailure: "count"}
	})
	who := r.credential("alice", nil)
	if got := r.call("default", who, "docs__search", `{"secret":"s3cret"}`); got.Error.Code != 0 {
		t.Fatal(got.body)
	}
	r.call("default", who, "docs__nothing", "{}")
	lines := recorded(t, file, 2)
	got := member.FindAllStringSubmatch(lines[0], -1)
	if len(got) != len(want) {
		t.Fatalf("the page has %d members, the record has %d: %s", len(want), len(got), lines[0])
	}
	for i := range want {
		if got[i][1] != want[i][1] {
			t.Errorf("member %d is %q, the page has %q", i, got[i][1], want[i][1])
		}
		changing := []string{"seq", "time", "duration_us", "bytes_in", "bytes_out", "hash"}
		if !slices.Contains(changing, want[i][1]) && got[i][2] != want[i][2] {
			t.Errorf("%s is %s, the page has %s", got[i][1], got[i][2], want[i][2])
		}
	}
	if strings.Contains(strings.Join(lines, ""), "s3cret") {
		t.Error("arguments are recorded")
	}
	var refused struct {
		Outcome string `json:"outcome"`
		Code    int    `json:"code"`
		Request string `json:"request"`
	}
	if err := json.Unmarshal([]byte(lines[1]), &refused); err != nil || refused.Outcome != "refused" || refused.Code != notThere || refused.Request == "" {
		t.Errorf("%s %v", lines[1], err)
	}
}

func TestARequestThatFailsIsNamedAlikeInAnswerAndRecord(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	r := serve(t, guarded, func(doc *config.Document) {
		doc.Audit = &config.Audit{File: file, MaxSize: 1 << 20, Flush: config.Duration(time.Millisecond), OnFailure: "count"}
	})
	id := r.shown(t, nil).header.Get("X-Request-Id")
	if id == "" || !strings.Contains(recorded(t, file, 1)[0], `"request":"`+id+`"`) {
		t.Errorf("the answer names %q", id)
	}
}

// recorded waits for n events in an audit file.
func recorded(t *testing.T, file string, n int) []string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		raw, err := os.ReadFile(file)
		var events []string
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, `"outcome":`) && strings.HasSuffix(line, "\n") {
				events = append(events, line)
			}
		}
		if err == nil && len(events) >= n {
			return events
		}
		if time.Now().After(end) {
			t.Fatalf("%d events, want %d: %v", len(events), n, err)
		}
	}
}
