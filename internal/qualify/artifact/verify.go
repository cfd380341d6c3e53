package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"

	"github.com/penstock-mcp/penstock/internal/durable"
)

const (
	resultFile   = "result.json"
	manifestFile = "manifest.json"

	resultSchema   = "penstock.neutral-result/1"
	manifestSchema = "penstock.neutral-manifest/1"

	maxTotal = 64 << 10
)

// Verify judges the files of a folder. A nil error says that there are exactly
// the two that there should be, that they belong to each other and to the task
// that is expected, and that what was normalized is the input. Any other error
// is a *Refusal.
func Verify(folder string, want *Expected) error {
	dir, err := os.OpenRoot(folder)
	if err != nil {
		return refuse(Missing, "the folder: %v", err)
	}
	defer dir.Close()
	manifest, err := read(dir, manifestFile)
	if err != nil {
		return err
	}
	result, err := read(dir, resultFile)
	if err != nil {
		return err
	}
	if len(manifest)+len(result) > maxTotal {
		return refuse(LimitExceeded, "more than %d bytes", maxTotal)
	}
	if err := onlyThese(folder); err != nil {
		return err
	}
	declared, err := checkManifest(manifest, want)
	if err != nil {
		return err
	}
	if err := checkResult(result, want); err != nil {
		return err
	}
	if got := durable.Sum(result).String(); got != declared {
		return refuse(Mismatch, "%s is %s, and the manifest says %s", resultFile, got, declared)
	}
	return nil
}

// read reads a plain file, and no more of it than there may be.
func read(dir *os.Root, name string) ([]byte, error) {
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuse(Missing, "%s", name)
	case err != nil:
		return nil, refuse(Missing, "%s: %v", name, err)
	case !info.Mode().IsRegular():
		return nil, refuse(UnexpectedObject, "%s is no plain file", name)
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, refuse(Missing, "%s: %v", name, err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxTotal+1))
	if err != nil {
		return nil, refuse(Missing, "%s: %v", name, err)
	}
	if len(content) > maxTotal {
		return nil, refuse(LimitExceeded, "%s has more than %d bytes", name, maxTotal)
	}
	return content, nil
}

// onlyThese refuses what nobody declared.
func onlyThese(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return refuse(Missing, "the folder: %v", err)
	}
	for _, e := range entries {
		if e.Name() != resultFile && e.Name() != manifestFile {
			return refuse(UnexpectedObject, "%s", e.Name())
		}
	}
	return nil
}

// checkManifest returns the digest of the result that a manifest declares.
func checkManifest(raw []byte, want *Expected) (string, error) {
	var m struct {
		Schema       string            `json:"schemaVersion"`
		InputSHA256  string            `json:"inputSha256"`
		Identities   map[string]string `json:"identities"`
		ResultSHA256 string            `json:"resultSha256"`
		Artifacts    []string          `json:"artifacts"`
	}
	if err := strict(raw, &m); err != nil {
		return "", refuse(ManifestInvalid, "%v", err)
	}
	switch {
	case m.Schema != manifestSchema:
		return "", refuse(ManifestInvalid, "the schema is %q", m.Schema)
	case len(m.Artifacts) != 1 || m.Artifacts[0] != resultFile:
		return "", refuse(ManifestInvalid, "the artifacts are %q", m.Artifacts)
	}
	return m.ResultSHA256, belongs(manifestFile, m.Identities, m.InputSHA256, want)
}

func checkResult(raw []byte, want *Expected) error {
	var r struct {
		Schema      string            `json:"schemaVersion"`
		InputSHA256 string            `json:"inputSha256"`
		Identities  map[string]string `json:"identities"`
		Normalized  json.RawMessage   `json:"normalized"`
	}
	if err := strict(raw, &r); err != nil {
		return refuse(ResultInvalid, "%v", err)
	}
	if r.Schema != resultSchema {
		return refuse(ResultInvalid, "the schema is %q", r.Schema)
	}
	if err := belongs(resultFile, r.Identities, r.InputSHA256, want); err != nil {
		return err
	}
	// The bytes themselves: what is normalized in another way has another digest.
	if got := durable.Sum(r.Normalized); got != want.Input {
		return refuse(Mismatch, "what is normalized is %s, and the input %s", got, want.Input)
	}
	return nil
}

func belongs(file string, who map[string]string, input string, want *Expected) error {
	if !maps.Equal(who, want.identities()) {
		return refuse(Mismatch, "the identities of %s are those of another task", file)
	}
	if input != want.Input.String() {
		return refuse(Mismatch, "the input of %s is another one", file)
	}
	return nil
}

// strict decodes exactly one document without unknown members.
func strict(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the document")
	}
	return nil
}
