// Package peers runs Penstock between real MCP servers and real MCP clients that other people wrote: the Go, TypeScript
// and Python SDKs, mcp-go, the npm everything server and FastMCP (DESIGN section 15).
//
// A [Server] is a program that serves MCP on a loopback port, a [Client] one that drives an endpoint through a script of
// steps and reports what it saw, and a [Gateway] is Penstock itself, started as an operator would start it. All of them
// are separate processes; scripts/setup-peers.sh installs them under build/. Peers in other languages than Go are
// optional on a developer's machine and required where CI=true.
package peers
