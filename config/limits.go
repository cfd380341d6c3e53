package config

// Limits bound everything that could grow: bytes, connections, sessions, waits.
type Limits struct {
	RequestBytes         Size     `yaml:"request_bytes" default:"4MiB" min:"1" doc:"Largest request body of a client."`
	HeaderBytes          Size     `yaml:"header_bytes" default:"64KiB" min:"1" doc:"Largest request header of a client."`
	Connections          int      `yaml:"connections" default:"10000" min:"1" doc:"Open client connections."`
	ResponseBytes        Size     `yaml:"response_bytes" default:"64MiB" min:"1" doc:"Largest answer of one upstream; a larger one fails that call and nothing else."`
	CallTimeout          Duration `yaml:"call_timeout" default:"60s" doc:"How long a call may go without progress; each progress notification restarts it."`
	CallTimeoutMax       Duration `yaml:"call_timeout_max" default:"10m" doc:"How long a call may take in all, however much progress it reports."`
	InputTimeout         Duration `yaml:"input_timeout" default:"30m" doc:"How long a question to the user may stay open; the clock of the call stands still meanwhile."`
	ListTimeout          Duration `yaml:"list_timeout" default:"3s" doc:"How long one upstream may take in a merged list."`
	ListItems            int      `yaml:"list_items" default:"20000" min:"1" doc:"Items per upstream and kind in a merged list."`
	IdleSession          Duration `yaml:"idle_session" default:"30m" doc:"A legacy session unused for this long ends."`
	Sessions             int      `yaml:"sessions" default:"50000" min:"1" doc:"Legacy sessions in all."`
	SessionsPerPrincipal int      `yaml:"sessions_per_principal" default:"1000" min:"1" doc:"Legacy sessions of one caller."`
	StreamsPerPrincipal  int      `yaml:"streams_per_principal" default:"100" min:"1" doc:"Open streams of one caller."`
	InFlightPerPrincipal int      `yaml:"in_flight_per_principal" default:"256" min:"1" doc:"Requests of one caller that run at the same time."`
	ParkedPerPrincipal   int      `yaml:"parked_per_principal" default:"32" min:"1" doc:"Calls of one caller that wait for an answer of the user."`
	Keepalive            Duration `yaml:"keepalive" default:"15s" doc:"Interval of the comments that keep an event stream open."`
	Queue                int      `yaml:"queue" default:"256" min:"1" doc:"Change notifications held for one slow reader."`
	ResumeEvents         int      `yaml:"resume_events" default:"1000" min:"1" doc:"Events kept per legacy session for resumption."`
	CacheBytes           Size     `yaml:"cache_bytes" default:"64MiB" min:"1" doc:"Memory for rendered lists."`
}
