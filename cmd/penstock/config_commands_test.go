package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/config"
)

// runCommand executes one subcommand on its own and returns what it wrote.
func runCommand(t *testing.T, cmd *cobra.Command, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return out.String(), problems.String(), err
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestValidateSaysOkAndCounts(t *testing.T) {
	path := writeFile(t, "p.yaml", "upstreams: {a: {url: 'http://127.0.0.1:1/'}, b: {url: 'http://127.0.0.1:2/'}}")
	stdout, stderr, err := runCommand(t, newValidateCommand(), "--config", path)
	if err != nil || stderr != "" || stdout != path+": ok (2 upstreams, 1 server)\n" {
		t.Errorf("stdout %q, stderr %q, error %v", stdout, stderr, err)
	}
}

func TestValidatePrintsEveryProblemAndFails(t *testing.T) {
	path := writeFile(t, "p.yaml", "x: 1\nshutdown: 0s\nupstreams: {j: {durable: {}}}\n")
	stdout, stderr, err := runCommand(t, newValidateCommand(), "--config", path)
	want := path + ":1:1: x: unknown key\n" +
		path + ":2:11: shutdown: must be more than zero, not \"0s\"\n" +
		path + ":3:16: upstreams.j: url is missing\n" +
		path + ":3:26: upstreams.j.durable: pin is missing\n"
	if stderr != want || stdout != "" {
		t.Errorf("stdout %q, stderr:\n%s\nwant:\n%s", stdout, stderr, want)
	}
	if err == nil || err.Error() != path+": 4 problems" {
		t.Errorf("error: %v", err)
	}
}

func TestValidatePrintsWarningsAndSucceeds(t *testing.T) {
	path := writeFile(t, "p.yaml", "allowed_origins: ['*']\nupstreams: {a: {url: 'http://127.0.0.1:1/'}}")
	stdout, stderr, err := runCommand(t, newValidateCommand(), "--config", path)
	if err != nil || !strings.Contains(stdout, "ok (1 upstream, 1 server)") || !strings.HasPrefix(stderr, "warning: "+path+":1:19: allowed_origins[0]: ") {
		t.Errorf("stdout %q, stderr %q, error %v", stdout, stderr, err)
	}
}

func TestValidateOfNoFileTellsWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	_, _, err := runCommand(t, newValidateCommand())
	if err == nil || !strings.Contains(err.Error(), "penstock.yaml does not exist") || !strings.Contains(err.Error(), "penstock init") {
		t.Errorf("error: %v", err)
	}
}

func TestSchemaCommandPrintsTheSchema(t *testing.T) {
	stdout, _, err := runCommand(t, newSchemaCommand())
	if err != nil || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, "https://json-schema.org/draft/2020-12/schema") {
		t.Errorf("error %v, output %q", err, stdout)
	}
}

func TestInitWritesAStarterThatValidates(t *testing.T) {
	t.Chdir(t.TempDir())
	if stdout, _, err := runCommand(t, newInitCommand()); err != nil || !strings.HasPrefix(stdout, "wrote penstock.yaml") {
		t.Fatalf("stdout %q, error %v", stdout, err)
	}
	stdout, stderr, err := runCommand(t, newValidateCommand())
	if err != nil || stderr != "" || stdout != "penstock.yaml: ok (1 upstream, 1 server)\n" {
		t.Errorf("stdout %q, stderr %q, error %v", stdout, stderr, err)
	}
}

// What the starter offers in comments has to be right as well once it is uncommented.
func TestInitStarterHoldsNoWrongKeyInItsComments(t *testing.T) {
	setting := regexp.MustCompile(`(?m)^( *)#(\S|  )`)
	text := setting.ReplaceAllString(starterHead+starterUpstreams+starterTail, "$1$2")
	for _, key := range []string{"\nservers:", "\nauth:", "\npolicy:", "\naudit:", "\nobserve:", "\n    credentials:"} {
		if !strings.Contains(text, key) {
			t.Fatalf("%q is still a comment:\n%s", key, text)
		}
	}
	if _, err := config.Parse("starter", []byte(text), func(string) (string, bool) { return "x", true }); err != nil {
		t.Errorf("the starter with its comments is refused:\n%v\n%s", err, text)
	}
}

func TestInitNeverOverwrites(t *testing.T) {
	path := writeFile(t, "mine.yaml", "mine")
	if _, _, err := runCommand(t, newInitCommand(), path); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("error: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
		t.Errorf("the file is %q, %v", data, err)
	}
}

const clientFile = `{"other": 1, "mcpServers": {
  "github": {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer hunter2", "X-Team": "platform", "X-Api-Key": "hunter2", "mcp-session-id": "1", "X-Ref": "${input:x} ${HOME}"}},
  "my__server 1": {"url": "http://127.0.0.1:3001/mcp", "headers": {"authorization": "Basic hunter2"}},
  "my server 1": {"type": "streamable-http", "url": "https://h.example/mcp?key=hunter2"},
  "ref": {"url": "https://r.example/", "headers": {"Authorization": "Bearer ${REF_TOKEN}"}},
  "jobs": {"command": "npx", "args": ["-y", "server", "--api-key", "hunter2", "token=hunter2", "abcdefghijklmnop0123456789", "${input:ws}"], "env": {"SECRET": "hunter2", "LOG": "info"}, "cwd": "/srv"},
  "old": {"type": "sse", "url": "https://h.example/sse"},
  "line\nbreak: {x": {"command": "a\nb: c"},
  "user": {"url": "https://u:hunter2@h.example/"},
  "none": {}
}}`

