package artifact_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/artifact"
)

const (
	who      = `{"attemptId":"a","correlationId":"c","idempotencyKey":"k","logicalTaskId":"l","publicTaskId":"p","requestSha256":"r"}`
	input    = `{"a":1,"b":"<ü>"}`
	resultOf = `{"identities":` + who + `,"inputSha256":"INPUT","normalized":` + input + `,"schemaVersion":"penstock.neutral-result/1"}`
)

func expected() *artifact.Expected {
	return &artifact.Expected{
		PublicTask: "p", RequestDigest: "r", LogicalTask: "l", Attempt: "a", Correlation: "c", Key: "k", Input: durable.Sum([]byte(input)),
	}
}

func resolve(s string) string {
	return strings.ReplaceAll(s, "INPUT", durable.Sum([]byte(input)).String())
}

func manifestOf(result string) string {
	return resolve(`{"artifacts":["result.json"],"identities":` + who + `,"inputSha256":"INPUT","resultSha256":"` +
		durable.Sum([]byte(result)).String() + `","schemaVersion":"penstock.neutral-manifest/1"}`)
}

func TestArtifactsAreAcceptedAsTheyAreWrittenAndRefusedInEveryOtherWay(t *testing.T) {
	good := resolve(resultOf)
	foreign := strings.Replace(good, `"logicalTaskId":"l"`, `"logicalTaskId":"m"`, 1)
	loose := strings.Replace(good, `"normalized":{"a":1,`, `"normalized":{"a": 1,`, 1)
	other := strings.Replace(good, `{"a":1,`, `{"a":2,`, 1)
	for name, tc := range map[string]struct {
		result, manifest string
		want             artifact.Code
	}{
		"as written":                 {good, manifestOf(good), ""},
		"no manifest":                {good, "", artifact.Missing},
		"no result":                  {"", manifestOf(good), artifact.Missing},
		"truncated":                  {good[:len(good)/2], manifestOf(good), artifact.ResultInvalid},
		"truncated, and declared":    {good[:len(good)/2], manifestOf(good[:len(good)/2]), artifact.ResultInvalid},
		"empty":                      {" ", manifestOf(good), artifact.ResultInvalid},
		"two documents":              {good + good, manifestOf(good + good), artifact.ResultInvalid},
		"another's":                  {foreign, manifestOf(good), artifact.Mismatch},
		"another's, and declared":    {foreign, manifestOf(foreign), artifact.Mismatch},
		"not normalized":             {loose, manifestOf(loose), artifact.Mismatch},
		"another input":              {other, manifestOf(other), artifact.Mismatch},
		"not what is declared":       {good + "\n", manifestOf(good), artifact.Mismatch},
		"a member too many":          {strings.Replace(good, "{", `{"more":1,`, 1), manifestOf(good), artifact.ResultInvalid},
		"another schema":             {strings.Replace(good, "result/1", "result/2", 1), manifestOf(good), artifact.ResultInvalid},
		"manifest truncated":         {good, manifestOf(good)[:40], artifact.ManifestInvalid},
		"manifest of another schema": {good, strings.Replace(manifestOf(good), "manifest/1", "manifest/2", 1), artifact.ManifestInvalid},
		"manifest of more files":     {good, strings.Replace(manifestOf(good), `["result.json"]`, `["result.json","x"]`, 1), artifact.ManifestInvalid},
		"manifest of another":        {good, strings.Replace(manifestOf(good), `"k"`, `"j"`, 1), artifact.Mismatch},
		"too large":                  {good + strings.Repeat(" ", 64<<10), manifestOf(good), artifact.LimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"result.json": tc.result, "manifest.json": tc.manifest} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := artifact.Verify(dir, expected()); artifact.CodeOf(err) != tc.want || (err == nil) != (tc.want == "") {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

func TestWhatIsNoPlainFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := artifact.Verify(filepath.Join(dir, "none"), expected()); artifact.CodeOf(err) != artifact.Missing {
		t.Error(err)
	}
	good := resolve(resultOf)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("manifest.json", manifestOf(good))
	write("result.json", good)
	write("more.json", "{}")
	if err := artifact.Verify(dir, expected()); artifact.CodeOf(err) != artifact.UnexpectedObject {
		t.Error(err)
	}
	_ = os.Remove(filepath.Join(dir, "result.json"))
	if err := os.Symlink("more.json", filepath.Join(dir, "result.json")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	if err := artifact.Verify(dir, expected()); artifact.CodeOf(err) != artifact.UnexpectedObject {
		t.Error(err)
	}
}
