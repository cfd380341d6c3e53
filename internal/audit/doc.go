// Package audit writes down every request that the gateway answered, in a form
// that shows when somebody has changed it afterwards (DESIGN section 11).
//
// The file holds JSON lines. The path forms the line of an event (Log.Record);
// one goroutine (Log.Run) numbers, chains and writes the lines in batches.
//
// Every line begins with its number and ends with its hash:
//
//	{"seq":7,"time":"2026-11-30T16:42:00.000000Z",…,"hash":"64 hex digits"}
//
// The hash is the SHA-256, or with a key the HMAC-SHA-256, of the hash of the
// line before as 64 hex digits, followed by the line without its hash member:
// `{"seq":7,…}`. Whoever changes, removes, inserts or reorders lines must
// compute all hashes after them anew. Without a key anybody can do that, so
// keep a key out of reach of who can write the file, or keep the last hash
// somewhere else and give it to the verification.
//
// There are four kinds of lines.
//
//   - A header begins each run of a process and each file:
//     {"seq":0,"penstock":"audit/1","instance":…,"run":…,"time":…,"previous":…,"keyed":…}.
//     previous is the last hash of the run or file before, or empty. A new run
//     counts from 0; a header with the number that was due and the same run
//     continues the run, in a new file or after a failure of the disk. With
//     "torn":true the writer found, before this header, the torn end of a line.
//   - An event; which members it has is told at Event.
//   - {"seq":…,"lost":N,"time":…}: N events could not be kept, for the disk did
//     not take them and the queue was full.
//   - {"seq":…,"end":true,"time":…}: the run ended in good order.
package audit
