package north

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Exchange is one request and the place of its one answer. It is used by one
// goroutine, and must not be kept after Serve returned.
type Exchange struct {
	Server    string // virtual server
	Principal *Principal
	Era       mcp.Era
	Revision  mcp.Revision
	Msg       wire.Message
	Method    *mcp.Method
	Session   *store.Session // legacy only
	Header    http.Header    // of the HTTP request
	// Headerless says that the client speaks stdio: there are no headers to be
	// held against the message.
	Headerless bool
	// Sent are the arguments as the client sent them, when others took their place;
	// else nil.
	Sent []byte
	// Span is the trace of the request, where there is one. It is the rooms'.
	Span any
	// Trail is what is known of the request for the record of it.
	Trail Trail

	out      reply
	kept     keptReply // is out, for a client that can come back
	sessions store.Sessions
	handler  *Handler // nil within a batch
	pulse    *pulse   // nil: nothing is written but by the owner
	parts    bool     // it is a batch, whose messages are exchanges of their own
}

// reply frames answers for one kind of client connection.
type reply interface {
	// whole writes one complete message, given in parts.
	whole(status int, parts ...[]byte) error
	// begin starts a message of unknown length; end completes it.
	begin() (io.Writer, error)
	end() error
	// event writes a notification that precedes the answer; it reports whether
	// the client can take any.
	event(msg []byte) (sent bool, err error)
	// takesEvents reports whether the client takes notifications and requests
	// ahead of an answer.
	takesEvents() bool
	// keepAlive writes something that means nothing, so that nobody on the way
	// takes a waiting stream for a dead one.
	keepAlive() error
	// beat is keepAlive that opens the stream, where there is none yet.
	beat() error
	// framed reports whether messages go into lines, so that CR and LF between
	// tokens must not be in them.
	framed() bool
	// begun reports whether a byte may have left.
	begun() bool
	// broken reports whether an error cannot be told any more: part of an answer
	// may have left, where whole events before it do no harm.
	broken() bool
	// abort ends the connection, so that nothing looks complete.
	abort()
	// sent is how many bytes of messages were written so far.
	sent() int64
}

// Rewrite puts a raw object in the place of the message's arguments. The message is
// parsed anew, as strictly as the first time, and its spans are others.
func (x *Exchange) Rewrite(arguments []byte) error {
	m := &x.Msg
	edit := wire.Edit{Span: m.Arguments, With: arguments}
	if !m.Arguments.Ok() {
		if !m.Params.Ok() {
			return fault.New(fault.InvalidParams, "the request has no params")
		}
		edit = wire.InsertMembers(m.Raw, m.Params, wire.Member{Name: "arguments", Value: arguments})
	}
	raw := wire.Splice(make([]byte, 0, len(m.Raw)+len(arguments)+16), m.Raw, edit)
	m.Reset()
	return wire.Parse(raw, m)
}

// Retarget puts another name and a raw object of arguments in the place of the
// message's own. It is parsed anew, as Rewrite does.
func (x *Exchange) Retarget(name string, arguments []byte) error {
	m := &x.Msg
	edits := []wire.Edit{{Span: m.Name, With: wire.AppendString(nil, name)}, {Span: m.Arguments, With: arguments}}
	if m.Arguments.Start < m.Name.Start {
		edits[0], edits[1] = edits[1], edits[0]
	}
	raw := wire.Splice(make([]byte, 0, len(m.Raw)+len(name)), m.Raw, edits...)
	m.Reset()
	return wire.Parse(raw, m)
}

// ID is the request's JSON-RPC id, raw.
func (x *Exchange) ID() []byte { return x.Msg.ID.Of(x.Msg.Raw) }

// Reply writes the complete answer with an HTTP status that counts for modern
// clients; a legacy client gets 200 for every answer (checklist section 9).
func (x *Exchange) Reply(status int, parts ...[]byte) error {
	if x.Era == mcp.Legacy {
		status = http.StatusOK
	}
	x.Rest()
	return x.out.whole(status, parts...)
}

// Result writes a complete answer around a raw result object, given in parts.
func (x *Exchange) Result(parts ...[]byte) error {
	p := make([][]byte, 0, len(parts)+4)
	p = append(p, messageHead, x.ID(), resultHead)
	p = append(p, parts...)
	return x.Reply(http.StatusOK, append(p, messageTail)...)
}

var (
	messageHead = []byte(`{"jsonrpc":"2.0","id":`)
	resultHead  = []byte(`,"result":`)
	messageTail = []byte(`}`)
)

// Begin starts an answer of unknown length and returns where its bytes go.
// It must be followed by End, or by returning an error from Serve, which cuts
// the connection.
func (x *Exchange) Begin() (io.Writer, error) {
	x.Rest()
	return x.out.begin()
}

// End completes what Begin started.
func (x *Exchange) End() error { return x.out.end() }

// Event writes a notification ahead of the answer, if the client takes event
// streams. It must be free of CR and LF.
func (x *Exchange) Event(msg []byte) (sent bool, err error) {
	if p := x.pulse; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	return x.out.event(msg)
}

// Framed reports whether the answer goes into line framing (DESIGN section 3). It
// is asked when the answer is at hand: how it is framed does not change any more.
func (x *Exchange) Framed() bool {
	x.Rest()
	return x.out.framed()
}

// SetLevel stores the log level of the client's session.
func (x *Exchange) SetLevel(ctx context.Context, level string) error {
	return x.Update(ctx, func(s *store.Session) error {
		s.LogLevel = level
		return nil
	})
}

// Update changes the record of the client's session by compare-and-set. change
// gets a copy, may be called again, and must not write into what the copy shares
// with the record; its error ends the update.
func (x *Exchange) Update(ctx context.Context, change func(s *store.Session) error) error {
	for {
		next := *x.Session
		if err := change(&next); err != nil {
			return err
		}
		stored, err := x.sessions.Update(ctx, &next)
		if err == nil {
			x.Session = stored
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if x.Session, err = x.sessions.Get(ctx, x.Session.ID); err != nil {
			return err
		}
	}
}

var exchanges = sync.Pool{New: func() any { return new(Exchange) }}

func (x *Exchange) free() {
	*x = Exchange{}
	exchanges.Put(x)
}
