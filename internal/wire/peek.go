package wire

import "errors"

// errEnough ends a walk that has seen what it looked for.
var errEnough = errors.New("seen enough")

// Beginning is what the beginning of a message shows of it, for one too large
// to be held.
type Beginning struct {
	Kind       Kind   // Unknown: it does not show. A Notification may yet be a Request
	Failure    bool   // the Response is an error
	ID         []byte // raw value of the id; nil: it does not show
	Structured byte   // first byte of result.structuredContent; 0: it does not show
	ResultType []byte // raw value of result.resultType; nil: it does not show, or there is none
}

// Peek tells what the beginning of a message shows. The result aliases head.
func Peek(head []byte) (b Beginning) {
	s := scanners.Get().(*scanner)
	defer s.release()
	s.b, s.i = head, 0
	if s.space(); s.peek() != '{' {
		return b
	}
	id := false
	_ = s.object(nil, func(name []byte) error {
		switch string(name) {
		case "result":
			b.Kind = Response
			if s.peek() != '{' {
				return errEnough
			}
			return s.object(nil, func(name []byte) error {
				if string(name) == "structuredContent" {
					b.Structured = s.peek()
				}
				at, err := s.value()
				if err == nil && string(name) == "resultType" {
					b.ResultType = at.Of(head)
				}
				return err
			})
		case "error":
			b.Kind, b.Failure = Response, true
			return errEnough
		case "id":
			id = true
			at, err := s.value()
			if err == nil {
				b.ID = at.Of(head)
			}
			return err
		case "method":
			// Whether it is a request shows only if the id came first.
			b.Kind = Notification
			if id {
				b.Kind = Request
			}
			return errEnough
		}
		_, err := s.value()
		return err
	})
	return b
}
