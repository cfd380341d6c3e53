package mcp

// Kind is a kind of thing that an upstream offers and a list names.
type Kind uint8

// The kinds, in the order in which the protocol lists them.
const (
	Tools Kind = iota
	Prompts
	Resources
	Templates
	NumKinds
)

// String is the kind's plural, as lists and logs name it.
func (k Kind) String() string {
	return [...]string{"tools", "prompts", "resources", "resourceTemplates"}[k]
}

// Method is the kind's list method.
func (k Kind) Method() string {
	return [...]string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}[k]
}

// ID is the member of an item that identifies it: name, uri or uriTemplate.
func (k Kind) ID() string {
	return [...]string{"name", "name", "uri", "uriTemplate"}[k]
}

// Changed is the notification that a list of the kind has changed. Templates
// share that of resources.
func (k Kind) Changed() string {
	return [...]string{
		"notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/list_changed",
	}[k]
}

// ParseChanged returns the kind that a list_changed notification is about.
func ParseChanged(method string) (Kind, bool) {
	for k := range Templates {
		if k.Changed() == method {
			return k, true
		}
	}
	return 0, false
}
