// Package artifact judges what the worker of the qualification has written. It
// is given what the caller knows, and trusts nothing that the worker says: it
// shares no code with the writer but the form of a digest.
package artifact
