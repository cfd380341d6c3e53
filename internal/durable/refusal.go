package durable

import "errors"

// ErrNoTask: there is no such task for this caller. It is answered as DESIGN
// section 9 says, like any other task that is not there.
var ErrNoTask = errors.New("durable: no such task")

// ErrChanged: what an upstream offers is not what was pinned.
var ErrChanged = errors.New("durable: the upstream offers something else than was pinned")

// Channel is how a refusal reaches the caller (contract 1.2).
type Channel uint8

// The channels.
const (
	ToolError     Channel = iota // a tools/call result with isError and the code in structuredContent
	InvalidParams                // JSON-RPC -32602 with the code as message
	Failure                      // JSON-RPC -32603 with the code as message
)

// Refusal is an answer of the contract that is no success. Code is spelled by
// the caller's spelling.
type Refusal struct {
	Code    string
	Channel Channel
	Cause   error // for the log, never for the caller
}

func (r *Refusal) Error() string {
	if r.Cause != nil {
		return r.Code + ": " + r.Cause.Error()
	}
	return r.Code
}

// Unwrap is the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

func refuse(s Spelling, ch Channel, code string) *Refusal {
	return &Refusal{Code: s.Code(code), Channel: ch}
}

func because(err error, s Spelling, ch Channel, code string) *Refusal {
	return &Refusal{Code: s.Code(code), Channel: ch, Cause: err}
}
