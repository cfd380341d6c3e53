// Package demo holds small, complete MCP servers of each era and transport for
// `penstock demo` and for tests that want a believable upstream: a lending
// library that speaks 2026-07-28 without sessions, a workshop that speaks the
// revisions with sessions and keeps state in each, a writer's bench that speaks
// those over stdio, and a job shop whose calls become tasks, in both dialects.
//
// They are written on net/http alone, so that they share no protocol code with
// the SDKs that clients are built on. They are safe for concurrent use, start no
// goroutines, and forget everything when they are dropped.
package demo
