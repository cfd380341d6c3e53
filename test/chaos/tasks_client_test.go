//go:build linux

package chaos_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// callers are those who have tasks; eve never has any.
var callers = []string{"ann", "bob", "eve"}

func keyOf(who string) string { return "secret-of-" + who + "-0123456789abcdef" }

// taskDocument is a gateway for callers in front of one maker of each era. No id is
// looked for anywhere: what has no record is unknown.
func taskDocument(state string, modern, legacy *maker) string {
	var b strings.Builder
	b.WriteString("state: \"" + state + "\"\nadmin: off\n" + roomy + "\ntasks: {probe: off, max_per_principal: 1000000}\nauth:\n  api_keys:\n")
	for _, who := range callers {
		sum := sha256.Sum256([]byte(keyOf(who)))
		fmt.Fprintf(&b, "    - {name: %s, hash: \"sha256:%s\", subject: %s, scopes: [mcp]}\n", who, hex.EncodeToString(sum[:]), who)
	}
	b.WriteString("upstreams:\n" + modern.line("modern") + legacy.line("legacy"))
	return b.String()
}

// taskClient is a client of one caller that makes tasks and follows them, in the
// dialect of its era.
type taskClient struct {
	*client
	who string
}

// asTasker is a modern client of a caller.
func asTasker(t testing.TB, address, who string) *taskClient {
	c := newClient(t, address)
	c.key, c.tasks = keyOf(who), true
	return &taskClient{c, who}
}

// asLegacyTasker is one with a session.
func asLegacyTasker(t testing.TB, address, who string) *taskClient {
	t.Helper()
	c := asTasker(t, address, who)
	if a, err := c.initialize(); err != nil || a.Error != nil || c.session == "" {
		t.Fatalf("initialize: %v %v", a, err)
	}
	return c
}

func (c *taskClient) at(address string) *taskClient { return &taskClient{c.client.at(address), c.who} }

// kind is the era, as a key of what was seen: no dialect has words for the other's
// tasks.
func (c *taskClient) kind() string {
	if c.session == "" {
		return "modern"
	}
	return "legacy"
}

// mint calls a tool as a task and returns the id, or "" where there is none.
func (c *taskClient) mint(tool string) (id string, a *answer, err error) {
	name := c.kind() + "__" + tool
	params := fmt.Sprintf(`"name":%q,"arguments":{}`, name)
	if c.session != "" {
		params += `,"task":{"ttl":3600000}`
	}
	if a, err = c.ask("tools/call", name, params); err == nil && a.Result != nil {
		id = a.Result.TaskID + a.Result.Task.TaskID
	}
	return id, a, err
}

func (c *taskClient) poll(id string) (*answer, error) {
	return c.ask("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
}

// owns holds that the client can follow a task.
func (c *taskClient) owns(t testing.TB, id string) {
	t.Helper()
	a, err := c.poll(id)
	if err != nil || a.Result == nil || a.Result.TaskID != id {
		t.Errorf("%s at %s, %s: %s was seen, and a poll says %v %v", c.who, c.address, c.kind(), id, a, err)
	}
}

// lacks holds that to the client a task is one that never was.
func (c *taskClient) lacks(t testing.TB, id string) {
	t.Helper()
	if a, err := c.poll(id); err != nil || !a.unknown() {
		t.Errorf("%s, who has not %s, is told %v %v", c.who, id, a, err)
	}
}

// unknown reports whether the answer says that there is no such task.
func (a *answer) unknown() bool {
	return a.status == http.StatusOK && (a.code() == -32602 || a.code() == -32002) && a.Error.Message == "Task not found"
}

// sighting is an id that a client was given.
type sighting struct{ who, kind, id string }

// seen collects ids.
type seen struct {
	mu  sync.Mutex // guards all
	all []sighting
}

func (s *seen) add(c *taskClient, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, sighting{c.who, c.kind(), id})
}

func (s *seen) list() []sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sighting(nil), s.all...)
}

// any is one that a client may ask for, or "".
func (s *seen) any(c *taskClient) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, from := len(s.all), rand.Int(); n > 0; n-- {
		if one := s.all[(from%len(s.all)+n)%len(s.all)]; one.who == c.who && one.kind == c.kind() {
			return one.id
		}
	}
	return ""
}

// holders are a client of either era of each caller, who polls what it has seen.
type holders map[[2]string]*taskClient

func newHolders(t testing.TB, address string) holders {
	t.Helper()
	h := holders{}
	for _, who := range callers {
		h[[2]string{who, "modern"}] = asTasker(t, address, who)
		h[[2]string{who, "legacy"}] = asLegacyTasker(t, address, who)
	}
	return h
}

// resolve holds that a sighting leads to its task at an address.
func (h holders) resolve(t testing.TB, address string, s sighting) {
	t.Helper()
	h[[2]string{s.who, s.kind}].at(address).owns(t, s.id)
}
