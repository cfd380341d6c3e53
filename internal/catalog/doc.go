// Package catalog knows what the federation offers: the name table that routes
// every identifier, the merged lists of tools, prompts, resources and
// templates, the cursors that page through them, and the union of
// capabilities (DESIGN sections 5 and 6).
//
// A Server is the catalog of one virtual server. It reaches upstreams only
// through the Fetcher that its maker gives it, keeps what they listed as
// immutable snapshots, and builds from them an immutable table per set of
// snapshots: requests read it behind an atomic pointer, without a lock.
//
// The same snapshots always give the same names and the same bytes, whatever
// the order in which upstreams answered.
package catalog
