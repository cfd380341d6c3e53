// Package grant gets the tokens with which the gateway calls upstreams: its own
// by client credentials (RFC 6749 4.4), and a caller's by token exchange
// (RFC 8693), as DESIGN section 11 has it.
//
//  1. A token that is held and still good is handed out: one look-up, no lock.
//  2. In the last tenth of its use one renewal runs behind the callers' backs.
//  3. Without one, all callers of the same key share one request to the token
//     endpoint. It belongs to none of them and ends by its own deadline; each
//     caller leaves when its own context ends.
//  4. A failure is remembered for a moment, so that a provider that is down or
//     refuses sees one request per key and moment, never a stampede.
//  5. An upstream that answers 401 has its token forgotten, unless a newer one is
//     in place already, and a key gets a new one so at most once a second.
//
// Every ClientCredentials and every Exchange has tokens, connections and failures
// of its own: nothing is shared between upstreams, be their addresses equal, and
// within an Exchange nothing between subjects. Audience, resource and scopes are
// fixed for an Exchange, so the subject's hash is the rest of the key.
//
// Secrets and tokens go to the one token endpoint of the configuration and
// nowhere else: redirects are refused and no proxy is read from the environment.
// They are in no error and no log line; nor is anything a provider writes, which
// may repeat them, but for the registered error codes.
package grant
