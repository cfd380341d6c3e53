package peers

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"
)

// Server is a program that serves MCP over streamable HTTP.
type Server struct {
	// Name is fit for a configuration key.
	Name     string
	Language Language
	path     string                                 // of its URL
	command  func(port string) (env, argv []string) // paths are relative to the root of the repository
}

// GoEverything is the conformance server of the Go SDK. Stateless, it speaks both eras without sessions; otherwise it
// keeps legacy sessions and refuses the modern era.
func GoEverything(stateless bool) Server {
	name := "gostateful"
	if stateless {
		name = "gostateless"
	}
	return Server{Name: name, Language: Go, path: "/mcp", command: func(port string) (env, argv []string) {
		return nil, []string{"build/peers/go-everything", "-http=127.0.0.1:" + port, "-stateless=" + strconv.FormatBool(stateless)}
	}}
}

// Witness is a server on the Go SDK that tells what became of a cancelled call (golang/witness), in the file record.
// Stateless and not are as with GoEverything.
func Witness(stateless bool, record string) Server {
	return Server{Name: "witness", Language: Go, path: "/mcp", command: func(port string) (env, argv []string) {
		return nil, append(witnessArgv("", record), "-http=127.0.0.1:"+port, "-stateless="+strconv.FormatBool(stateless))
	}}
}

// witnessArgv starts the witness over stdio, from the root of the repository.
func witnessArgv(root, record string) []string {
	return []string{filepath.Join(root, "build/peers/go-witness"), "-record=" + record}
}

// MCPGo is the conformance server of mark3labs/mcp-go: both eras at one URL.
func MCPGo() Server {
	return Server{Name: "mcpgo", Language: Go, path: "/mcp", command: func(port string) (env, argv []string) {
		return []string{"CONFORMANCE_ADDR=127.0.0.1:" + port}, []string{"build/peers/mcp-go"}
	}}
}

// NpmEverything is @modelcontextprotocol/server-everything on the first TypeScript SDK: legacy, with sessions.
func NpmEverything() Server {
	return Server{Name: "everything", Language: JavaScript, path: "/mcp", command: func(port string) (env, argv []string) {
		const program = "build/js/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
		return []string{"PORT=" + port}, []string{nodePath, program, "streamableHttp"}
	}}
}

// TSv2Server is a server on the second TypeScript SDK (js/server-v2.mjs): both eras, without sessions.
func TSv2Server() Server {
	return Server{Name: "tsv2", Language: JavaScript, path: "/mcp", command: func(port string) (env, argv []string) {
		return nil, []string{nodePath, "build/js/server-v2.mjs", port}
	}}
}

// FastMCP is a server on FastMCP from PyPI (python/fastmcp_server.py): both eras, with legacy sessions.
func FastMCP() Server {
	return Server{Name: "fastmcp", Language: Python, path: "/mcp", command: func(port string) (env, argv []string) {
		return nil, []string{pythonPath, "test/peers/python/fastmcp_server.py", port}
	}}
}

// FastMCPTasks is a server on FastMCP with the package fastmcp-tasks (python/fastmcp_tasks_server.py): the tasks extension
// of the modern era, and legacy sessions without tasks.
func FastMCPTasks() Server {
	return Server{Name: "fastmcptasks", Language: Python, path: "/mcp", command: func(port string) (env, argv []string) {
		return nil, append(fastMCPTasksArgv(""), port)
	}}
}

// FastMCPTasksArgv starts the same server over stdio.
func FastMCPTasksArgv() ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	return fastMCPTasksArgv(root), nil
}

func fastMCPTasksArgv(root string) []string {
	return []string{filepath.Join(root, pythonPath), filepath.Join(root, "test/peers/python/fastmcp_tasks_server.py")}
}

// Running is a server that accepts connections.
type Running struct {
	*Process
	// URL is its endpoint.
	URL string
}

// Start starts the server on a free loopback port and waits until it accepts connections or ctx is done. The caller ends
// it with Kill.
func (s Server) Start(ctx context.Context) (*Running, error) {
	if err := Setup(); err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	// These programs cannot be told to pick a port themselves, so another process may take it first: try again then.
	for range 3 {
		var address string
		if address, err = freeAddress(); err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(address)
		env, argv := s.command(port)
		var p *Process
		if p, err = launch(root, env, argv); err != nil {
			return nil, err
		}
		if err = p.awaitPort(ctx, address); err == nil {
			return &Running{Process: p, URL: "http://" + address + s.path}, nil
		}
		p.Kill()
		err = fmt.Errorf("%s: %w\n%s", s.Name, err, p.Output())
	}
	return nil, err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (p *Process) awaitPort(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", ctx.Err())
		case <-p.done:
			return fmt.Errorf("ended before it was ready: %w", p.err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
