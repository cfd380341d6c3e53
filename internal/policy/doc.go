// Package policy decides who may see and call what (DESIGN section 11).
//
// A policy is an ordered list of rules over who is asking, the server, the
// upstream and globs of names, each with an optional condition in CEL. It is
// used in four steps:
//
//  1. Compile checks every rule, type-checks and bounds every condition, and
//     reports every fault of every rule with its place.
//  2. Policy.For selects, once per verified token, the rules whose "who" fits
//     the caller. Callers for whom the same rules hold in the same way share
//     what is selected, and have one View.ID.
//  3. View.Sees answers lists, completions and polls, where the arguments are
//     not known; View.Decide answers a call, where they are. Both judge a
//     target under all its names at once, with the same rules.
//  4. View.Explain tells an operator, rule by rule, why.
//
// Any deny that matches wins; otherwise the first allow that matches;
// otherwise no. A condition is true, false, unknown or failed. Unknown never
// hides. A condition that failed counts as true in a deny and as false in an
// allow. A nil *Policy and a nil *View allow everything.
//
// Everything here is safe for concurrent use, does no I/O and starts no
// goroutine.
package policy
