// Package idp runs a real identity provider for tests: the program test/peers/golang/idp, on zitadel/oidc, as a process
// of its own (DESIGN section 15). It mints tokens of any content, turns its keys over, counts what it is asked, fails on
// purpose and dies when told to. What the provider would never sign is forged here, by the standard library alone.
package idp
