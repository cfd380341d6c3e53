// Package counting is an upstream of durable tasks for tests, which counts how
// often each logical task was begun, and does to single requests whatever can be
// done to them: it loses them or their answers, answers late or twice, under
// another id, without the envelope or with another one, with too much, at once,
// or with a refusal.
//
// It is reached in two ways: as a durable.Source in this process, and as an MCP
// server over HTTP.
package counting
