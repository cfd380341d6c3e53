package config

import "strings"

// Auth says who may call (DESIGN section 11).
type Auth struct {
	JWT            []JWTIssuer `yaml:"jwt" doc:"Issuers of bearer tokens."`
	APIKeys        []APIKey    `yaml:"api_keys" doc:"Keys sent as bearer."`
	Revoked        string      `yaml:"revoked" doc:"Watched file with one jti, key name or subject a line."`
	RequiredScopes []string    `yaml:"required_scopes" doc:"Scopes every caller needs."`
}

// JWTIssuer is one issuer of bearer tokens.
type JWTIssuer struct {
	Issuer      string   `yaml:"issuer" required:"true" doc:"The iss claim."`
	Audience    string   `yaml:"audience" required:"true" doc:"The aud claim."`
	JWKSURL     string   `yaml:"jwks_url" format:"http-url" doc:"Key set; default: discovered from the issuer."`
	Algorithms  []string `yaml:"algorithms" required:"true" doc:"Signature algorithms that are accepted."`
	TenantClaim string   `yaml:"tenant_claim" doc:"Claim that names the tenant."`
	ScopeClaim  string   `yaml:"scope_claim" default:"scope" doc:"Claim that lists the scopes."`
}

// APIKey is one key, kept as its digest.
type APIKey struct {
	Name    string   `yaml:"name" required:"true" doc:"Name of the key."`
	Hash    string   `yaml:"hash" required:"true" pattern:"^sha256:[0-9a-f]{64}$" doc:"SHA-256 of the key's bytes, lower-case hex."`
	Subject string   `yaml:"subject" required:"true" doc:"Who the key stands for."`
	Tenant  string   `yaml:"tenant" doc:"Tenant of the subject."`
	Scopes  []string `yaml:"scopes" doc:"Scopes of the key."`
	Expires string   `yaml:"expires" pattern:"^[0-9]{4}-[0-9]{2}-[0-9]{2}$" doc:"Day from which the key is refused."`
}

// Placeholder reports whether the hash is nothing but zeros: the place of a key that
// is still to be made.
func (k *APIKey) Placeholder() bool {
	return k.Hash != "" && strings.Trim(strings.TrimPrefix(k.Hash, "sha256:"), "0") == ""
}

// PolicyRule allows or denies targets to callers.
type PolicyRule struct {
	ID       string `yaml:"id" required:"true" doc:"Name of the rule."`
	Who      Who    `yaml:"who" doc:"Callers the rule is about; absent: all."`
	Server   Glob   `yaml:"server" doc:"Virtual servers; default: all."`
	Upstream Glob   `yaml:"upstream" doc:"Upstreams; default: all."`
	Allow    *Names `yaml:"allow" doc:"What is allowed."`
	Deny     *Names `yaml:"deny" doc:"What is denied."`
	When     string `yaml:"when" doc:"CEL condition."`
}

// Who selects callers; every field that is set must match.
type Who struct {
	Issuer  []Glob          `yaml:"issuer" doc:"Issuers."`
	Subject []Glob          `yaml:"subject" doc:"Subjects."`
	Tenant  []Glob          `yaml:"tenant" doc:"Tenants."`
	Scopes  []string        `yaml:"scopes" doc:"Scopes the caller has."`
	Claims  map[string]Glob `yaml:"claims" doc:"Claims, by name."`
}

// Names are globs over names, by kind.
type Names struct {
	Tools     []Glob `yaml:"tools" doc:"Tools."`
	Prompts   []Glob `yaml:"prompts" doc:"Prompts."`
	Resources []Glob `yaml:"resources" doc:"Resources."`
}

// RateLimits limit requests per time.
type RateLimits struct {
	Global       Rate `yaml:"global" doc:"All callers together."`
	PerPrincipal Rate `yaml:"per_principal" doc:"One caller."`
	Burst        int  `yaml:"burst" min:"1" doc:"Requests at once; default: a tenth of a minute's worth, at least 1."`
}

// Hook is an HTTP endpoint that decides.
type Hook struct {
	ID       string   `yaml:"id" required:"true" doc:"Name of the hook."`
	URL      string   `yaml:"url" required:"true" format:"http-url" doc:"Endpoint."`
	Events   []string `yaml:"events" required:"true" enum:"tool.before,tool.after,prompt.before,prompt.after,resource.before,resource.after" doc:"When it is asked."`
	Timeout  Duration `yaml:"timeout" default:"500ms" doc:"How long it may take."`
	OnError  string   `yaml:"on_error" default:"deny" enum:"deny,allow" doc:"What a failure means."`
	MaxBytes Size     `yaml:"max_bytes" default:"1MiB" min:"1" doc:"Larger results are not sent; on_error decides."`
}

// Audit is the audit record: a file or standard output.
type Audit struct {
	File      string   `yaml:"file" doc:"File of JSON lines."`
	Stdout    Toggle   `yaml:"stdout" default:"off" doc:"Write to standard output instead."`
	MaxSize   Size     `yaml:"max_size" default:"100MiB" min:"1" doc:"Size at which the file is rotated."`
	Flush     Duration `yaml:"flush" default:"100ms" doc:"Longest wait before a batch is written."`
	OnFailure string   `yaml:"on_failure" default:"count" enum:"count,refuse" doc:"What happens when it cannot be written."`
	Arguments Toggle   `yaml:"arguments" default:"off" doc:"Record arguments."`
	Key       Secret   `yaml:"key" doc:"Key of the chain's HMAC."`
}
