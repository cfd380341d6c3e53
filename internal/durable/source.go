package durable

import (
	"context"
	"encoding/json"
)

// Sources finds upstreams by their key. A key that is not configured, and one
// that is not eligible (not reviewed and pinned, no 2026-07-28, no tasks), has
// no source.
type Sources interface {
	Source(key string) (Source, bool)
}

// Source is one eligible upstream. It is safe for concurrent use.
type Source interface {
	// Key is the upstream's.
	Key() string
	// Settings are what its document says of durable tasks.
	Settings() Settings
	// Connect returns the connection that is current, after a discovery where
	// none was made or the last one broke. It fails while the upstream is away,
	// and with ErrChanged when what it offers is not what was pinned.
	Connect(ctx context.Context) (Connection, error)
}

// Settings are one upstream's part of the document (`upstreams.*.durable`).
type Settings struct {
	Stateless bool     // `session: stateless`: a route may be bound again after a restart
	Echo      bool     // `echo: required`
	Spelling  Spelling // of the envelope
}

// Connection is one runtime connection session with an upstream. It is what a
// route is bound to: after a transport fault or a restart there is another.
type Connection interface {
	// Session is its id, of the form ID(SessionPrefix): local to the gateway, and
	// never that of another connection.
	Session() string
	// Stateless tells that the upstream keeps no state by connection: it is
	// reached over HTTP and has issued no session.
	Stateless() bool
	// Endpoint is the digest of what a stateless upstream is recognized by after
	// a restart: its address, pin, configuration, revision and credential.
	Endpoint() Digest
	Snapshot() Digest
	Configuration() Digest
	// Tool is the whole tool object as the upstream lists it.
	Tool(name string) (json.RawMessage, bool)
	// Send makes one request and waits for its answer, bounded by ctx. The last
	// member of params is _meta, an object, to which the connection adds what the
	// protocol demands of a request: revision, client, capabilities (tasks and
	// elicitation). name goes into the header that routes by name. The fence,
	// if there is one, is asked right before the first byte leaves: its error
	// ends the request unsent. See Reply for what can come of it.
	Send(ctx context.Context, method, name string, params json.RawMessage, fence func() error) Reply
}

// Reply is what came of one request. Exactly one of Result, Error and Fault is
// set.
type Reply struct {
	Result json.RawMessage
	Error  *RemoteError // the upstream answered with an error
	Fault  error        // there was no answer, or none that can be understood
	Unsent bool         // with Fault: provably nothing left the gateway
}

// RemoteError is an upstream's JSON-RPC error.
type RemoteError struct {
	Code    int
	Message string
	Data    json.RawMessage
}
