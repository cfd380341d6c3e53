//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrMissing says that no PostgreSQL is installed.
var ErrMissing = errors.New("no PostgreSQL found: install Debian's package postgresql, or put its bin folder on PATH")

// Bounds of waiting.
const (
	starting = 30 * time.Second
	ending   = 20 * time.Second
)

// Server is one PostgreSQL server. Its methods are not for concurrent use.
type Server struct {
	// Sync has the server put each commit on the disk, from its next Start. Only
	// who counts or measures that needs it.
	Sync bool

	dir  string // the data in data, the socket beside it
	bin  string
	as   *syscall.Credential // nil: as this process
	logs bytes.Buffer        // of the server; read once it has ended

	process *os.Process // nil while stopped
	ended   chan struct{}
}

// NewServer makes a cluster in a temporary folder and starts a server on it. It
// returns ErrMissing where there is no PostgreSQL. End ends it.
func NewServer() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin}
	if err := s.initialize(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.End())
	}
	return s, nil
}

// binaries finds the newest installed version.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrMissing
	}
	sort.Slice(found, func(i, j int) bool { return version(found[i]) < version(found[j]) })
	return filepath.Dir(found[len(found)-1]), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

func (s *Server) initialize() error {
	// PostgreSQL refuses root; Debian's package made a user for it.
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("PostgreSQL does not run as root: %w", err)
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID, os.Chown(s.dir, int(uid), int(gid))); err != nil {
			return err
		}
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL is the address of a database of the server.
func (s *Server) URL(database string) string {
	return "postgres:///" + url.PathEscape(database) + "?user=postgres&host=" + url.QueryEscape(s.dir)
}

// Start starts the server and waits until it answers.
func (s *Server) Start() error {
	sync := "off" // what is tested is the end of Penstock, not that of the machine
	if s.Sync {
		sync = "on"
	}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-k", s.dir,
		"-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=32MB",
		"-c", "fsync="+sync, "-c", "full_page_writes=off", "-c", "log_min_messages=warning")
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = &s.logs, &s.logs
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		// The system ties the child to the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended matters to nobody
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	s.process, s.ended = cmd.Process, ended
	return s.answers()
}

func (s *Server) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-s.ended:
			return fmt.Errorf("PostgreSQL ended: %s", s.logs.String())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the server and its connections at once, and keeps its data.
func (s *Server) Stop() error {
	if s.process == nil {
		return nil
	}
	err := s.process.Signal(syscall.SIGINT) // a fast shutdown
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-s.ended:
	case <-time.After(ending):
		err = errors.Join(err, fmt.Errorf("PostgreSQL did not end in %s", ending), s.process.Kill())
		<-s.ended
	}
	s.process = nil
	return err
}

// End ends the server and removes its data.
func (s *Server) End() error { return errors.Join(s.Stop(), os.RemoveAll(s.dir)) }

// Create creates an empty database and returns its address.
func (s *Server) Create(ctx context.Context, database string) (string, error) {
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer c.Close(ctx) //nolint:errcheck // its work is done
	if _, err := c.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize()); err != nil {
		return "", err
	}
	return s.URL(database), nil
}
