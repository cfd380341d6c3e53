package catalog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"io"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

const (
	cursorVersion = 1
	cursorTag     = 16 // bytes of the HMAC-SHA-256 that are kept
	cursorHead    = 2 + cursorTag
	cursorPrivate = 0x80     // beside the kind: an earlier page was private
	maxCursor     = 96 << 10 // characters; a URI is bounded by the request that holds it
)

// seal makes our cursor: it continues after the identifier last, and is good
// for one kind of list of one server and one principal (DESIGN section 6).
// What it holds was on the page that carries it, so it is not hidden. It also
// says whether that page was public, since all pages must agree (checklist 43).
func (s *Server) seal(principal *[32]byte, kind mcp.Kind, public bool, last string) string {
	raw := make([]byte, cursorHead, cursorHead+len(last))
	raw[0], raw[1] = cursorVersion, byte(kind)
	if !public {
		raw[1] |= cursorPrivate
	}
	tag := s.cursorMAC(principal, raw[1], last)
	copy(raw[2:], tag[:cursorTag])
	return base64.RawURLEncoding.EncodeToString(append(raw, last...))
}

// open returns the identifier a cursor continues after. Every fault reads the
// same, so that nothing can be learnt by trying.
func (s *Server) open(principal *[32]byte, kind mcp.Kind, cursor string) (last string, public bool, err error) {
	bad := fault.New(fault.InvalidParams, "invalid cursor").
		WithHint("list again from the first page")
	if cursor == "" || len(cursor) > maxCursor {
		return "", false, bad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < cursorHead || raw[0] != cursorVersion || raw[1]&^cursorPrivate != byte(kind) {
		return "", false, bad
	}
	last = string(raw[cursorHead:])
	tag := s.cursorMAC(principal, raw[1], last)
	if !hmac.Equal(raw[2:cursorHead], tag[:cursorTag]) {
		return "", false, bad
	}
	return last, raw[1]&cursorPrivate == 0, nil
}

func (s *Server) cursorMAC(principal *[32]byte, kind byte, last string) []byte {
	mac, ok := s.macs.Get().(hash.Hash)
	if !ok {
		mac = hmac.New(sha256.New, s.o.CursorKey)
	}
	defer s.macs.Put(mac)
	mac.Reset()
	var head [6]byte
	head[0], head[1] = cursorVersion, kind
	binary.BigEndian.PutUint32(head[2:], uint32(len(s.o.Name)))
	mac.Write(head[:])
	_, _ = io.WriteString(mac, s.o.Name) // a hash takes everything
	mac.Write(principal[:])
	_, _ = io.WriteString(mac, last)
	return mac.Sum(nil)
}
