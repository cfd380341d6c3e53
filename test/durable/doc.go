// Package durable holds the black-box tests of durable tasks: the example workers of docs/durable.md as processes, and what that page says.
package durable
