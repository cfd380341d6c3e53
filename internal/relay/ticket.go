package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Kind tells apart what a requestState of the gateway's own stands for.
type Kind uint8

// The kinds. What an upstream keeps in its own state is neither: Seal is for it.
const (
	Parked  Kind = 1 + iota // a call that waits for its client's answers
	Reissue                 // a call that was refused until the user has been somewhere, and is made anew then
)

// Ticket is the gateway's own state between two requests for one call (checklist
// 7.2, envelope).
type Ticket struct {
	Kind      Kind
	Round     int               // of questions
	Count     int               // Reissue: how many questions were asked
	Arguments [sha256.Size]byte // digest of the request's arguments
	Instance  string            // where a parked call lives
	ID        string            // of the parked call; Reissue: what its keys begin with
}

// Key is the key of the nth question of a Reissue.
func (t *Ticket) Key(n int) string { return t.ID + "-" + strconv.Itoa(n) }

// ticketPurpose keeps the text of a ticket from being taken for an upstream's
// state, and the other way round.
const ticketPurpose = "ticket v1 "

// SealTicket returns the ticket as base64url text that opens for the same
// principal, server, method, name and upstream, and for as long as any state.
func (s *Sealer) SealTicket(t Ticket, b Binding) string {
	out := append(make([]byte, 0, 128), byte(t.Kind))
	out = binary.BigEndian.AppendUint32(out, uint32(t.Round))
	out = binary.BigEndian.AppendUint32(out, uint32(t.Count))
	out = append(out, t.Arguments[:]...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(t.Instance)))
	out = append(out, t.Instance...)
	return s.seal(append(out, t.ID...), append([]byte(ticketPurpose), b.bytes()...))
}

// OpenTicket returns the ticket, or ErrState for what is none of this gateway's
// for that binding, or is too old.
func (s *Sealer) OpenTicket(sealed string, b Binding) (Ticket, error) {
	raw, err := s.open(sealed, append([]byte(ticketPurpose), b.bytes()...))
	if err != nil {
		return Ticket{}, err
	}
	const head = 1 + 4 + 4 + sha256.Size + 4
	if len(raw) < head {
		return Ticket{}, ErrState
	}
	t := Ticket{Kind: Kind(raw[0]), Round: int(binary.BigEndian.Uint32(raw[1:])), Count: int(binary.BigEndian.Uint32(raw[5:]))}
	copy(t.Arguments[:], raw[9:])
	n := int(binary.BigEndian.Uint32(raw[head-4:]))
	if len(raw)-head < n {
		return Ticket{}, ErrState
	}
	t.Instance, t.ID = string(raw[head:head+n]), string(raw[head+n:])
	return t, nil
}
