// Package north is what clients connect to: streamable HTTP of both eras on
// one path, stdio of both eras, and the table of legacy sessions (DESIGN
// sections 2 to 4, 7).
//
// It does steps 1 to 4 of a request's way: accept, identify, admit, read and
// validate in the order of checklist T1. What a request means is the
// Gateway's to say; how its answer is framed is decided here.
package north
