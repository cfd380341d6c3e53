package docs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/gateway"
)

// running is a Penstock of a document whose upstreams, keys and issuers are the test's.
type running struct {
	t         testing.TB
	doc       *config.Document
	upstreams map[string]*upstream
	origin    string
	gw        *penstock.Gateway
	client    *http.Client

	authorizations []string // sent instead of one
}

// parsed is a document of the documentation, as it stands there.
func parsed(t testing.TB, text string) *config.Document {
	t.Helper()
	doc, err := config.Parse("penstock.yaml", []byte(text), func(string) (string, bool) { return "a-value-of-the-environment-of-some-length", true })
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return doc
}

// keyOf is the API key that a document's entry of that name accepts in a test.
func keyOf(name string) string { return "psk_test-" + name }

// serve runs a document. The upstreams offer what its comments say.
func serve(t testing.TB, text string, change func(*config.Document)) *running {
	t.Helper()
	r := &running{t: t, upstreams: map[string]*upstream{}}
	r.doc = r.prepared(text)
	if change != nil {
		change(r.doc)
	}
	gw, err := penstock.New(r.doc, penstock.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := gw.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	front := httptest.NewServer(gw.Handler())
	transport := &http.Transport{}
	r.gw, r.origin, r.client = gw, front.URL, &http.Client{Transport: transport, Timeout: 30 * time.Second}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		front.CloseClientConnections()
		front.Close()
		end, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		cancel()
		_ = gw.Close(end)
		wg.Wait()
	})
	return r
}

// prepared is a document whose upstreams, keys and issuers are the test's.
func (r *running) prepared(text string) *config.Document {
	r.t.Helper()
	doc := parsed(r.t, text)
	all := offersOf(r.t, text)
	for key, u := range doc.Upstreams {
		if all[key] == nil {
			r.t.Fatalf("no comment tells what %s offers:\n%s", key, text)
		}
		if r.upstreams[key] == nil {
			r.upstreams[key] = newUpstream(r.t, all[key])
		}
		u.URL, u.Era = r.upstreams[key].URL, "modern"
	}
	if a := doc.Auth; a != nil {
		for i := range a.APIKeys {
			sum := sha256.Sum256([]byte(keyOf(a.APIKeys[i].Name)))
			a.APIKeys[i].Hash = "sha256:" + hex.EncodeToString(sum[:])
		}
		for i := range a.JWT {
			a.JWT[i].JWKSURL = keySet(r.t)
		}
	}
	return doc
}

// reload has another document served.
func (r *running) reload(text string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r.doc = r.prepared(text)
	if err := r.gw.Reload(ctx, r.doc); err != nil {
		r.t.Fatalf("reload: %v", err)
	}
}

// credential is the value of Authorization for somebody: the API key of that subject, or a token with these claims.
func (r *running) credential(subject string, claims map[string]any) string {
	r.t.Helper()
	if r.doc.Auth == nil {
		return ""
	}
	if claims != nil {
		is := &r.doc.Auth.JWT[0]
		return "Bearer " + token(r.t, is.Issuer, is.Audience, subject, claims)
	}
	for i := range r.doc.Auth.APIKeys {
		if k := &r.doc.Auth.APIKeys[i]; k.Subject == subject {
			return "Bearer " + keyOf(k.Name)
		}
	}
	return ""
}

// reply is an answer as it came.
type reply struct {
	status int
	header http.Header
	body   string
	Error  struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Result struct {
		Tools     []struct{ Name string }
		Resources []struct{ URI string }
		Meta      map[string]any `json:"_meta"`
	} `json:"result"`
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernVersion + `","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// send sends one modern request to a virtual server. params are members of its params, or "".
func (r *running) send(server, authorization, method, name, params string) *reply {
	r.t.Helper()
	if params != "" {
		params += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, meta)
	req, err := http.NewRequest(http.MethodPost, r.origin+r.doc.Servers[server].Path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", modernVersion)
	req.Header.Set("Mcp-Method", method)
	if name != "" {
		req.Header.Set("Mcp-Name", name)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	for _, a := range r.authorizations {
		req.Header.Add("Authorization", a)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	out := &reply{status: resp.StatusCode, header: resp.Header, body: string(raw)}
	text := out.body
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range strings.Lines(out.body) {
			if data, is := strings.CutPrefix(line, "data:"); is && strings.TrimSpace(data) != "" {
				text = data
			}
		}
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		r.t.Fatalf("%v: %s", err, out.body)
	}
	return out
}

// call calls a tool, or reads a resource.
func (r *running) call(server, authorization, name, arguments string) *reply {
	r.t.Helper()
	id, err := json.Marshal(name)
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.Contains(name, "://") {
		return r.send(server, authorization, "resources/read", name, `"uri":`+string(id))
	}
	params := `"name":` + string(id)
	if arguments != "" {
		params += `,"arguments":` + arguments
	}
	return r.send(server, authorization, "tools/call", name, params)
}

// listed is every tool and resource that somebody sees.
func (r *running) listed(server, authorization string) map[string]bool {
	r.t.Helper()
	out := map[string]bool{}
	for _, t := range r.send(server, authorization, "tools/list", "", "").Result.Tools {
		out[t.Name] = true
	}
	for _, t := range r.send(server, authorization, "resources/list", "", "").Result.Resources {
		out[t.URI] = true
	}
	return out
}

// explain asks the admin socket's handler.
func (r *running) explain(q url.Values) []gateway.Explained {
	r.t.Helper()
	rec := httptest.NewRecorder()
	r.gw.Admin().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/explain?"+q.Encode(), nil))
	var out []gateway.Explained
	if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil {
		r.t.Fatalf("%v: %s", err, rec.Body)
	}
	return out
}
