package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServeSaysWhereItListens(t *testing.T) {
	dir := shortDir(t)
	p := run(t, dir, "serve", "--upstream", "library="+library(t), "--listen", "127.0.0.1:0")
	url := p.endpoint()
	if !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasSuffix(url, "/mcp") {
		t.Errorf("endpoint %s", url)
	}
	// A single --upstream is served passthrough.
	if c := ask(t, url, "tools/call", `{"name":"search_books","arguments":{"query":"gothic"}}`); c.err != nil || !strings.Contains(c.out, "Frankenstein") {
		t.Errorf("%+v", c)
	}
	if code, took := p.signal(syscall.SIGTERM); code != 0 || took > 5*time.Second {
		t.Errorf("SIGTERM: exit %d after %v\n%s", code, took, p.stderr())
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.sock*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if p.stdout() != "" {
		t.Errorf("stdout: %q", p.stdout())
	}
}

func TestServeSaysThatStateInMemoryIsNotKept(t *testing.T) {
	dir := shortDir(t)
	p := run(t, dir, "serve", "--upstream", "library="+library(t), "--listen", "127.0.0.1:0", "--state", "memory:", "--log-level", "error")
	p.endpoint()
	p.find(`^penstock: (state is kept in memory)`)
	if code, _ := p.signal(os.Interrupt); code != 0 {
		t.Errorf("exit %d\n%s", code, p.stderr())
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestServeFindsItsDocumentAndPrintsALinePerServer(t *testing.T) {
	dir := shortDir(t)
	document(t, dir, "listen: 127.0.0.1:0\nadmin: off\n"+yamlUpstreams("library", library(t), "workshop", workshop(t))+
		"servers:\n  default: {}\n  books: {upstreams: [library], naming: passthrough}\n")
	p := run(t, dir, "serve")
	p.find(`^penstock: listening on \S+/servers/books/mcp$`)
	p.find(`^penstock: listening on http://[^/]+/mcp$`)
	var lines []string
	for line := range strings.Lines(p.stderr()) {
		if at, ok := strings.CutPrefix(line, "penstock: listening on http://127.0.0.1:"); ok {
			_, path, _ := strings.Cut(strings.TrimSpace(at), "/")
			lines = append(lines, path)
		}
	}
	if len(lines) != 2 || strings.Contains(p.stderr(), "admin on") {
		t.Errorf("%v\n%s", lines, p.stderr())
	}
	base := strings.TrimSuffix(p.endpoint(), "/servers/books/mcp")
	base = strings.TrimSuffix(base, "/mcp")
	for path, tool := range map[string]string{"/mcp": "library__get_book", "/servers/books/mcp": "get_book"} {
		if c := ask(t, base+path, "tools/call", `{"name":"`+tool+`","arguments":{"id":"b7"}}`); c.err != nil || !strings.Contains(c.out, "Brontë") {
			t.Errorf("%s: %+v", path, c)
		}
	}
}

// held is an upstream whose tool waits until it is told to answer.
func held(t *testing.T) (url string, entered chan struct{}, release chan struct{}) {
	t.Helper()
	entered, release = make(chan struct{}, 1), make(chan struct{})
	return upstreamURL(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		result := `{"resultType":"complete","content":[]}`
		switch m.Method {
		case "server/discover":
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`
		case "tools/list":
			result = `{"resultType":"complete","tools":[{"name":"wait","inputSchema":{"type":"object"}}],"ttlMs":60000,"cacheScope":"public"}`
		case "tools/call":
			entered <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
	})), entered, release
}

func TestSIGTERMLetsACallInFlightFinish(t *testing.T) {
	up, entered, release := held(t)
	p := run(t, shortDir(t), "serve", "--upstream", "u="+up, "--listen", "127.0.0.1:0")
	url := p.endpoint()
	answer := make(chan called, 1)
	go func() { answer <- ask(t, url, "tools/call", `{"name":"wait"}`) }()
	<-entered
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			break // it takes no new connections
		}
		_ = c.Close()
		if time.Now().After(end) {
			t.Fatal("connections are still accepted while draining")
		}
	}
	select {
	case <-p.done:
		t.Fatal("exited with a call in flight")
	case c := <-answer:
		t.Fatalf("the call ended early: %+v", c)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if c := <-answer; c.err != nil || !strings.Contains(c.out, `"content"`) {
		t.Errorf("the call in flight: %+v", c)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d\n%s", code, p.stderr())
	}
}

func TestDrainingEndsWithinShutdown(t *testing.T) {
	up, entered, release := held(t)
	defer close(release)
	dir := shortDir(t)
	document(t, dir, "listen: 127.0.0.1:0\nshutdown: 300ms\n"+yamlUpstreams("u", up))
	p := run(t, dir, "serve")
	url := p.endpoint()
	answer := make(chan called, 1)
	go func() { answer <- ask(t, url, "tools/call", `{"name":"u__wait"}`) }()
	<-entered
	code, took := p.signal(syscall.SIGTERM)
	if code != 0 || took < 300*time.Millisecond || took > 4*time.Second {
		t.Errorf("exit %d after %v\n%s", code, took, p.stderr())
	}
	if c := <-answer; c.err == nil {
		t.Errorf("the cut call: %+v", c)
	}
}

func TestExitCodes(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	dir := shortDir(t)
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("nonsense: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := "u=http://127.0.0.1:1/mcp"
	for _, c := range []struct {
		args []string
		code int
		says string // on stderr
	}{
		{[]string{"version"}, 0, ""},
		{[]string{"--help"}, 0, ""},
		{[]string{"serve", "--help"}, 0, ""},
		{[]string{"schema"}, 0, ""},
		{[]string{"frobnicate"}, 2, "frobnicate"},
		{[]string{"--bogus"}, 2, "bogus"},
		{[]string{"version", "more"}, 2, ""},
		{[]string{"serve"}, 2, "--upstream"},
		{[]string{"serve", "more"}, 2, ""},
		{[]string{"serve", "--bogus"}, 2, "bogus"},
		{[]string{"serve", "--upstream", up, "--log-level", "loud"}, 2, "loud"},
		{[]string{"serve", "--upstream", up, "--log-format", "xml"}, 2, "xml"},
		{[]string{"explain"}, 2, "NAME"},
		{[]string{"explain", "a", "b"}, 2, "NAME"},
		{[]string{"explain", "a"}, 2, "--admin"},
		{[]string{"explain", "a", "--admin", "tcp:1"}, 2, "unix:"},
		{[]string{"call"}, 2, ""},
		{[]string{"serve", "--config", filepath.Join(dir, "none.yaml")}, 1, "none.yaml"},
		{[]string{"serve", "--config", bad}, 1, "bad.yaml:1:1: nonsense"},
		{[]string{"validate", "--config", bad}, 1, "nonsense"},
		{[]string{"serve", "--upstream", up, "--listen", busy.Addr().String()}, 1, busy.Addr().String()},
		{[]string{"serve", "--upstream", up, "--listen", "0.0.0.0:0"}, 1, "0.0.0.0:0"},
		{[]string{"serve", "--upstream", up, "--listen", "[::]:0"}, 1, "[::]:0"},
		{[]string{"serve", "--upstream", up, "--listen", ":0"}, 1, "--listen"},
		{[]string{"demo", "--listen", "0.0.0.0:0"}, 1, "0.0.0.0:0"},
		{[]string{"serve", "--upstream", up, "--state", "mysql:x"}, 1, "sqlite:PATH"},
		{[]string{"explain", "a", "--admin", "unix:" + filepath.Join(dir, "none.sock")}, 1, "is it running"},
		{[]string{"call", "http://127.0.0.1:1/mcp", "tools/list"}, 1, ""},
	} {
		code, out, problems := once(t, dir, c.args...)
		if code != c.code || !strings.Contains(problems, c.says) {
			t.Errorf("penstock %s: exit %d, want %d\n%s%s", strings.Join(c.args, " "), code, c.code, out, problems)
		}
		if code != 0 && !strings.Contains(problems, "penstock: ") {
			t.Errorf("penstock %s: no message on stderr: %q", strings.Join(c.args, " "), problems)
		}
		if (code == 0) != (out != "") {
			t.Errorf("penstock %s: exit %d with %q on stdout", strings.Join(c.args, " "), code, out)
		}
	}
}

func TestVersionIsOneLine(t *testing.T) {
	_, out, problems := once(t, shortDir(t), "version")
	if fields := strings.Fields(out); len(fields) != 2 || fields[0] != "penstock" || strings.Count(out, "\n") != 1 || problems != "" {
		t.Errorf("%q %q", out, problems)
	}
}

// certificate writes a key pair for 127.0.0.1 that only itself vouches for.
func certificate(t *testing.T, dir string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "penstock test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	pool = x509.NewCertPool()
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool.AppendCertsFromPEM(certPEM)
	for path, b := range map[string][]byte{cert: certPEM, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, pool
}

func TestServeWithTLS(t *testing.T) {
	dir := shortDir(t)
	cert, key, pool := certificate(t, dir)
	path := document(t, dir, "listen: 127.0.0.1:0\nadmin: off\ntls: {cert: "+cert+", key: "+key+"}\n"+yamlUpstreams("library", library(t)))
	p := run(t, dir, "serve")
	url := p.endpoint()
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("endpoint %s", url)
	}
	base := strings.TrimSuffix(url, "/mcp")
	var protocols []string
	for _, h2 := range []bool{false, true} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}
		resp, err := (&http.Client{Transport: tr}).Get(base + "/health")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		tr.CloseIdleConnections()
		protocols = append(protocols, resp.Proto)
	}
	if d := cmp.Diff([]string{"HTTP/1.1", "HTTP/2.0"}, protocols); d != "" {
		t.Error(d)
	}
	if resp, err := http.Get(strings.Replace(base, "https:", "http:", 1) + "/health"); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("cleartext is served on the TLS address")
		}
	}
	if code, _ := p.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d\n%s", code, p.stderr())
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if code, _, problems := once(t, dir, "serve", "--config", path); code != 1 || !strings.Contains(problems, "k.pem") {
		t.Errorf("without its key: exit %d, %s", code, problems)
	}
}

func TestDetailsAreOnObserveAlone(t *testing.T) {
	dir := shortDir(t)
	document(t, dir, "listen: 127.0.0.1:0\nadmin: off\nobserve: {listen: 127.0.0.1:0}\n"+yamlUpstreams("gone", "http://127.0.0.1:1/mcp", "library", library(t)))
	p := run(t, dir, "serve", "--log-level", "error")
	base := strings.TrimSuffix(p.endpoint(), "/mcp")
	observe := p.find(`^penstock: observe on (http://\S+/ready)$`)
	var status struct {
		Ready     bool
		Upstreams []struct {
			Key, URL, State, Era, Breaker string
			LastError                     string `json:"last_error"`
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		code, body := get(t, observe)
		if err := json.Unmarshal([]byte(body), &status); err != nil || code != 200 {
			t.Fatalf("HTTP %d %s: %v", code, body, err)
		}
		if len(status.Upstreams) == 2 && status.Upstreams[0].State == "down" && status.Upstreams[1].State == "up" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%s", body)
		}
	}
	gone, lib := status.Upstreams[0], status.Upstreams[1]
	if gone.Key != "gone" || gone.LastError == "" || lib.Key != "library" || lib.Era != "modern" || lib.Breaker != "closed" || lib.LastError != "" || !status.Ready {
		t.Errorf("%+v", status)
	}
	if code, body := get(t, base+"/ready?details"); code != 200 || strings.Contains(body, "library") {
		t.Errorf("clients see: HTTP %d %s", code, body)
	}
	if code, _ := get(t, strings.TrimSuffix(observe, "/ready")+"/health"); code != 200 {
		t.Errorf("health on observe: HTTP %d", code)
	}
	if code, _ := get(t, strings.TrimSuffix(observe, "/ready")+"/mcp"); code != 404 {
		t.Errorf("the endpoint on observe: HTTP %d", code)
	}
}

func TestSIGHUPTakesAChangedDocumentOver(t *testing.T) {
	dir := shortDir(t)
	lib, work := library(t), workshop(t)
	head := "listen: 127.0.0.1:0\nadmin: off\n"
	document(t, dir, head+yamlUpstreams("library", lib))
	p := run(t, dir, "serve")
	url := p.endpoint()
	lists := func() string { return ask(t, url, "tools/list").out }
	if out := lists(); !strings.Contains(out, "library__") || strings.Contains(out, "workshop__") {
		t.Fatalf("%s", out)
	}
	document(t, dir, head+yamlUpstreams("library", lib, "workshop", work))
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); !strings.Contains(lists(), "workshop__"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not taken over:\n%s", p.stderr())
		}
	}
	document(t, dir, "nonsense: 1\n")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.find(`(nonsense)`)
	if out := lists(); !strings.Contains(out, "library__") || !strings.Contains(out, "workshop__") {
		t.Errorf("a document that does not validate changed something: %s", out)
	}
	if code, _ := p.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d\n%s", code, p.stderr())
	}
}
