package config

// Naming rules of a virtual server (DESIGN section 5).
const (
	NamingNamespaced  = "namespaced"
	NamingPrefixed    = "prefixed"
	NamingPassthrough = "passthrough"
)

// DefaultServer is the name of the virtual server that is made when none is written.
const DefaultServer = "default"

// Server is one virtual server: an endpoint with its own upstreams and names.
type Server struct {
	// Name is the key under `servers`, filled in by Load.
	Name string `yaml:"-"`

	Path         string           `yaml:"path" pattern:"^/" doc:"Path of the endpoint. Default: /mcp for the server named default, /servers/NAME/mcp for others."`
	Upstreams    []string         `yaml:"upstreams" bounds:"minItems=1,uniqueItems=true" doc:"Keys of the upstreams it offers, in any order. Default: all."`
	Naming       string           `yaml:"naming" default:"namespaced" enum:"namespaced,prefixed,passthrough" doc:"How names of several upstreams are kept apart; passthrough needs exactly one upstream."`
	Separator    string           `yaml:"separator" pattern:"^[A-Za-z0-9_.-]{1,16}$" doc:"Stands between namespace and name. Default: __ for namespaced, - for prefixed."`
	Aliases      map[string]Alias `yaml:"aliases" doc:"Names for single tools, by the name clients see; they win over prefixes."`
	Expose       Expose           `yaml:"expose" doc:"Globs over what is offered; they match any name of a target. Default: everything."`
	PageSize     int              `yaml:"page_size" default:"200" min:"1" max:"1000" doc:"Items on one page of a list."`
	OriginTag    Toggle           `yaml:"origin_tag" default:"true" doc:"Tell in _meta which upstream answered."`
	Instructions string           `yaml:"instructions" doc:"Text for clients."`

	everyUpstream bool // none were named: it also takes those that are added later
}

// Alias is the tool that an alias stands for.
type Alias struct {
	Upstream string `yaml:"upstream" required:"true" doc:"Key of the upstream."`
	Tool     string `yaml:"tool" required:"true" doc:"Name of the tool at the upstream."`
}

// Expose says what a virtual server offers, by kind.
type Expose struct {
	Tools     Filter `yaml:"tools" doc:"Tools that are offered."`
	Prompts   Filter `yaml:"prompts" doc:"Prompts that are offered."`
	Resources Filter `yaml:"resources" doc:"Resources and templates that are offered, by URI or name."`
}

// Filter offers what matches Allow (none: everything) and does not match Deny.
type Filter struct {
	Allow []Glob `yaml:"allow" bounds:"minItems=1" doc:"Offer only what matches one of these. Default: everything."`
	Deny  []Glob `yaml:"deny" doc:"Never offer what matches one of these."`
}
