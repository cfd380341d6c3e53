package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// record is all that is known of a task. It is on disk before anything is told
// of it.
type record struct {
	ID       string          `json:"taskId"`
	Envelope json.RawMessage `json:"envelope"` // as it came: it is echoed
	Text     string          `json:"text"`
	Seconds  float64         `json:"seconds"`
	Status   string          `json:"status"`
	Acting   bool            `json:"acting"` // the effect may have happened
	Created  time.Time       `json:"created"`
	Changed  time.Time       `json:"changed"`
	TTL      int64           `json:"ttlMs"`
	Until    time.Time       `json:"until"` // when the submission wants it to be over
	Message  string          `json:"message,omitempty"`
}

// taskID follows from the identity of the submission: the same one is the same
// task, in whatever process it is asked for.
func taskID(publicTaskID string) string {
	sum := sha256.Sum256([]byte(publicTaskID))
	return "ledger-" + hex.EncodeToString(sum[:16])
}

// journal keeps the records, one file each.
type journal struct{ dir string }

func (j journal) write(r *record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := filepath.Join(j.dir, r.ID+".json")
	f, err := os.CreateTemp(j.dir, "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	d, err := os.Open(j.dir) // the new name has to survive, too
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (j journal) all() (found []*record, err error) {
	files, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue // one that was being written
		}
		raw, err := os.ReadFile(filepath.Join(j.dir, f.Name()))
		if err != nil {
			return nil, err
		}
		r := &record{}
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}
