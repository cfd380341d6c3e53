// Package south is how upstreams are reached: streamable HTTP of both eras,
// and child processes that speak stdio of both eras, with the era probe, the
// pool of legacy sessions, deadlines, concurrency and the circuit breaker of
// each upstream (DESIGN sections 4, 7 and 11).
//
// One Upstream is one configured server. A call takes a Link (the era, and for
// a legacy upstream the session that the caller's messages belong to), builds
// its body for that era, and sends it. The answer is read on the caller's
// goroutine, in the order in which the upstream wrote it.
//
// A child's one output is read by a goroutine of its own, which hands each
// message to the call that it is for; the files named child_ hold all of that. A
// child is one process for all callers, and one more for each session key whose
// caller a legacy child may ask.
//
// A Watch hears what an upstream says without being asked (DESIGN section 8);
// the files named watch_ hold all of that.
package south
