// Package governance holds the black-box tests of who may call and what the gateway shows upstreams, against a real
// identity provider (package idp; DESIGN sections 11 and 15).
//
// The gateway is the public one, made of a document and served over HTTP. The client and the upstream are raw, so that
// every header is seen as it went. Nothing here knows how identity or credentials are kept inside: a test says what was
// sent, and holds what came back, what the upstream saw, and how often the provider was asked.
package governance
