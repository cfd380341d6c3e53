// Package chaos holds the tests in which processes die, freeze, move and come
// back while clients are served: gateways, upstreams, children, replicas and
// the database. They need Linux, whose /proc they read.
//
// The gateway is the command, built once, and its upstreams are processes of
// their own, the test binary in another role. `make test` runs the short form;
// `make chaos`, which sets PENSTOCK_CHAOS=long, runs the long one.
package chaos
