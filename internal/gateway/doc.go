// Package gateway is the pipeline: one request's way, and the wiring of the
// rooms it passes through (DESIGN section 2).
//
//  1. Accept (north). Headers and connections are bounded, Host and Origin checked.
//  2. Identify (auth; identify.go). From the headers alone: a principal, or a
//     refusal that tells how to get one. Without auth there is one: local, or
//     anonymous where the gateway listens beyond loopback.
//  3. Admit (limit; admit.go). What has to be recorded can be; then rates, of the
//     principal and of all, and in north its requests in flight.
//  4. Read (north). The body is bounded and parsed once, strictly; the era is
//     decided; what checklist T1 demands is checked in its order. A legacy
//     request belongs to a session of its principal.
//  5. Resolve (catalog; call.go). A name or URI becomes a target: one upstream and
//     the name it has there. A list becomes the list of upstreams.
//  6. Authorize (policy; judge.go). On the target under all its names, and the
//     arguments. What no rule could allow is answered as what does not exist.
//  7. Before hooks (hook; hooks.go). They refuse, or rewrite the arguments, which
//     are parsed strictly and authorized again.
//  8. Call (south; outbound.go). The upstream's rate, its session, the credential
//     (credentials.go). The client's own bytes go on, with our JSON-RPC id, the
//     target's own name, and the metadata of the upstream's era spliced in.
//     What arrives before the answer leaves before it, on the same goroutine.
//     Questions are asked here, in rounds or by a call that is parked.
//  9. Remember (task; mint.go). Who owns a task that the upstream made of the call
//     is committed, before hooks and before a byte of it leaves.
//  10. After hooks (hook; hooks.go). They refuse or rewrite a result that is held
//     whole for them.
//  11. Project (answer.go). Identifiers are mapped back, the result is shaped for
//     the client's revision, the origin tag and our serverInfo are put in _meta.
//     A small answer is held whole; a large one streams through a window.
//  12. Record (audit, observe; record.go). One event on north's one exit, for
//     refusals and panics, too.
//
// Serve is steps 5 to 11. It returns an error instead of writing one: north maps
// it to a code and a status in one place, and logs it there. Lists are judged when
// they are shown (caller.go): who sees the same shares what was rendered.
//
// govern.go makes the rooms of governance for a document, and keeps over a reload
// what the document does not change. oversee.go ends the streams of callers who
// are not let in any more.
package gateway
