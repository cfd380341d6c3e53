package neutral

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/durable"
)

// result is the file that holds what the work came to.
type result struct {
	Schema      string         `json:"schemaVersion"`
	InputSHA256 string         `json:"inputSha256"`
	Identities  Identities     `json:"identities"`
	Normalized  jsontext.Value `json:"normalized"`
}

// manifest is the file that says which files there are.
type manifest struct {
	Schema       string     `json:"schemaVersion"`
	InputSHA256  string     `json:"inputSha256"`
	Identities   Identities `json:"identities"`
	ResultSHA256 string     `json:"resultSha256"`
	Artifacts    []string   `json:"artifacts"`
}

// Work is the whole worker: it reads its assignment from the environment, does
// it, and returns. It gives up when parent ends, which is the provider's end of
// its standard input.
func Work(env func(string) string, parent io.Reader) error {
	a, err := readAssignment(env)
	if err != nil {
		return err
	}
	if err := Record(a.Root, WorkerStart, a.Task); err != nil {
		return err
	}
	normalized, err := a.normalize()
	if err != nil {
		return err
	}
	dir, err := a.place()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := pause(a.Delay, parent); err != nil {
		return err
	}
	if err := a.write(dir, normalized); err != nil {
		return err
	}
	return Record(a.Root, WorkerEffect, a.Task)
}

// normalize is the canonical form of the input.
func (a *Assignment) normalize() (jsontext.Value, error) {
	if err := checkInput(a.Input); err != nil {
		return nil, err
	}
	return durable.Canonical(a.Input)
}

// checkInput tells whether there is an object of a size that a worker takes.
func checkInput(input jsontext.Value) error {
	switch {
	case len(input) > MaxInput:
		return fmt.Errorf("an input has at most %d bytes", MaxInput)
	case !input.IsValid() || input.Kind() != '{':
		return errors.New("an input is a JSON object")
	}
	return nil
}

var errAbandoned = errors.New("the provider has ended")

// pause waits, and ends early with an error when parent does. The reading ends
// with the process: there is one in the life of a worker.
func pause(d time.Duration, parent io.Reader) error {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, parent) // that it ends is all there is to know
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-gone:
		return errAbandoned
	case <-t.C:
		return nil
	}
}

// write makes both files, or neither where they are too large together.
func (a *Assignment) write(dir *os.Root, normalized jsontext.Value) error {
	who := a.Identities
	if a.Alter {
		who.LogicalTask += "-altered"
	}
	digest := durable.Sum(normalized).String()
	r, err := canonical(result{Schema: ResultSchema, InputSHA256: digest, Identities: who, Normalized: normalized})
	if err != nil {
		return err
	}
	m, err := canonical(manifest{
		Schema: ManifestSchema, InputSHA256: digest, Identities: who,
		ResultSHA256: durable.Sum(r).String(), Artifacts: []string{ResultFile},
	})
	if err != nil {
		return err
	}
	if len(r)+len(m) > MaxArtifacts {
		return fmt.Errorf("the artifacts would have more than %d bytes", MaxArtifacts)
	}
	if err := create(dir, ResultFile, r); err != nil {
		return err
	}
	return create(dir, ManifestFile, m)
}

func canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return durable.Canonical(raw)
}

// create writes a file that was not there.
func create(dir *os.Root, name string, content []byte) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
