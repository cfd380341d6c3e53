// Package neutral is what the qualification runs durable tasks against: a
// provider that speaks 2026-07-28 over stdio and has one tool, and the worker
// that the provider starts as a process of its own for each task. The work, to
// normalize a small JSON object, means nothing to anybody.
//
// What happened is told by files, one an event, that the provider and the worker
// drop below the provider's root; so what is counted is what the processes did,
// and not what the gateway says that they did. The provider never recognizes a
// submission that it has seen: one that is sent twice is counted twice.
//
// It is a fixture of the qualification and no service. Nothing confines a worker
// but the bounds that it keeps of itself.
package neutral

import "time"

// The hidden subcommands.
const (
	UpstreamCommand = "__neutral-upstream"
	WorkerCommand   = "__neutral-worker"
)

// Tool is the one tool of the provider.
const Tool = "normalize_json"

// Schemas of what a worker writes.
const (
	ResultSchema   = "penstock.neutral-result/1"
	ManifestSchema = "penstock.neutral-manifest/1"
)

// Names of what a worker writes.
const (
	ResultFile   = "result.json"
	ManifestFile = "manifest.json"
)

// OutputFolder is below the provider's root, and holds what workers write.
const OutputFolder = "output"

// Bounds that a worker keeps.
const (
	MaxInput      = 4 << 10  // of the input, in bytes
	MaxArtifacts  = 64 << 10 // of all files together, in bytes
	MaxComponents = 8        // of an output directory
	MaxDelay      = 10 * time.Second
)
