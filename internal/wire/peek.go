package wire

import "errors"

// errEnough ends a walk that has seen what it looked for.
var errEnough = errors.New("seen enough")

// Peek tells the kind of a message from its beginning alone, for one too large
// to be held. known is false when the beginning does not show it.
func Peek(head []byte) (kind Kind, known bool) {
	s := scanners.Get().(*scanner)
	defer s.release()
	s.b, s.i = head, 0
	if s.space(); s.peek() != '{' {
		return Unknown, false
	}
	id := false
	_ = s.object(nil, func(name []byte) error {
		switch string(name) {
		case "result", "error":
			kind, known = Response, true
			return errEnough
		case "id":
			id = true
		case "method":
			// Whether it is a request shows only if the id came first.
			kind, known = Notification, true
			if id {
				kind = Request
			}
			return errEnough
		}
		_, err := s.value()
		return err
	})
	return kind, known
}
