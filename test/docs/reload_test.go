package docs_test

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/config"
)

const before = `
upstreams:
  up: # offers read, write
    url: http://127.0.0.1:1/
auth:
  api_keys:
    - {name: alice, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000001", subject: alice}
    - {name: bob, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000002", subject: bob}
policy:
  - {id: all, allow: {tools: ["*"]}}
rate: {per_principal: 3/h, burst: 3}
`

// listen opens subscriptions/listen and returns what is closed once it has ended.
func (r *running) listen(t *testing.T, authorization string) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	body := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.origin+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": authorization,
		"MCP-Protocol-Version": modernVersion, "Mcp-Method": "subscriptions/listen",
	} {
		req.Header.Set(name, value)
	}
	resp, err := (&http.Client{Transport: r.client.Transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data:") { // until the acknowledgement
	}
	if resp.StatusCode != http.StatusOK || !strings.Contains(lines.Text(), "acknowledged") {
		t.Fatalf("HTTP %d, %s", resp.StatusCode, lines.Text())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer resp.Body.Close()
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return ended
}

func ends(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Errorf("%s goes on", what)
	}
}

// What operations.md says of a reload.
func TestAReloadHoldsForTheNextRequest(t *testing.T) {
	t.Parallel()
	r := serve(t, before, nil)
	alice, bob := r.credential("alice", nil), r.credential("bob", nil)
	if got := r.call("default", alice, "up__write", "{}"); got.Error.Code != 0 {
		t.Fatal(got.body)
	}
	of := map[string]<-chan struct{}{"alice": r.listen(t, alice), "bob": r.listen(t, bob)} // each takes a request of the rate

	after := strings.Replace(before, `["*"]`, `["up__read"]`, 1)
	after = strings.Replace(after, "    - {name: bob", "    # {name: bob", 1)
	r.reload(after)
	if got := r.call("default", bob, "up__read", "{}"); got.status != http.StatusUnauthorized {
		t.Errorf("bob after the reload: %s", got.body)
	}
	if got := r.call("default", alice, "up__write", "{}"); got.Error.Code != notThere {
		t.Errorf("alice after the reload: %s", got.body)
	}
	if got := r.call("default", alice, "up__read", "{}"); got.Error.Code != -31005 || got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("what was counted of alice is forgotten: %s", got.body)
	}
	ends(t, of["bob"], "the stream of bob")
	select {
	case <-of["alice"]:
		t.Error("the stream of alice ended")
	default:
	}

	r.reload(strings.Replace(after, "3/h, burst: 3", "4/h, burst: 4", 1))
	if got := r.call("default", alice, "up__read", "{}"); got.Error.Code != 0 {
		t.Errorf("another rate does not begin full: %s", got.body)
	}
}

// What security.md says of the file of revoked credentials.
func TestRevokingEndsStreamsAndCalls(t *testing.T) {
	t.Parallel()
	revoked := filepath.Join(t.TempDir(), "revoked")
	if err := os.WriteFile(revoked, []byte("# nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := serve(t, strings.Replace(before, "3/h, burst: 3", "1000/s", 1), func(doc *config.Document) { doc.Auth.Revoked = revoked })
	alice, bob := r.credential("alice", nil), r.credential("bob", nil)
	stream := r.listen(t, bob)
	if err := os.WriteFile(revoked, []byte("bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ends(t, stream, "the stream of bob")
	if got := r.call("default", bob, "up__read", "{}"); got.status != http.StatusUnauthorized {
		t.Errorf("bob: %s", got.body)
	}
	if err := os.Remove(revoked); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if got := r.call("default", bob, "up__read", "{}"); got.status != http.StatusUnauthorized {
		t.Errorf("bob, when the file is gone: %s", got.body)
	}
	if got := r.call("default", alice, "up__read", "{}"); got.Error.Code != 0 {
		t.Errorf("alice: %s", got.body)
	}
}
