package durable

// Effect is the class of what a tool may do to the world.
type Effect string

// The effects, from the mildest.
const (
	ReadOnly           Effect = "read_only"
	IdempotentWrite    Effect = "idempotent_write"
	NonIdempotentWrite Effect = "non_idempotent_write"
)
