package store

import (
	"context"
	"time"
)

// Task is who owns a task that an upstream has minted (DESIGN section 9). A
// record handed out is immutable.
type Task struct {
	Hash      [32]byte // SHA-256 of the task id
	Principal [32]byte
	Server    string   // virtual server it was minted on
	Upstream  string   // key of the upstream
	Tool      string   // original name of the tool it came from; "" where it was located
	Exposed   string   // the name under which the client called it
	Legacy    bool     // dialect: that of 2025-11-25, else the extension
	Replica   [32]byte // digest of the replica's URL; zero: the upstream has one address
	Instance  string   // where it matters (a child process): which instance of the gateway; else ""
	Session   string   // which of its principal's sessions at the upstream has it, where it was made for a modern client in one; else ""
	// Sealed is the id itself, sealed. Get leaves it out: who asks has the id.
	Sealed  []byte
	Located bool // found by searching, not minted
	Mark    TaskMark
	Created time.Time
	Expires time.Time // zero: unlimited, kept until a configured time after its last use
	Used    time.Time
	// Generation is 1 in a new record and grows with every change but a Touch.
	Generation uint64
}

// Position is where in a list the record stands.
func (t *Task) Position() TaskPosition {
	return TaskPosition{Created: t.Created, Hash: t.Hash, Principal: t.Principal}
}

// TaskMark is what became of a task beside its life at the upstream.
type TaskMark uint8

// The marks.
const (
	TaskLive TaskMark = iota
	TaskWithheld
	TaskRevoked
	TaskCancelled
)

// String is the mark as an operator reads it.
func (m TaskMark) String() string {
	switch m {
	case TaskLive:
		return "live"
	case TaskWithheld:
		return "withheld"
	case TaskRevoked:
		return "revoked"
	case TaskCancelled:
		return "cancelled"
	}
	return "unknown"
}

// TaskTouch is a use of a task, or a new expiry, to be noted.
type TaskTouch struct {
	Hash, Principal [32]byte
	Used            time.Time // an earlier time than the one stored changes nothing
	Expires         time.Time // zero: the expiry stays
	Unlimited       bool      // there is no expiry any more; Expires is not looked at
}

// TaskPosition is a place in a list of tasks, newest first. The zero position is
// the beginning.
type TaskPosition struct {
	Created time.Time
	Hash    [32]byte
	// Principal tells apart what several principals have at one Created and
	// Hash. Only All looks at it.
	Principal [32]byte
}

// Tasks is the repository of ownership (DESIGN section 9). It is safe for
// concurrent use, also by several instances. What an instance changes it sees at
// once; marks, deletions and replacements by another it sees within 2 s, and a
// record that it had not read yet at once.
//
// A zero Created is the time of the call, and a zero Used that of Created.
type Tasks interface {
	// Get returns the record of (hash, principal), ErrNotFound when there is
	// none; known tells, also with ErrNotFound, whether any principal has a
	// record of that hash. It is one statement, of the same cost for a foreign
	// and for an unknown hash. An expired record is found until Expire removes
	// it: its expiry is the caller's to judge.
	Get(ctx context.Context, hash, principal [32]byte) (t *Task, known bool, err error)
	// Mint stores ownership, durably when it returns.
	//
	// Where there is no record it is inserted, unless it would exceed a bound:
	// ErrFullFor (the principal's) or ErrFull. A record of the same principal and
	// upstream is refreshed: all but Created is as in t, an empty Sealed leaves
	// the old one, Mark is live and Located off. One of another upstream is
	// replaced when it was located, else ErrConflict comes together with the
	// record that stands. Located records of the same (hash, upstream) of other
	// principals give way: they are deleted in the same transaction.
	Mint(ctx context.Context, t *Task) (stored *Task, err error)
	// Replace puts t, as minted, in the place of over if that is still at its
	// generation; else ErrConflict, with the record that stands if there is one.
	Replace(ctx context.Context, t, over *Task) (*Task, error)
	// Locate stores a located record only where no record of (hash, upstream)
	// exists for anybody and none of (hash, principal); else ErrConflict, with
	// what stands for this principal if there is one. It keeps to the bounds of
	// Mint.
	Locate(ctx context.Context, t *Task) (*Task, error)
	// Touch moves last uses and expiries, all in one transaction; records that
	// are not there are skipped.
	Touch(ctx context.Context, touches ...TaskTouch) error
	// Mark sets the mark of a record at its generation, 0 for whatever it is;
	// ErrConflict at another generation, ErrNotFound when there is none.
	Mark(ctx context.Context, hash, principal [32]byte, generation uint64, m TaskMark) error
	// Delete removes a record; ErrNotFound when there is none.
	Delete(ctx context.Context, hash, principal [32]byte) error
	// List returns at most limit records that a principal has on a virtual
	// server, newest first and behind the given position.
	List(ctx context.Context, principal [32]byte, server string, after TaskPosition, limit int) ([]*Task, error)
	// All is List over all principals and servers, for the operator; of one
	// upstream unless it is "".
	All(ctx context.Context, upstream string, after TaskPosition, limit int) ([]*Task, error)
	// Count is the number of records of a principal, and of all. Its cost does
	// not grow with them.
	Count(ctx context.Context, principal [32]byte) (own, all int, err error)
	// Expire removes at most limit records that expired before the one time, or
	// are unlimited and were not used since before the other, and returns how
	// many.
	Expire(ctx context.Context, expiredBefore, unusedBefore time.Time, limit int) (int, error)
}
