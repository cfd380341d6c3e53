package config

import "slices"

// unavailable lists the keys whose feature this version does not have. They are
// described by the structs and refused by name, never ignored. "*" stands for any
// key of a map. A version that brings a feature takes its lines away.
var unavailable []string

const notAvailable = "not available in this version"

// unavailableKey tells whether the key at this path of the description is refused.
func unavailableKey(template string) bool { return slices.Contains(unavailable, template) }
