package governance_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// volume is a file system of its own, so that it can be full.
func volume(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	return folder
}

// fill takes all the room of a volume, until the file is removed.
func fill(t *testing.T, folder string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(folder, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for size := len(block); size > 0; {
		switch _, err := f.Write(block[:size]); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 4 // the last pages, too
		case err != nil:
			t.Fatal(err)
		}
	}
	return ballast
}

var lostRecord = regexp.MustCompile(`"lost":(\d+)`)

// heavy is a call of echo whose arguments, where they are recorded, soon fill what may wait for the disk.
func heavy(text, pad string) *query {
	return &query{Params: tool("echo", `{"text":"`+text+`","pad":"`+pad+`"}`)}
}

func TestAnAuditDiskThatFillsInTheMiddleOfLoadDoesWhatItsDocumentDeclares(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("p", 50<<10)
	beside, ended := together()
	defer ended()
	beside(t, "count", func(t *testing.T) {
		folder, m := volume(t), newMill(t, false)
		file := filepath.Join(folder, "audit.jsonl")
		h := build(t, over(m, fmt.Sprintf("audit: {file: %q, arguments: on, flush: 10ms}", file)))
		h.known("")
		var c tally
		stop := make(chan struct{})
		turns := load(t, stop, func(worker, turn int) {
			text := fmt.Sprintf("w%d-%d.", worker, turn)
			c.note(text, h.do(heavy(text, pad)))
		})
		time.Sleep(200 * time.Millisecond)
		ballast := fill(t, folder)
		wait(t, "losses", 40*time.Second, func() bool { return h.counts().sum("penstock_audit_records_lost_total") > 0 })
		if n := h.counts(); n["penstock_audit_failing"] != 1 || n["penstock_audit_write_failures_total"] == 0 {
			t.Error("the metrics do not tell that the record fails")
		}
		close(stop)
		total := int(turns())
		if served, _ := c.settle(t); served != total {
			t.Errorf("of %d calls %d were served, though the record is only counted: %v", total, served, c.refused)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		wait(t, "recovery", 15*time.Second, func() bool {
			n := h.counts()
			return n["penstock_audit_failing"] == 0 && n["penstock_audit_queued_bytes"] == 0
		})
		if r := h.do(&query{Params: echo("after")}); !r.served() {
			t.Errorf("after: %v", r)
		}
		wait(t, "the last record", 10*time.Second, func() bool {
			n := h.counts()
			return n.sum("penstock_audit_records_written_total")+n.sum("penstock_audit_records_lost_total") == n.sum("penstock_requests_total")
		})
		lost, written := h.counts().sum("penstock_audit_records_lost_total"), h.counts().sum("penstock_audit_records_written_total")
		h.close()
		// The record itself tells how many are missing, and where: that is no damage.
		told := 0
		for _, n := range lostRecord.FindAllStringSubmatch(contents(t, file), -1) {
			each, _ := strconv.Atoi(n[1])
			told += each
		}
		all, _ := events(t, file, 0)
		if told != lost || lost == 0 || len(all) != written {
			t.Errorf("%d lost and %d written, by the counters; the file tells of %d lost and has %d events", lost, written, told, len(all))
		}
		ok, said := verify(t, file)
		if !ok || !strings.Contains(said, "lost here, by the writer's own account") || !strings.Contains(said, fmt.Sprintf("1 file, 1 run, %d events", written)) {
			t.Errorf("audit verify: %s", said)
		}
	})
	beside(t, "refuse", func(t *testing.T) {
		folder, m := volume(t), newMill(t, false)
		file := filepath.Join(folder, "audit.jsonl")
		h := build(t, over(m, fmt.Sprintf("audit: {file: %q, arguments: on, flush: 10ms, on_failure: refuse}", file)))
		h.known("")
		var c tally
		var refusals atomic.Int64
		stop := make(chan struct{})
		turns := load(t, stop, func(worker, turn int) {
			text := fmt.Sprintf("w%d-%d.", worker, turn)
			r := h.do(heavy(text, pad))
			c.note(text, r)
			if r.Code == auditUnavailable {
				if refusals.Add(1); r.Status != 503 || r.Header.Get("Retry-After") == "" {
					t.Errorf("the refusal is %v", r)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
		time.Sleep(200 * time.Millisecond)
		ballast := fill(t, folder)
		wait(t, "refusals", 20*time.Second, func() bool { return refusals.Load() > workers })
		session, opened := h.open("2025-11-25", "{}", "")
		if session != "" || opened.Status != 503 || opened.Code != auditUnavailable {
			t.Errorf("initialize while nothing can be recorded: %v", opened)
		}
		// Lists, which no upstream has to be asked for, are not served either.
		if r := h.do(&query{Method: "tools/list"}); r.Status != 503 || r.Code != auditUnavailable {
			t.Errorf("a list while nothing can be recorded: %v", r)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		before := c.sofar()
		wait(t, "recovery", 15*time.Second, func() bool { return c.sofar() > before+workers })
		close(stop)
		total := int(turns())
		served, refused := c.settle(t)
		if served+refused != total || refused != int(refusals.Load()) {
			t.Errorf("%d calls: %d served, %d refused, %d of them for the record", total, served, refused, refusals.Load())
		}
		for text := range c.refused {
			if m.arrived(`"text":"`+text+`"`) != 0 {
				t.Errorf("%s was refused and sent", text)
			}
		}
		if n := h.counts().sum("penstock_requests_total", `code="audit_unavailable"`); n != refused+2 {
			t.Errorf("%d were refused, and the counter tells %d", refused+2, n)
		}
		all := h.counts().sum("penstock_requests_total")
		h.close()
		if lost := h.counts().sum("penstock_audit_records_lost_total"); lost != 0 {
			t.Errorf("%d records were lost, though nothing is served that cannot be recorded", lost)
		}
		ok, said := verify(t, file)
		if !ok || !strings.Contains(said, fmt.Sprintf("1 file, 1 run, %d events", all)) {
			t.Errorf("audit verify: %s, and there were %d requests", said, all)
		}
	})
}

// A device that is always full stands in where no file system can be mounted; it also shows what a process says at its end.
func TestAnAuditFileThatNeverTakesAnythingRefusesFromTheFirstFailure(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	full.Close()
	m := newMill(t, false)
	h := build(t, over(m, "audit: {file: /dev/full, on_failure: refuse, flush: 1ms}"))
	wait(t, "the refusal", 10*time.Second, func() bool { return h.do(&query{Params: echo("early")}).Code == auditUnavailable })
	seen := len(m.calls(""))
	for range 20 {
		if r := h.do(&query{Params: echo("never")}); r.Status != 503 || r.Code != auditUnavailable {
			t.Fatalf("%v", r)
		}
	}
	if m.arrived("never") != 0 || len(m.calls("")) != seen {
		t.Error("the upstream saw a call that cannot be recorded")
	}
	resp, err := h.http.Get(h.front.URL + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 {
		t.Errorf("/health: HTTP %d %s", resp.StatusCode, body)
	}
}
