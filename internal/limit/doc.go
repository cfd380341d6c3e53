// Package limit says how much work a caller may ask for in a time (DESIGN section
// 2, step 3; section 11). What it refuses has cost nothing yet.
package limit
