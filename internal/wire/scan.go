package wire

import (
	"strconv"
	"sync"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// scanner walks a message held whole, skipping what nobody asked for.
type scanner struct {
	b       []byte
	i       int        // next byte
	scratch []byte     // a decoded name
	names   [3]nameSet // envelope; result, error or params; _meta
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// Scan finds the members of the envelope, of result and result._meta, of error
// and of params, and passes over every other value by string ends and brackets
// alone (DESIGN section 3). At these levels it is strict: duplicate or invalid
// names, and anything that is not JSON between names and values, are refused.
// What is wrong within a skipped value is not seen, and passes as it came.
//
// The message must be an object with jsonrpc "2.0" that has a method, or exactly
// one of result and error; both must be objects, and error.code an integer.
// An id of null is left to the caller.
//
// The error is a *fault.Error of fault.InvalidAnswer. a is overwritten and
// aliases raw. Scan allocates nothing.
func Scan(raw []byte, a *Answer) error {
	*a = Answer{Raw: raw}
	s := scanners.Get().(*scanner)
	s.b, s.i = raw, 0
	err := s.answer(a)
	s.release()
	return err
}

// release gives a pooled scanner back without anything of the message.
func (s *scanner) release() {
	s.b = nil
	for i := range s.names {
		s.names[i].reset()
	}
	if cap(s.scratch) > maxScratch {
		s.scratch = nil
	}
	scanners.Put(s)
}

func (s *scanner) answer(a *Answer) error {
	var version Span
	s.space()
	if s.peek() != '{' {
		return s.broken("a message is an object")
	}
	err := s.object(&s.names[0], func(name []byte) (err error) {
		switch string(name) {
		case "jsonrpc":
			version, err = s.value()
		case "id":
			a.ID, err = s.value()
		case "method":
			a.Method, err = s.value()
		case "params":
			start := s.i
			if err = s.params(a); err == nil {
				a.Params = Span{start, s.i}
			}
		case "result":
			start := s.i
			if err = s.result(a); err == nil {
				a.Result = Span{start, s.i}
			}
		case "error":
			start := s.i
			if err = s.failure(a); err == nil {
				a.Error = Span{start, s.i}
			}
		default:
			_, err = s.value()
		}
		return err
	})
	if err != nil {
		return err
	}
	if s.space(); s.i != len(s.b) {
		return s.broken("there is data behind the message")
	}
	if !equalString(version.Of(a.Raw), "2.0") {
		return fault.New(fault.InvalidAnswer, "jsonrpc of the message is not \"2.0\"")
	}
	return checkShape(a.Method.Ok(), a.Result.Ok(), a.Error.Ok())
}

// checkShape holds the members of an envelope against each other.
func checkShape(method, result, failure bool) error {
	switch {
	case result && failure:
		return fault.New(fault.InvalidAnswer, "the message has both result and error")
	case method && (result || failure):
		return fault.New(fault.InvalidAnswer, "the message has a method and a result or an error")
	case !method && !result && !failure:
		return fault.New(fault.InvalidAnswer, "the message has no method, result or error")
	}
	return nil
}

func (s *scanner) result(a *Answer) error {
	if s.peek() != '{' {
		return s.broken("result is not an object")
	}
	return s.object(&s.names[1], func(name []byte) (err error) {
		field := a.result(name)
		start := s.i
		if field == &a.Meta && s.peek() == '{' {
			err = s.meta(a)
		} else {
			_, err = s.value()
		}
		if field != nil && err == nil {
			*field = Span{start, s.i}
		}
		return err
	})
}

func (s *scanner) meta(a *Answer) error {
	return s.object(&s.names[2], func(name []byte) (err error) {
		at, err := s.value()
		if string(name) == "io.modelcontextprotocol/serverInfo" {
			a.MetaServerInfo = at
		}
		return err
	})
}

func (s *scanner) params(a *Answer) error {
	if s.peek() != '{' {
		_, err := s.value() // what an upstream sends as params is judged by who reads them
		return err
	}
	return s.object(&s.names[1], func(name []byte) error {
		at, err := s.value()
		switch string(name) {
		case "progressToken":
			a.ProgressToken = at
		case "requestId":
			a.RequestID = at
		case "_meta":
			a.ParamsMeta = at
		}
		return err
	})
}

func (s *scanner) failure(a *Answer) error {
	if s.peek() != '{' {
		return s.broken("error is not an object")
	}
	var code Span
	err := s.object(&s.names[1], func(name []byte) error {
		at, err := s.value()
		switch string(name) {
		case "code":
			code = at
		case "message":
			a.ErrorMessage = at
		case "data":
			a.ErrorData = at
		}
		return err
	})
	if err != nil {
		return err
	}
	raw := code.Of(s.b)
	if !isInteger(raw) {
		return fault.New(fault.InvalidAnswer, "error.code of the message is not an integer")
	}
	if a.ErrorCode, err = strconv.ParseInt(string(raw), 10, 64); err != nil {
		return fault.Wrap(err, fault.InvalidAnswer, "error.code of the message is too large")
	}
	return nil
}

// looseID finds the id of a message that was refused: the one valid id of its
// envelope, as far as the envelope can be walked.
func looseID(raw []byte) (id Span) {
	s := scanner{b: raw}
	if s.space(); s.peek() != '{' {
		return Span{}
	}
	found := 0
	_ = s.object(nil, func(name []byte) error { // the message is refused already
		at, err := s.value()
		if string(name) == "id" {
			found++
			id = at
		}
		return err
	})
	if found != 1 || !id.Ok() || !validID(id.Of(raw)) {
		return Span{}
	}
	return id
}
