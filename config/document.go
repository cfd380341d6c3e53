// Package config is the document an operator writes: it is loaded strictly, every
// problem is reported at once with file, line and column, defaults are filled in,
// and its JSON Schema is published from the same structs.
//
// The structs are the one source of truth. Their tags say everything that can be
// said about one value alone: `yaml` the key, `doc` the sentence for operators,
// `default`, `enum`, `pattern`, `min`, `max` and `required`. Decoding, defaults and
// the schema all come from them by reflection; rules that join several values are in
// the files named check*.go.
package config

import (
	"maps"
	"slices"
)

// Document is one complete configuration: after Load every default is filled in.
//
// A Document is not changed by anything in this package once it has been returned,
// except by AddUpstreams, so it may be read by any number of goroutines.
type Document struct {
	Listen         string   `yaml:"listen" default:"127.0.0.1:8080" doc:"Address of the main listener. Another address than loopback needs auth, or allow_anonymous: true."`
	AllowAnonymous Toggle   `yaml:"allow_anonymous" default:"false" doc:"Serve callers without credentials on an address other machines can reach."`
	TLS            *KeyPair `yaml:"tls" doc:"Serve HTTPS with this certificate; absent: plain HTTP."`
	State          Store    `yaml:"state" default:"sqlite:penstock.db" doc:"Where state is kept: sqlite:PATH, postgres://..., or memory:."`
	Admin          string   `yaml:"admin" onoff:"off" pattern:"^(unix:.+|off)$" doc:"Admin socket, unix:PATH or off. Default: beside an SQLite file, else in the runtime folder by process."`
	Shutdown       Duration `yaml:"shutdown" default:"10s" doc:"How long a drain may take before connections are cut."`
	AllowedHosts   []string `yaml:"allowed_hosts" doc:"Host names beyond the localhost names that requests may be addressed to; the guard against DNS rebinding."`
	AllowedOrigins []string `yaml:"allowed_origins" doc:"Origins of browser pages that may call, as scheme://host[:port]."`
	PublicURL      string   `yaml:"public_url" format:"http-url" doc:"What clients see as the address of this gateway, for resource metadata."`
	Keys           Keys     `yaml:"keys" doc:"Sealing keys."`

	Limits    Limits               `yaml:"limits" doc:"Bounds on everything that could grow."`
	Upstreams map[string]*Upstream `yaml:"upstreams" keyed:"true" doc:"The MCP servers behind this gateway, by key."`
	Servers   map[string]*Server   `yaml:"servers" keyed:"true" bounds:"minProperties=1" doc:"Virtual servers, by name; absent: one named default at /mcp with every upstream."`
	Tasks     Tasks                `yaml:"tasks" doc:"Ownership of tasks."`
	Durable   Durable              `yaml:"durable" doc:"Durable tasks."`
	Auth      *Auth                `yaml:"auth" doc:"Who may call."`
	Policy    []PolicyRule         `yaml:"policy" doc:"Who may call what; absent: everything is allowed."`
	Rate      *RateLimits          `yaml:"rate" doc:"Rate limits."`
	Hooks     []Hook               `yaml:"hooks" doc:"Decision hooks."`
	Audit     *Audit               `yaml:"audit" doc:"The audit record."`
	Observe   Observe              `yaml:"observe" doc:"Metrics, health with details, traces."`

	// Warnings are what is legal and unwise, in the order of the file. They never
	// keep a document from loading.
	Warnings Problems `yaml:"-"`
}

// KeyPair is a certificate with its private key, as paths of PEM files.
type KeyPair struct {
	Cert string `yaml:"cert" required:"true" doc:"PEM file with the certificate chain."`
	Key  string `yaml:"key" required:"true" doc:"PEM file with the private key."`
}

// Keys are the sealing keys. All of them open, the first one seals. An empty ring
// means that a key is generated.
type Keys struct {
	Ring []Secret `yaml:"ring" doc:"Sealing keys, newest first: all open, the first seals. Default: one is generated."`
}

// Observe is what the gateway tells about itself.
type Observe struct {
	Listen string  `yaml:"listen" doc:"Address for GET /metrics, and /health and /ready with details; absent: these details only on a loopback main listener."`
	OTLP   string  `yaml:"otlp" format:"http-url" doc:"OTLP endpoint for traces."`
	Sample float64 `yaml:"sample" default:"0.01" min:"0" max:"1" doc:"Share of requests that are traced."`
}

// UpstreamKeys returns the upstream keys in byte order, the order in which
// upstreams are considered everywhere (DESIGN section 5).
func (d *Document) UpstreamKeys() []string { return slices.Sorted(maps.Keys(d.Upstreams)) }

// ServerNames returns the names of the virtual servers in byte order.
func (d *Document) ServerNames() []string { return slices.Sorted(maps.Keys(d.Servers)) }
