// Package store keeps what must outlive a request: records, and the interface
// of one repository for each room that keeps state (DESIGN section 12). Each
// engine is a package of its own and passes the same conformance suite.
package store
