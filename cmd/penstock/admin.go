package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/config"
)

// adminSocket serves the operator's commands on a Unix socket that only the
// gateway's own user can open.
type adminSocket struct {
	path string
	ln   net.Listener
	srv  *http.Server
	done chan struct{}
}

// adminPath is where the socket of a document is: as configured, beside an
// SQLite file, or in the runtime folder under a name of the process.
func adminPath(doc *config.Document, pid int) string {
	switch {
	case doc.Admin == "off":
		return ""
	case doc.Admin != "":
		return strings.TrimPrefix(doc.Admin, "unix:")
	case doc.State.Path() != "":
		p := doc.State.Path()
		return strings.TrimSuffix(p, filepath.Ext(p)) + ".sock"
	}
	return processSocket(pid)
}

// processSocket is the place of one process's socket in the runtime folder.
func processSocket(pid int) string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = os.TempDir()
	}
	return filepath.Join(dir, fmt.Sprintf("penstock-%d.sock", pid))
}

func newAdminSocket(ctx context.Context, doc *config.Document, h http.Handler, log *slog.Logger) (*adminSocket, error) {
	path := adminPath(doc, os.Getpid())
	if path == "" {
		return nil, nil
	}
	a, err := bindAdmin(ctx, path, h, log)
	if err != nil {
		if doc.Admin != "" {
			return nil, fmt.Errorf("admin: %w; set admin to another unix:PATH, or to off", err)
		}
		// The default place is a courtesy; the gateway serves without it.
		log.Warn("no admin socket", "error", err)
		return nil, nil
	}
	return a, nil
}

func bindAdmin(ctx context.Context, path string, h http.Handler, log *slog.Logger) (*adminSocket, error) {
	ln, err := listenUnix(ctx, path)
	if err != nil {
		return nil, err
	}
	a := &adminSocket{path: path, ln: ln, done: make(chan struct{})}
	a.srv = &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	return a, nil
}

// listenUnix binds a socket with mode 0600. One left behind by a process that
// is gone is replaced; one that answers is another gateway's.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > 100 {
		return nil, fmt.Errorf("the path %s is longer than a socket's may be", path)
	}
	if fi, err := os.Lstat(path); err == nil {
		if fi.Mode().Type() != fs.ModeSocket {
			return nil, fmt.Errorf("%s exists and is no socket", path)
		}
		d := net.Dialer{Timeout: time.Second}
		if c, err := d.DialContext(ctx, "unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("%s is in use by another gateway", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	// Bound under a private name first, so that nobody can connect before the mode is set.
	private := path + fmt.Sprintf(".%d", os.Getpid())
	ln, err := (&net.ListenConfig{}).Listen(ctx, "unix", private)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err = os.Chmod(private, 0o600); err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close(), os.Remove(private))
	}
	return ln, nil
}

func (a *adminSocket) address() string { return "unix:" + a.path }

func (a *adminSocket) start() {
	go func() {
		defer close(a.done)
		_ = a.srv.Serve(a.ln) // ends with close
	}()
}

func (a *adminSocket) close(ctx context.Context) {
	_ = a.srv.Shutdown(ctx)
	_ = a.ln.Close()
	_ = os.Remove(a.path)
}

// adminClient asks a running gateway over its socket.
func adminClient(path string) *http.Client {
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}},
	}
}
