package tables

import "testing"

// OpenDB opens an SQLite file; a package that imports this one sets it.
var OpenDB func(t testing.TB, path string) DB

func openDB(t testing.TB, path string) DB { return OpenDB(t, path) }
