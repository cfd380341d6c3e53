package relay

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// The requests that a legacy upstream can have for its client (checklist 51).
const (
	elicitation = "elicitation/create"
	sampling    = "sampling/createMessage"
	roots       = "roots/list"
)

// Question is a request of a legacy upstream that its client is to answer. It
// does not change once it was asked.
type Question struct {
	Method string
	Params []byte // raw, as inputRequests have them; nil: none
	ID     []byte // raw JSON-RPC id of the upstream's own
}

// asked is an open question and the key that it was last offered under.
type asked struct {
	*Question
	key string
}

// Response is the client's answer as the upstream gets it.
func (q *Question) Response(result []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), q.ID...)
	b = append(b, `,"result":`...)
	return append(append(b, result...), '}')
}

func (q *Question) failure(code int, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, q.ID, code, message)
}

// Nobody is the answer of a user who gives none (checklist 7.3, expiry).
func (q *Question) Nobody() []byte {
	switch q.Method {
	case elicitation:
		return q.Response([]byte(`{"action":"cancel"}`))
	case sampling:
		return q.failure(-1, "the request was not answered")
	}
	return q.failure(-32603, "the request was not answered")
}

// refusal is the answer of a client that cannot be asked such a thing (checklist
// 138).
func (q *Question) refusal() []byte {
	if q.Method == elicitation {
		return q.failure(-32602, "the client does not take this kind of question")
	}
	return q.failure(-32601, "the client does not support "+q.Method)
}

// Fits reports whether a result has the shape that answers the question; it is
// passed on as it is (checklist 7.3).
func (q *Question) Fits(result []byte) bool {
	switch q.Method {
	case elicitation:
		return starts(result, "action", `"`)
	case sampling:
		return starts(result, "role", `"`) && starts(result, "model", `"`) && starts(result, "content", `{[`)
	}
	return starts(result, "roots", `[`)
}

// starts reports whether an object has a member whose value begins with one of
// some characters.
func starts(obj []byte, name, with string) (ok bool) {
	err := wire.Members(obj, func(n, v []byte) bool {
		if s, err := wire.String(append(append([]byte{'"'}, n...), '"')); err != nil || s != name {
			return true
		}
		for i := range len(with) {
			ok = ok || (len(v) > 0 && v[0] == with[i])
		}
		return false
	})
	return ok && err == nil
}

// ErrInputs are inputResponses that are not what they must be (checklist 55).
var ErrInputs = errors.New("relay: params.inputResponses is malformed")

// Inputs are the answers that a client sends with a retry, by key. They alias the
// client's message.
type Inputs struct {
	byKey  map[string][]byte
	digest [sha256.Size]byte
}

// ParseInputs reads a retry's inputResponses: an object of objects, or nil where
// there is none. Everything else is ErrInputs.
func ParseInputs(raw []byte) (Inputs, error) {
	in := Inputs{byKey: map[string][]byte{}, digest: Digest(raw)}
	if raw == nil {
		return in, nil
	}
	if raw[0] != '{' {
		return Inputs{}, ErrInputs
	}
	bad := false
	err := wire.Members(raw, func(n, v []byte) bool {
		key, err := wire.String(append(append([]byte{'"'}, n...), '"'))
		if bad = err != nil || len(v) == 0 || v[0] != '{'; !bad {
			in.byKey[key] = v
		}
		return !bad
	})
	if err != nil || bad {
		return Inputs{}, ErrInputs
	}
	return in, nil
}

// Get is the answer under a key, or nil.
func (in Inputs) Get(key string) []byte { return in.byKey[key] }

// Digest is equal for equal JSON values: neither white space, nor the order of
// members, nor the spelling of strings counts. Numbers are compared as they are
// written, for no arithmetic keeps all of them apart.
func Digest(raw []byte) [sha256.Size]byte {
	v := append(jsontext.Value(nil), raw...)
	if len(v) > 0 && v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		v = append(v[:0], raw...) // only equal bytes are equal, then
	}
	return sha256.Sum256(v)
}
