package durable

// Caller is who submits: what is one caller's is nobody else's. Both parts are 1
// to 128 bytes without control characters.
type Caller struct {
	Principal string
	Tenant    string
	// Scopes are those of the present credential, never stored.
	Scopes []string
	// Local is the one caller of a gateway without identity, to whom no scope is
	// granted and none is refused.
	Local bool
}

// Capability is one tool of one upstream, as a lease and a binding name it.
type Capability struct {
	Source         string `json:"source"`
	Kind           string `json:"kind"`
	NativeIdentity Digest `json:"native_identity_digest"`
	Schema         Digest `json:"schema_digest"`
	Revision       string `json:"revision"`
	Configuration  Digest `json:"source_configuration_digest"`
}

// Target is the tool that a lease, a call or a submission is about. The gateway
// has resolved it, and policy allows it.
type Target struct {
	Alias      string // the name the caller used
	Upstream   string
	Tool       string // the upstream's own name
	Server     string // virtual server
	Capability Capability
	Effect     Effect // what the tool's annotations describe
}
