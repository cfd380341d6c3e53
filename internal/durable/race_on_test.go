//go:build race

package durable

// modelSteps under the race detector, which makes each some times dearer.
const modelSteps = 10_000
