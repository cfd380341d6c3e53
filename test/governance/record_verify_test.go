package governance_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
)

func contents(t testing.TB, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestAuditVerifyNamesTheLineOfWhatWasDoneToTheRecord(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "audit.jsonl")
	m := newMill(t, false)
	h := build(t, over(m, fmt.Sprintf("audit: {file: %q, flush: 1ms}", file)))
	h.known("")
	for range 20 {
		h.do(&query{Params: echo("it")})
	}
	h.close()
	if ok, said := verify(t, file); !ok {
		t.Fatalf("untouched: %s", said)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(contents(t, file), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	const at = 7 // counted from 1
	for name, c := range map[string]struct {
		change func(lines []string) []string
		line   int
		says   string
	}{
		"changed": {func(l []string) []string {
			l[at-1] = strings.Replace(l[at-1], `"outcome":"ok"`, `"outcome":"no"`, 1)
			return l
		}, at, "changed"},
		"removed":   {func(l []string) []string { return slices.Delete(l, at-1, at) }, at, "missing"},
		"reordered": {func(l []string) []string { l[at-1], l[at] = l[at], l[at-1]; return l }, at + 1, "out of order"},
		"torn": {func(l []string) []string {
			l = l[:at]
			l[at-1] = l[at-1][:40]
			return l
		}, at, "not a whole record"},
		"torn in the middle": {func(l []string) []string { l[at-1] = l[at-1][:40] + "\n"; return l }, at, "not a whole record"},
		"repeated":           {func(l []string) []string { return slices.Insert(l, at, l[at-1]) }, at + 1, "repeated"},
		"without its header": {func(l []string) []string { return l[1:] }, 1, "header"},
	} {
		bad := filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+".jsonl")
		if err := os.WriteFile(bad, []byte(strings.Join(c.change(slices.Clone(lines)), "")), 0o600); err != nil {
			t.Fatal(err)
		}
		ok, said := verify(t, bad)
		found := false
		for line := range strings.Lines(said) {
			found = found || strings.HasPrefix(line, fmt.Sprintf("%s:%d: ", bad, c.line)) && strings.Contains(line, c.says)
		}
		if ok || !found {
			t.Errorf("%s: nothing says %q of line %d: %s", name, c.says, c.line, said)
		}
	}
	// What was cut off cleanly at the end shows only against the hash that was kept elsewhere.
	cut := filepath.Join(folder, "cut.jsonl")
	if err := os.WriteFile(cut, []byte(strings.Join(lines[:at], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	last := lines[len(lines)-1]
	hash := last[strings.LastIndex(last, `"hash":"`)+len(`"hash":"`):]
	hash = hash[:strings.IndexByte(hash, '"')]
	if ok, said := verify(t, file, "--expect", hash); !ok {
		t.Errorf("the whole record with its own last hash: %s", said)
	}
	if ok, said := verify(t, cut, "--expect", hash); ok {
		t.Errorf("a record that was cut: %s", said)
	}
}

func TestARecordThatIsRotatedUnderLoadIsOneChain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "audit.jsonl")
	m := newMill(t, false)
	h := build(t, over(m, fmt.Sprintf("audit: {file: %q, flush: 5ms, max_size: 16KiB}", file)))
	h.known("")
	stop := make(chan struct{})
	var c tally
	turns := load(t, stop, func(worker, turn int) {
		c.note("", h.do(&query{Params: echo(fmt.Sprintf("w%d-%d.", worker, turn))}))
	})
	wait(t, "rotations", 30*time.Second, func() bool { return h.counts().sum("penstock_audit_rotations_total") >= 5 })
	close(stop)
	total := int(turns())
	if served, _ := c.settle(t); served != total {
		t.Errorf("%d of %d were served", served, total)
	}
	h.close()
	n := h.counts()
	files, err := filepath.Glob(file + ".*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	files = append(files, file)
	ok, said := verify(t, files...)
	if want := fmt.Sprintf("%d files, 1 run, %d events", n.sum("penstock_audit_rotations_total")+1, n.sum("penstock_requests_total")); !ok || !strings.Contains(said, want) {
		t.Errorf("audit verify: %s, want %s", said, want)
	}
	if ok, said := verify(t, slices.Delete(slices.Clone(files), 2, 3)...); ok {
		t.Errorf("without the third file: %s", said)
	}
}

// What was served before anything ran is recorded all the same.
func TestARecordIsWrittenWhereTheGatewayServedAndNeverRan(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	gw, err := penstock.New(parsed(t, over(newMill(t, false), fmt.Sprintf("audit: {file: %q}", file))))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(gw.Handler())
	h := &house{t: t, gw: gw, front: front, http: front.Client()}
	h.do(&query{Method: "ping"})
	front.Close()
	end, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := gw.Close(end); err != nil {
		t.Fatal(err)
	}
	if ok, said := verify(t, file); !ok || !strings.Contains(said, "1 event") {
		t.Errorf("%s", said)
	}
}
