package durable

import (
	"encoding/json"
	"slices"
)

// Effect is the class of what a tool may do to the world.
type Effect string

// The effects, from the mildest.
const (
	ReadOnly           Effect = "read_only"
	IdempotentWrite    Effect = "idempotent_write"
	NonIdempotentWrite Effect = "non_idempotent_write"
)

var effects = []Effect{ReadOnly, IdempotentWrite, NonIdempotentWrite}

// parseEffects reads the sideEffects of a lease: 1 to 3 of the effects, each
// once. They come back from the mildest. Absent, it is read_only alone.
func parseEffects(raw json.RawMessage) ([]Effect, bool) {
	if raw == nil {
		return []Effect{ReadOnly}, true
	}
	var list []Effect
	if json.Unmarshal(raw, &list) != nil || len(list) < 1 || len(list) > len(effects) {
		return nil, false
	}
	slices.SortFunc(list, func(a, b Effect) int { return slices.Index(effects, a) - slices.Index(effects, b) })
	for i, e := range list {
		if !slices.Contains(effects, e) || i > 0 && list[i-1] == e {
			return nil, false
		}
	}
	return list, true
}

// granted tells whether the present credential of a caller allows an effect.
// Either spelling of the scope does. The local caller needs none.
func (who *Caller) granted(e Effect) bool {
	return e == ReadOnly || who.Local || slices.Contains(who.Scopes, Penstock.Scope(e)) || slices.Contains(who.Scopes, GaugeMesh.Scope(e))
}
