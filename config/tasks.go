package config

// Tasks says how ownership of tasks is kept (DESIGN section 9).
type Tasks struct {
	Probe           string   `yaml:"probe" default:"caller" enum:"caller,on,off" doc:"Where an id without a record may be looked for."`
	ProbeRate       Rate     `yaml:"probe_rate" default:"30/m" doc:"Searches per principal."`
	MissTTL         Duration `yaml:"miss_ttl" default:"5s" doc:"How long a miss is remembered."`
	Drive           string   `yaml:"drive" default:"legacy" enum:"off,legacy,on" doc:"Drive a task for a client that has none."`
	Optional        string   `yaml:"optional" default:"task" enum:"task,call" doc:"What a call is at a server of 2025-11-25 whose tool may run as a task or not, for a client that takes tasks."`
	TTL             Duration `yaml:"ttl" doc:"The lifetime asked for of a task at a server of 2025-11-25. Default: the server's own."`
	Grace           Duration `yaml:"grace" default:"10m" doc:"How long a record is kept after its task has passed."`
	UnlimitedTTL    Duration `yaml:"unlimited_ttl" default:"168h" doc:"How long a record without an end is kept after its last use."`
	Max             int      `yaml:"max" default:"1000000" min:"1" doc:"Records in all."`
	MaxPerPrincipal int      `yaml:"max_per_principal" default:"10000" min:"1" doc:"Records of one principal."`
}

// Durable bounds durable tasks (DESIGN section 10).
type Durable struct {
	Enabled            string   `yaml:"enabled" default:"auto" enum:"auto,off" doc:"auto: when the store is durable and an upstream is eligible."`
	MaxRoutes          int      `yaml:"max_routes" default:"4096" min:"1" doc:"Routes in all."`
	MaxRoutesPerCaller int      `yaml:"max_routes_per_caller" default:"256" min:"1" doc:"Routes of one caller."`
	MaxRuntime         Duration `yaml:"max_runtime" default:"30s" doc:"Longest run."`
	MaxRetention       Duration `yaml:"max_retention" default:"1h" doc:"Longest retention of an outcome."`
	Watchdog           Toggle   `yaml:"watchdog" default:"off" doc:"Look after running tasks that nobody polls."`
	Updates            string   `yaml:"updates" default:"refuse" enum:"refuse,persist" doc:"What happens to updates."`
	RequireLease       Toggle   `yaml:"require_lease" default:"true" doc:"A new submission needs a live lease."`
}
