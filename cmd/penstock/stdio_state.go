package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/store"
)

// stdioState is where a gateway over stdio keeps its state: a file of its
// document under the user's state folder, so that it never meets the file of
// `serve`. A fleet's PostgreSQL and memory: stay what they are, and so does what
// --state says.
func stdioState(f *serveFlags, doc *config.Document) (config.Store, error) {
	path := f.path()
	switch {
	case f.state != "", doc.State.Engine() != config.EngineSQLite:
		return doc.State, nil
	case path == "":
		return config.ParseStore("memory:") // there is no document to keep it by
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return config.Store{}, err
	}
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return config.Store{}, fmt.Errorf("no state folder: %w; name a store with --state", err)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "penstock")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return config.Store{}, fmt.Errorf("no state folder: %w; name a store with --state", err)
	}
	of := sha256.Sum256([]byte(path))
	return config.ParseStore("sqlite:" + filepath.Join(dir, "stdio-"+hex.EncodeToString(of[:8])+".db"))
}

// openStdioStore opens the store. Of several clients that start a gateway for one
// document, the first has its file; the others are served all the same, and
// forget everything when they end.
func openStdioStore(ctx context.Context, doc *config.Document, log *slog.Logger) (*penstock.Store, error) {
	s, err := penstock.OpenStore(ctx, doc, log)
	if !errors.Is(err, store.ErrInUse) {
		return s, err
	}
	log.Warn("state is kept in memory, because another gateway has the file of this document", "error", err)
	if doc.State, err = config.ParseStore("memory:"); err != nil {
		return nil, err
	}
	return penstock.OpenStore(ctx, doc, log)
}
