package durable

import (
	"crypto/rand"
	"fmt"
	"strings"
	"unicode"
)

// newUUID is a random UUID (version 4).
func newUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// NewSessionID names a connection session (Connection.Session), for envelopes of
// the given spelling.
func NewSessionID(s Spelling) string { return s.prefix(sessionPart) + newUUID() }

// NewInstanceID names an instance of the gateway.
func NewInstanceID() string { return Penstock.prefix(instancePart) + newUUID() }

func newPublicID(s Spelling) string { return s.prefix(taskPart) + newUUID() }

// Bounds of an upstream's task id: to be bound, and to be told of in a cancel.
const (
	maxUpstreamTask = 1024
	maxNamedTask    = 4096
)

func validUpstreamTask(id string, most int) bool {
	return id != "" && len(id) <= most && !strings.ContainsFunc(id, unicode.IsControl)
}
