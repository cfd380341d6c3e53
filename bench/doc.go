// The program bench measures what Penstock costs beside a plain reverse proxy:
//
//	go run ./bench                       every cell, three times, a Markdown table on stdout
//	go run ./bench -cells call-1k -r 1   only the cells whose name begins so, once
//	go run ./bench -list                 what the cells are
//
// It starts three programs on free ports of the loopback: an upstream that
// speaks MCP over bare sockets, a plain httputil.ReverseProxy, and Penstock.
// The first two are this program too, in another role; Penstock is built from
// this tree, or named with -penstock. The figure it steers by is the CPU time
// of the hop's process per call, which holds where latency does not, as a ratio
// to the plain hop of the same run (DESIGN section 14). Every answer is
// checked; a wrong one makes the program exit with 1. docs/performance.md
// tells how to read what it prints. It needs the /proc of Linux.
package main