func TestInitTakesOverAClientsFileWithoutItsSecrets(t *testing.T) {
	from := writeFile(t, "client.json", clientFile)
	path := filepath.Join(t.TempDir(), "p.yaml")
	stdout, stderr, err := runCommand(t, newInitCommand(), path, "--from", from)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data)+stdout+stderr, "hunter2") || strings.Contains(string(data), "0123456789") {
		t.Fatalf("a secret is copied:\n%s\n%s", data, stderr)
	}
	asked := map[string]bool{}
	doc, err := config.Parse(path, data, func(name string) (string, bool) {
		asked[name] = true
		if strings.HasSuffix(name, "_URL") {
			return "https://h.example/mcp?key=v", true
		}
		return "value-of-" + name, true
	})
	if err != nil {
		t.Fatalf("the document is refused:\n%v\n%s", err, data)
	}
	github := doc.Upstreams["github"]
	got := map[string]string{
		"url": github.URL, "bearer": github.Credentials.Bearer.Reveal(), "team": github.Headers["X-Team"].Reveal(),
		"key": github.Headers["X-Api-Key"].Reveal(), "ref": github.Headers["X-Ref"].Reveal(), "other": doc.Upstreams["ref"].Credentials.Bearer.Reveal(),
	}
	for name, want := range map[string]string{
		"url": "https://mcp.example.com/mcp", "bearer": "value-of-GITHUB_TOKEN", "team": "platform",
		"key": "value-of-GITHUB_X_API_KEY", "ref": "${input:x} value-of-HOME", "other": "value-of-REF_TOKEN",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if len(github.Headers) != 3 {
		t.Errorf("headers: %d", len(github.Headers))
	}
	if keys := strings.Join(doc.UpstreamKeys(), " "); keys != "github jobs line-break-x my-server-1 my_server-1 ref" {
		t.Errorf("keys: %s\n%s", keys, data)
	}
	if h := doc.Upstreams["my_server-1"].Credentials.Header; h == nil || h.Name != "Authorization" {
		t.Errorf("the Basic credentials are not taken over:\n%s", data)
	}
	for name := range asked {
		if name != "HOME" && name != "REF_TOKEN" && !strings.Contains(stderr, "variable "+name+" ") {
			t.Errorf("nobody is told to set %s:\n%s", name, stderr)
		}
	}
	for _, left := range []string{`"old" is not taken over`, `"none" is not taken over`, `"user" is not taken over`} {
		if !strings.Contains(stderr, left) {
			t.Errorf("not said: %s\n%s", left, stderr)
		}
	}
	jobs := doc.Upstreams["jobs"]
	command := []string{"npx", "-y", "server", "--api-key", "value-of-JOBS_API_KEY", "token=value-of-JOBS_TOKEN", "value-of-JOBS_ARGUMENT", "${input:ws}"}
	if diff := cmp.Diff(command, jobs.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if env := jobs.Env; len(env) != 2 || env["SECRET"].Reveal() != "value-of-JOBS_SECRET" || env["LOG"].Reveal() != "info" || jobs.Dir != "/srv" {
		t.Errorf("the child of jobs: %+v", jobs)
	}
}

func TestInitVariablesOfDifferentSecretsDiffer(t *testing.T) {
	got, err := importServers([]byte(`{"mcpServers": {"a.b": {"url": "https://h/", "headers": {"Authorization": "Bearer one"}}, "a-b": {"url": "https://h/", "headers": {"Authorization": "Bearer two"}}}}`))
	if err != nil || !strings.Contains(got.upstreams, "${A_B_TOKEN}") || !strings.Contains(got.upstreams, "${A_B_TOKEN_2}") {
		t.Errorf("%s, %v", got.upstreams, err)
	}
}

func TestInitFromCommandsAloneStillValidates(t *testing.T) {
	from := writeFile(t, "client.json", `{"mcpServers": {"jobs": {"command": "npx"}}}`)
	path := filepath.Join(t.TempDir(), "p.yaml")
	if _, _, err := runCommand(t, newInitCommand(), path, "--from", from); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err != nil {
		t.Errorf("the document is refused: %v", err)
	}
}

func TestInitRefusesAFileThatIsNotAClients(t *testing.T) {
	for _, text := range []string{"", "not json hunter2", "[]", `{"mcpServers": {}}`, `{"servers": {}}`, `{"mcpServers": {"a": {"url": 1}}}`, `{"mcpServers": {"a": {}, "a": {}}}`, `{"mcpServers": {"a": "hunter2"}}`} {
		from := writeFile(t, "client.json", text)
		path := filepath.Join(t.TempDir(), "p.yaml")
		_, _, err := runCommand(t, newInitCommand(), path, "--from", from)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error %v", text, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: a document is written all the same", text)
		}
	}
}

// Any client's file becomes a document that loads, with its variables set.
func FuzzImportServers(f *testing.F) {
	f.Add([]byte(clientFile))
	f.Add([]byte(`{"mcpServers": {"": {"url": "http://h/", "headers": {"": "\u0000", "X": "${", "x": "$${A}"}}}}`))
	f.Add([]byte(`{"mcpServers": {"_": {"url": "${U}"}, "é": {"url": "https://h:1/#x", "headers": {"Authorization": "Bearer"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := importServers(data)
		if err != nil {
			return
		}
		env := func(name string) (string, bool) { return "https://h.example/", true }
		if _, err := config.Parse("p", []byte(starterHead+got.upstreams+starterTail), env); err != nil {
			t.Errorf("%v\n%s", err, got.upstreams)
		}
	})
}
