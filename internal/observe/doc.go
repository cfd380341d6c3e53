// Package observe is what an operator sees of a gateway that runs: metrics for
// Prometheus, traces for OpenTelemetry, and the ids that join an error with the
// log (DESIGN section 2, step 12).
//
// It asks nobody: the gateway tells it of what happened (Metrics.Request and its
// siblings, Tracer.Start), and lends it one function that is called when somebody
// looks (Metrics.Watch). Three rules hold throughout:
//
//  1. Nothing here can harm a request. No call waits, takes a lock that another
//     request holds for long, or fails; a nil *Metrics and a nil *Tracer do nothing.
//  2. Every label has a bounded number of values, whatever peers send. No tool,
//     subject, address or path is a label.
//  3. The environment has no say. Where traces go is in the document alone.
package observe
