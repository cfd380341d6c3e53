package mcp

// Method names that the gateway knows.
const (
	Initialize         = "initialize"
	Initialized        = "notifications/initialized"
	Discover           = "server/discover"
	Ping               = "ping"
	ToolsList          = "tools/list"
	ToolsCall          = "tools/call"
	PromptsList        = "prompts/list"
	PromptsGet         = "prompts/get"
	ResourcesList      = "resources/list"
	ResourcesTemplates = "resources/templates/list"
	ResourcesRead      = "resources/read"
	Complete           = "completion/complete"
	SetLevel           = "logging/setLevel"
	Listen             = "subscriptions/listen"
	Subscribe          = "resources/subscribe"
	Unsubscribe        = "resources/unsubscribe"
	TasksGet           = "tasks/get"
	TasksUpdate        = "tasks/update"
	TasksCancel        = "tasks/cancel"
	TasksChanged       = "notifications/tasks"
	TasksResult        = "tasks/result"
	TasksList          = "tasks/list"
	TasksStatus        = "notifications/tasks/status"
	Cancelled          = "notifications/cancelled"
	Progress           = "notifications/progress"
	LogMessage         = "notifications/message"
	RootsListChanged   = "notifications/roots/list_changed"
	Acknowledged       = "notifications/subscriptions/acknowledged"
	ResourceUpdated    = "notifications/resources/updated"
	ElicitationDone    = "notifications/elicitation/complete"
)

// NameSource says which parameter the Mcp-Name header repeats.
type NameSource uint8

// The sources of Mcp-Name (checklist 22).
const (
	NoName NameSource = iota
	FromName
	FromURI
	FromTaskID
)

// Method is what the gateway knows of a request method.
type Method struct {
	Name   string
	Modern bool // served to modern clients
	Legacy bool // served to legacy clients
	Header NameSource
	List   bool // one of the four list methods; Kind says which
	Kind   Kind
	Safe   bool // a read: repeating it has no effect (checklist T24)
	Stream bool // it is open for as long as the client likes, and has no deadline
}

var methods = map[string]*Method{}

func init() {
	for _, m := range []*Method{
		{Name: Initialize, Legacy: true},
		{Name: Discover, Modern: true, Safe: true},
		{Name: Ping, Legacy: true, Safe: true},
		{Name: ToolsList, Modern: true, Legacy: true, List: true, Kind: Tools, Safe: true},
		{Name: ToolsCall, Modern: true, Legacy: true, Header: FromName, Kind: Tools},
		{Name: PromptsList, Modern: true, Legacy: true, List: true, Kind: Prompts, Safe: true},
		{Name: PromptsGet, Modern: true, Legacy: true, Header: FromName, Kind: Prompts, Safe: true},
		{Name: ResourcesList, Modern: true, Legacy: true, List: true, Kind: Resources, Safe: true},
		{Name: ResourcesTemplates, Modern: true, Legacy: true, List: true, Kind: Templates, Safe: true},
		{Name: ResourcesRead, Modern: true, Legacy: true, Header: FromURI, Kind: Resources, Safe: true},
		{Name: Complete, Modern: true, Legacy: true, Safe: true},
		{Name: SetLevel, Legacy: true, Safe: true},
		{Name: Listen, Modern: true, Stream: true},
		{Name: Subscribe, Legacy: true},
		{Name: Unsubscribe, Legacy: true},
		{Name: TasksGet, Modern: true, Legacy: true, Header: FromTaskID, Safe: true},
		{Name: TasksUpdate, Modern: true, Header: FromTaskID},
		{Name: TasksCancel, Modern: true, Legacy: true, Header: FromTaskID},
		{Name: TasksResult, Legacy: true, Header: FromTaskID, Safe: true},
		{Name: TasksList, Legacy: true, Safe: true},
	} {
		methods[m.Name] = m
	}
}

// LookupMethod returns what is known of a request method, or nil. The result
// is shared and must not be changed.
func LookupMethod(name []byte) *Method { return methods[string(name)] }

// LogLevels in rising order of severity; a level is valid if it is one of them.
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// ValidLogLevel reports whether s is a level of the protocol (checklist 29).
func ValidLogLevel(s string) bool {
	for _, l := range LogLevels {
		if l == s {
			return true
		}
	}
	return false
}
