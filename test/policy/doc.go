// Package policy holds the black-box tests of what callers may see and call
// (DESIGN section 11): that lists and calls follow one decision on every path to
// a target, and that nothing runs at an upstream that the policy did not see. The
// oracle is written from the sentences of the design, not from the gateway's code.
package policy
