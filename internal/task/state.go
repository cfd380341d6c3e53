package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// State is a task as its upstream described it. It is immutable.
type State struct {
	Raw    []byte // the DetailedTask, a raw object: a result of tasks/get, or params of notifications/tasks
	Status string
	Poll   time.Duration // how often its upstream wants to be asked; 0: it does not say
	sum    [32]byte
}

// ErrNoState is what does not describe the task that it should.
var ErrNoState = errors.New("task: that does not describe the task")

// ReadState reads how a task stands. raw is kept. What belongs to a message and not
// to the task, _meta and resultType, makes no difference between two states, nor
// does the order of members.
func ReadState(id string, raw []byte) (*State, error) {
	s := &State{Raw: raw}
	type member struct{ name, value []byte }
	var all []member
	named := false
	err := wire.Members(raw, func(n, v []byte) bool {
		v = bytes.TrimSpace(v)
		switch string(n) {
		case "_meta", "resultType":
			return true
		case "taskId":
			got, err := wire.String(v)
			named = err == nil && got == id
		case "status":
			s.Status, _ = wire.String(v)
		case "pollIntervalMs":
			if ms, err := strconv.ParseFloat(string(v), 64); err == nil && ms > 0 {
				s.Poll = time.Duration(min(ms, float64(maxPoll.Milliseconds()))) * time.Millisecond
			}
		}
		all = append(all, member{n, v})
		return true
	})
	if err != nil {
		return nil, errors.Join(ErrNoState, err)
	}
	if !named || s.Status == "" {
		return nil, ErrNoState
	}
	slices.SortFunc(all, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	h := sha256.New()
	var size [8]byte
	for _, m := range all {
		for _, part := range [...][]byte{m.name, m.value} {
			binary.BigEndian.PutUint64(size[:], uint64(len(part)))
			_, _ = h.Write(size[:])
			_, _ = h.Write(part)
		}
	}
	h.Sum(s.sum[:0])
	return s, nil
}

// Ended reports whether the task will not change any more.
func (s *State) Ended() bool {
	switch s.Status {
	case "completed", "failed", "cancelled":
		return true
	}
	return false
}

// begun reports whether it is what every client expects of a task that it has
// heard nothing of yet.
func (s *State) begun() bool { return s.Status == "working" }
