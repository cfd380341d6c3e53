// Package direct reaches an upstream of durable tasks over the stdio of a child
// process, without the gateway in between: it is the simplest true
// durable.Source. A child is one connection session; when it ends there is no
// other.
package direct
