// Package hook asks the operator's decision hooks what may happen: HTTP
// endpoints of the document, and Go functions of the embedding surface
// (DESIGN section 2, steps 7 and 10, and section 11).
//
// A Set holds the hooks of one document. For one event of one call, Run goes
// through those that want it, in the document's order. With each of them:
//
//  1. What the hook would be shown is measured, and a result is read strictly:
//     a decision rests on it, so it must not read differently elsewhere.
//  2. The hook's breaker is asked (below).
//  3. The hook is asked once, within its timeout: one POST, or one call of its
//     function. The timeout is over everything, waiting for a connection and
//     reading the answer included.
//  4. The answer is read strictly. Anything but what the document describes is
//     a failure.
//  5. Allow goes on with the next hook, which sees what this one rewrote. Deny
//     ends with fault.HookRefused. A failure goes on where on_error is allow,
//     and ends with fault.HookFailed where it is deny.
//
// A caller that goes away ends the question, and that is no failure of the hook.
//
// # A hook that is down
//
// After 5 failures in a row a hook is left alone for 5 s: it fails at once, so
// that a hook that hangs does not cost every request its timeout. Then one
// request asks it again, while the others still fail at once; its success ends
// this, its failure starts another 5 s. While it lasts, on_error decides as for
// any other failure. Refusals, results that are too large or broken, and callers
// that went away do not count towards it. A caller whose calls make a hook fail can
// have it left alone for everybody: a hook that must see every call needs on_error
// deny.
//
// # Bounds
//
// A hook has at most 64 connections, or 64 runs of its function, at a time;
// whoever comes then waits within its timeout. A function that ignores its
// deadline keeps its place until it returns, so there are at most 64 of them;
// while they are that many, the hook fails at once. An answer is read up to
// max_bytes and 64 KiB.
package hook
