// Package gateway is the pipeline: one request's way, and the wiring of the
// rooms it passes through (DESIGN section 2).
//
//  1. Accept (north). Headers and connections are bounded, Host and Origin checked.
//  2. Identify. Without auth in this version there is one principal: local, or
//     anonymous where the gateway listens beyond loopback.
//  3. Admit (north). Requests in flight are counted by principal.
//  4. Read (north). The body is bounded and parsed once, strictly; the era is
//     decided; what checklist T1 demands is checked in its order.
//  5. Resolve (catalog). A name or URI becomes a target: one upstream and the
//     name it has there. A list becomes the list of upstreams.
//  6. Call (south). The client's own bytes go on, with our JSON-RPC id, the
//     target's own name, and the metadata of the upstream's era spliced in.
//     What arrives before the answer leaves before it, on the same goroutine.
//  7. Project. Identifiers are mapped back, the result is shaped for the
//     client's revision, the origin tag and our serverInfo are put in _meta.
//     A small answer is held whole; a large one streams through a window.
//
// Serve is steps 5 to 7. It returns an error instead of writing one: north maps
// it to a code and a status in one place, and logs it there.
package gateway
