package neutral

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Event is a kind of thing that happens at the provider.
type Event string

// The events, each named like the folder that its files lie in.
const (
	Submission   Event = "upstream-submissions"
	WorkerStart  Event = "worker-starts"
	WorkerEffect Event = "worker-effects"
	CancelAck    Event = "cancellation-acknowledgements"
	Termination  Event = "worker-terminations"
	Update       Event = "upstream-updates"
)

// Events are all of them.
var Events = []Event{Submission, WorkerStart, WorkerEffect, CancelAck, Termination, Update}

const eventFolder = "events"

// makeFolders makes the folders of the events below a provider's root. Nobody
// else does: a worker that is late must not bring back what was removed.
func makeFolders(root string) error {
	for _, e := range Events {
		if err := os.MkdirAll(filepath.Join(root, eventFolder, string(e)), 0o700); err != nil {
			return fmt.Errorf("events: %w", err)
		}
	}
	return nil
}

// Record drops the file of one event of a task below the root of a provider that
// has been started.
func Record(root string, e Event, task string) error {
	name := filepath.Join(root, eventFolder, string(e), task+"."+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("event %s: %w", e, err)
	}
	return f.Close()
}

// Count is how often an event has happened.
func Count(root string, e Event) (int, error) {
	files, err := os.ReadDir(filepath.Join(root, eventFolder, string(e)))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("events %s: %w", e, err)
	}
	return len(files), nil
}
