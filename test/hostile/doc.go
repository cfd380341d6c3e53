// Package hostile holds the tests in which upstreams and clients misbehave:
// one for each row of the faults met in the wild that this version reaches, as
// ROWS.md maps them, and those of bad input.
//
// The kit is raw on purpose: an upstream here writes the bytes it likes, and a
// client sends and sees exact bytes. No library of the protocol takes part.
package hostile
