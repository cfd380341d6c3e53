//go:build !race

package durable

// modelSteps are the steps of the store and of the worker that one walk makes at
// least.
const modelSteps = 50_000
