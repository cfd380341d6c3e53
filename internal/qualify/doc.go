// Package qualify is `penstock verify --durable-tasks`: it shows on this machine,
// with this binary, that a durable submission survives a lost answer and a
// restart of its router and runs once, and that what must be refused is refused
// (seed 003).
//
// Everything but the caller is real. The upstream is a process that this binary
// starts from itself (package neutral), the work is done by processes that the
// upstream starts, the store is SQLite in a temporary folder, and the router is
// the coordinator that the gateway uses. The router is closed and opened again
// over the same file while the upstream stays connected, so it is driven without
// the gateway's endpoint: the caller speaks JSON-RPC to it through a pipe in this
// process.
//
// Nothing is taken from the router's word that can be counted elsewhere: the
// provider and its workers leave a file for everything that they do, and the
// artifacts are judged by package artifact, which knows only what the caller
// knows.
//
// The checks, in order: (1) discovery; (2) lease and submission, whose answer is
// lost, and the end of the router; (3) another router over the same file, and
// the same submission again; (4) the same key with another input; (5) an update;
// (6) the end of the task; (7) its artifacts, and how often it ran; (8) artifacts
// that must be refused; (9) a deadline that nobody polls for; (10) the end of
// everything, without a trace.
package qualify
