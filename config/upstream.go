package config

import "strings"

// Upstream is one MCP server behind the gateway.
type Upstream struct {
	// Key is the key under `upstreams`, filled in by Load.
	Key string `yaml:"-"`

	URL              string            `yaml:"url" required:"true" oneof:"url,urls,command" format:"http-url" doc:"Streamable HTTP endpoint, http or https, without user name and fragment."`
	URLs             []string          `yaml:"urls" doc:"Endpoints of several replicas of one server, instead of url."`
	Namespace        string            `yaml:"namespace" pattern:"^[a-zA-Z0-9][a-zA-Z0-9._-]*$" maxlen:"64" doc:"What stands before the separator in names under namespaced. Default: the key."`
	Formerly         []string          `yaml:"formerly" doc:"Earlier keys of this upstream, whose sessions it keeps."`
	Era              string            `yaml:"era" default:"auto" enum:"auto,modern,legacy" doc:"Which protocol the upstream speaks: auto (found out), modern or legacy."`
	Headers          map[string]Secret `yaml:"headers" doc:"Headers sent with every request; not Authorization, Host, Mcp-*, Content-* or headers of one hop."`
	Credentials      Credentials       `yaml:"credentials" bounds:"maxProperties=1" doc:"What the gateway shows to the upstream; at most one of its keys."`
	TLS              *ClientTLS        `yaml:"tls" doc:"TLS towards this upstream."`
	Proxy            Secret            `yaml:"proxy" doc:"Proxy towards this upstream: http, https or socks5 URL. Environment variables are not read."`
	Timeout          Duration          `yaml:"timeout" doc:"How long a call to this upstream may go without progress. Default: limits.call_timeout."`
	MaxConcurrent    int               `yaml:"max_concurrent" min:"1" doc:"Requests to this upstream that run at the same time. Default: no bound of its own."`
	Breaker          Breaker           `yaml:"breaker" doc:"Stops calling an upstream whose transport fails; its own errors never count."`
	Rate             Rate              `yaml:"rate" doc:"Calls to this upstream per time, such as 600/m; lists do not count."`
	TrustAnnotations Toggle            `yaml:"trust_annotations" default:"false" doc:"Whether the annotations of its tools count in policy."`
	Owner            string            `yaml:"owner" doc:"Who answers for this upstream; shown to operators."`

	Command []string          `yaml:"command" bounds:"minItems=1" doc:"Child process that speaks stdio, as argv, instead of url; there is no shell."`
	Dir     string            `yaml:"dir" doc:"Working folder of the child. Default: the gateway's own."`
	Env     map[string]Secret `yaml:"env" doc:"Environment of the child, beside PATH, HOME, LANG and TMPDIR."`
	Restart *Restart          `yaml:"restart" doc:"How a child that ended is started again."`
	Durable *UpstreamDurable  `yaml:"durable" doc:"Makes the upstream eligible for durable tasks."`
}

// Child reports whether the upstream is a child process.
func (u *Upstream) Child() bool { return len(u.Command) > 0 }

// DisplayURL is the URL as it may be shown to operators: without its query, where
// some servers expect a key.
func (u *Upstream) DisplayURL() string { return DisplayURL(u.URL) }

// DisplayURL is an upstream's address as it may be shown to operators.
func DisplayURL(address string) string {
	base, _, found := strings.Cut(address, "?")
	if found {
		return base + "?[hidden]"
	}
	return base
}

// Credentials is what the gateway shows to an upstream. At most one field is set.
type Credentials struct {
	Bearer            Secret             `yaml:"bearer" doc:"Sent as Authorization: Bearer."`
	Header            *CredentialHeader  `yaml:"header" doc:"A header that carries a key."`
	ClientCredentials *ClientCredentials `yaml:"client_credentials" doc:"OAuth client credentials."`
	Exchange          *TokenExchange     `yaml:"exchange" doc:"RFC 8693 token exchange for the caller's token."`
	Passthrough       *TokenPassthrough  `yaml:"passthrough" doc:"The caller's own token, when it names this audience."`
}

// CredentialHeader is a header that carries a key.
type CredentialHeader struct {
	Name  string `yaml:"name" required:"true" doc:"Name of the header."`
	Value Secret `yaml:"value" required:"true" doc:"Value of the header."`
}

// ClientCredentials fetches a token with the OAuth client credentials grant.
type ClientCredentials struct {
	TokenURL     string   `yaml:"token_url" required:"true" format:"http-url" doc:"Token endpoint."`
	ClientID     string   `yaml:"client_id" required:"true" doc:"Client id."`
	ClientSecret Secret   `yaml:"client_secret" required:"true" doc:"Client secret."`
	Scopes       []string `yaml:"scopes" doc:"Scopes asked for."`
}

// TokenExchange trades the caller's token for one of the upstream (RFC 8693).
type TokenExchange struct {
	TokenURL     string `yaml:"token_url" required:"true" format:"http-url" doc:"Token endpoint."`
	ClientID     string `yaml:"client_id" required:"true" doc:"Client id."`
	ClientSecret Secret `yaml:"client_secret" required:"true" doc:"Client secret."`
	Audience     string `yaml:"audience" required:"true" doc:"Audience of the token asked for."`
}

// TokenPassthrough passes the caller's own token on when it names the audience.
type TokenPassthrough struct {
	Audience string `yaml:"audience" required:"true" doc:"Audience that the caller's token must name."`
}

// ClientTLS is TLS towards an upstream; paths of PEM files. Cert and Key come in pairs.
type ClientTLS struct {
	CA   string `yaml:"ca" doc:"PEM file with the authorities to trust instead of the system's."`
	Cert string `yaml:"cert" with:"key" doc:"PEM file with the client certificate; together with key."`
	Key  string `yaml:"key" with:"cert" doc:"PEM file with the client's private key; together with cert."`
}

// Breaker opens after Failures transport faults in a row and lets one request
// through after Open.
type Breaker struct {
	Failures int      `yaml:"failures" default:"5" min:"1" doc:"Transport faults in a row that open the breaker."`
	Open     Duration `yaml:"open" default:"30s" doc:"How long it stays open before one request may try."`
}

// Restart is how a child process that ended is started again.
type Restart struct {
	Backoff Duration `yaml:"backoff" default:"1s" doc:"First wait."`
	Max     Duration `yaml:"max" default:"30s" doc:"Longest wait."`
}

// UpstreamDurable makes an upstream eligible for durable tasks (DESIGN section 10).
type UpstreamDurable struct {
	Pin      string `yaml:"pin" required:"true" pattern:"^sha256:[0-9a-f]{64}$" doc:"Capability digest that was reviewed."`
	Session  string `yaml:"session" default:"strict" enum:"strict,stateless" doc:"Whether a task may be bound again after a restart."`
	Echo     string `yaml:"echo" default:"required" enum:"required,none" doc:"Whether the upstream must echo the execution envelope."`
	Spelling string `yaml:"spelling" default:"penstock" enum:"penstock,gaugemesh" doc:"Spelling of the envelope."`
}
