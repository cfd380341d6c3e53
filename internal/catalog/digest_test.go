package catalog

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestTheDigestTellsWhatIsSeenFromWhatIsThere(t *testing.T) {
	f := newFleet()
	up := f.up("u", tools("a", "hidden"))
	s := serve(t, f, func(o *Options) { o.Expose[mcp.Tools] = Expose{Deny: []string{"*hidden*"}} })
	digest := func() (seen, whole [32]byte) {
		t.Helper()
		s.Invalidate("u", mcp.Tools, false)
		seen, whole, err := s.Digest(t.Context(), alice, nil, mcp.Tools)
		if err != nil {
			t.Fatal(err)
		}
		return seen, whole
	}
	seen, whole := digest()
	if again, all := digest(); again != seen || all != whole {
		t.Error("the same list has two digests")
	}
	f.set(func() {
		up.pages[mcp.Tools] = []string{result(mcp.Tools, "", tool("a"), tool("hidden"), tool("hidden2"))}
	})
	if again, all := digest(); again != seen || all == whole {
		t.Errorf("a hidden tool: seen is equal: %v, whole is equal: %v", again == seen, all == whole)
	}
	f.set(func() {
		up.pages[mcp.Tools] = []string{result(mcp.Tools, "", `{"name":"a","description":"new","inputSchema":{"type":"object"}}`)}
	})
	if again, _ := digest(); again == seen {
		t.Error("another description is not seen")
	}
}

func TestRecoveryOfAListIsTold(t *testing.T) {
	f := newFleet()
	up := f.up("u", tools("a"))
	told := make(chan string, 10)
	s := serve(t, f, func(o *Options) { o.Recovered = func(key string) { told <- key } })
	f.set(func() { up.err = errors.New("broken") })
	if _, _, err := s.Digest(t.Context(), alice, nil, mcp.Tools); err == nil {
		t.Error("nothing can be listed, and there is a digest")
	}
	f.set(func() { up.err = nil })
	s.Invalidate("u", mcp.Tools, false)
	deadline := time.After(10 * time.Second)
	for {
		select {
		case key := <-told:
			if key != "u" {
				t.Errorf("told of %q", key)
			}
			return
		case <-deadline:
			t.Fatal("nobody is told")
		case <-time.After(50 * time.Millisecond):
			_, _, _ = s.Digest(t.Context(), alice, nil, mcp.Tools) // somebody keeps asking
		}
	}
}
