package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// hop is something that stands between client and upstream.
type hop struct {
	name string
	// argv is the command that starts it in front of the cell's upstreams.
	argv func(c *cell, upstream string) ([]string, error)
	// path is that of the endpoint which the cell's clients use.
	path func(c *cell) string
	// tool is the name there of the k-th tool of the i-th upstream.
	tool func(i, k int) string
}

const (
	plainName    = "plain"
	penstockName = "penstock"
)

// plainHop runs program (this one) in its role of a plain reverse proxy. A
// client meets the upstream of its own era there, for a proxy cannot translate.
func plainHop(program string) hop {
	return hop{
		name: plainName,
		argv: func(_ *cell, upstream string) ([]string, error) {
			return []string{program, "plain", "-upstream", upstream}, nil
		},
		path: func(c *cell) string {
			at := c.at(0)
			at.era = c.client
			return at.path()
		},
		tool: func(_, k int) string { return toolName(k) },
	}
}

// penstockHop runs the binary with a document in dir.
func penstockHop(binary, dir string) hop {
	return hop{
		name: penstockName,
		argv: func(c *cell, upstream string) ([]string, error) {
			state := "memory:"
			if c.callers > 0 { // what must not be lost is on a disk
				own, err := os.MkdirTemp(dir, "state-")
				if err != nil {
					return nil, err
				}
				state = "sqlite:" + filepath.Join(own, "penstock.db")
			}
			document := filepath.Join(dir, c.name+".yaml")
			if err := os.WriteFile(document, []byte(penstockDocument(c, state, upstream)), 0o600); err != nil {
				return nil, err
			}
			return []string{binary, "serve", "--config", document, "--listen", "127.0.0.1:0", "--log-level", "warn"}, nil
		},
		path: func(*cell) string { return "/mcp" },
		tool: func(i, k int) string { return fmt.Sprintf("u%d__%s", i, toolName(k)) },
	}
}

// penstockDocument is what a user would write: the defaults, but for a number
// of sessions that one caller rarely has.
func penstockDocument(c *cell, state, upstream string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "state: %q\nadmin: off\nlimits: {sessions_per_principal: 50000}\n", state)
	if c.callers > 0 {
		b.WriteString("auth:\n  api_keys:\n")
	}
	for i := range c.callers {
		fmt.Fprintf(&b, "    - {name: c%d, hash: \"sha256:%x\", subject: c%d, scopes: [mcp]}\n", i, sha256.Sum256([]byte(callerKey(i))), i)
	}
	b.WriteString("upstreams:\n")
	for i := range c.upstreams {
		fmt.Fprintf(&b, "  u%d: {url: \"%s%s\"}\n", i, upstream, c.at(i).path())
	}
	return b.String()
}

// callerKey is the API key of the i-th caller.
func callerKey(i int) string { return fmt.Sprintf("bench-caller-%06d-0123456789abcdef", i) }

// offered are the names of all tools behind Penstock.
func (h *hop) offered(c *cell) []string {
	var names []string
	for i := range c.upstreams {
		for k := range c.tools {
			names = append(names, h.tool(i, k))
		}
	}
	slices.Sort(names)
	return names
}

// buildPenstock builds the command of this tree into dir and returns its path.
func buildPenstock(ctx context.Context, dir string) (string, error) {
	const command = "github.com/penstock-mcp/penstock/cmd/penstock"
	binary := filepath.Join(dir, "penstock")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, command)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", command, err, out)
	}
	return binary, nil
}
