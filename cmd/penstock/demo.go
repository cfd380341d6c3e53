package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/demo"
)

func newDemoCommand() *cobra.Command {
	var listen, level string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve three bundled upstreams, and print what to try",
		Args:  asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(cmd.ErrOrStderr(), level, "text")
			if err != nil {
				return &usageError{err}
			}
			return runDemo(cmd, listen, func(doc *config.Document) error {
				return serve(cmd.Context(), doc, log, cmd.ErrOrStderr(), service{started: func(base string) {
					printDemo(cmd, base+doc.Servers[config.DefaultServer].Path)
				}})
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "`ADDR` to listen on")
	cmd.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

// runDemo serves the bundled upstreams while f runs with a document for them.
func runDemo(cmd *cobra.Command, listen string, f func(*config.Document) error) (err error) {
	library, err := serveBundled(cmd.Context(), demo.Library())
	if err != nil {
		return err
	}
	defer library.close()
	workshop, err := serveBundled(cmd.Context(), demo.Workshop())
	if err != nil {
		return err
	}
	defer workshop.close()
	work := demo.Jobs(demo.JobOptions{Notify: true})
	jobs, err := serveBundled(cmd.Context(), work)
	if err != nil {
		return err
	}
	defer jobs.close()
	defer work.Close()
	dir, err := os.MkdirTemp("", "penstock-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bench, err := benchCommand()
	if err != nil {
		return err
	}
	doc, err := config.FromUpstreams([]string{"bench=" + bench, "jobs=" + jobs.url, "library=" + library.url, "workshop=" + workshop.url})
	if err != nil {
		return err
	}
	if err := config.CheckListen(listen, false); err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	doc.Listen = listen
	doc.Admin = "unix:" + filepath.Join(dir, "admin.sock")
	if doc.State, err = config.ParseStore("memory:"); err != nil {
		return err
	}
	return f(doc)
}

// benchCommand runs this program as the bundled upstream that is a child process.
func benchCommand() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("bundled upstream: %w", err)
	}
	return "'" + strings.ReplaceAll(self, "'", `'\''`) + "' " + benchName, nil
}

const benchName = "demo-bench"

func newBenchCommand() *cobra.Command {
	return &cobra.Command{
		Use:    benchName,
		Short:  "Serve the demo's bench over stdio",
		Hidden: true,
		Args:   asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.ServeBench(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// bundled is an upstream that lives in this process, on a port of its own.
type bundled struct {
	url  string
	srv  *http.Server
	done chan struct{}
}

func serveBundled(ctx context.Context, h http.Handler) (*bundled, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bundled upstream: %w", err)
	}
	b := &bundled{
		url:  "http://" + ln.Addr().String() + "/mcp",
		srv:  &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second},
		done: make(chan struct{}),
	}
	go func() {
		defer close(b.done)
		_ = b.srv.Serve(ln) // ends with close
	}()
	return b, nil
}

func (b *bundled) close() {
	_ = b.srv.Close()
	<-b.done
}

func printDemo(cmd *cobra.Command, url string) {
	self := "penstock"
	if exe, err := os.Executable(); err == nil && filepath.Base(filepath.Dir(exe)) == "exe" {
		self = "go run ./cmd/penstock" // started by go run: there is no penstock on the PATH
	} else if err == nil {
		self = exe
	}
	fmt.Fprintf(cmd.OutOrStdout(), `
Four upstreams stand behind %[2]s: "library" and "jobs" (2026-07-28; jobs take time, and become tasks), "workshop" (2025-11-25)
and "bench" (a child process, over stdio).
Any MCP client can connect to it. Try, in another terminal:

  %[1]s call %[2]s tools/list
  %[1]s call %[2]s tools/call '{"name":"library__search_books","arguments":{"query":"gothic"}}'
  %[1]s call --follow %[2]s tools/call '{"name":"jobs__bake_cake","arguments":%[3]s}'

`, self, url, `{"flavor":"lemon"}`)
}
