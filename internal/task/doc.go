// Package task remembers who owns which task (DESIGN section 9).
//
// A task id is opaque, and never rewritten. What a client may do with it is told by
// a record that is kept from the mint on, under the SHA-256 of the id and the
// principal it was minted for. Another principal's task is an unknown one.
//
//   - Index keeps the records: a slot before a call that may mint, the mint before a
//     byte of it leaves, the lifetime as the task tells it, the sweep behind.
//   - Locator looks for a task without a record, once, and only with reads.
//   - Flights makes one upstream call of concurrent identical polls.
package task
