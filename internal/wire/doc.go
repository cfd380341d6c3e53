// Package wire turns bytes into meaning and back, without any I/O of its own:
// the strict parser of requests, the skipping scanner of answers, the streaming
// rewriter of answers, splicing and line-safe framing (DESIGN sections 3 and 2.4).
//
// Nothing here decodes a value in order to encode it again. A message is its
// raw bytes and the spans of the few values that somebody decides on; a change
// puts new bytes at a span and leaves every other byte, white space included.
//
// Requests, and whatever a decision rests on, are read by jsontext, which
// refuses duplicate names and invalid UTF-8. Answers can be megabytes, and are
// passed over by looking for string ends and brackets only.
//
// Functions are safe for concurrent use; values are not, but for reading.
package wire
