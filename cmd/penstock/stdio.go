package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/north"
)

func newStdioCommand() *cobra.Command {
	var f serveFlags
	var server string
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Serve the gateway to one client that speaks stdio",
		Long: "Serve the gateway to the client that started this program, over standard input and output.\n" +
			"Nothing but MCP messages goes to standard output; the log goes to standard error.",
		Example: `  penstock stdio --config penstock.yaml
  penstock stdio --config penstock.yaml --server research`,
		Args: asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(cmd.ErrOrStderr(), f.level, f.format)
			if err != nil {
				return &usageError{err}
			}
			doc, err := f.document()
			if err != nil {
				return err
			}
			name, err := stdioServer(doc, server)
			if err != nil {
				return &usageError{err}
			}
			if doc.Audit != nil && doc.Audit.Stdout.On() {
				return errors.New("audit.stdout: standard output belongs to the client here; give audit a file")
			}
			if doc.State, err = stdioState(&f, doc); err != nil {
				return err
			}
			return serveStdio(cmd.Context(), doc, name, log, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "configuration `FILE` (default ./"+defaultConfig+" if it exists)")
	fl.StringVar(&server, "server", "", "`NAME` of the virtual server (default: "+config.DefaultServer+", or the only one)")
	fl.StringVar(&f.state, "state", "", "`URL` of the store, over the document's")
	fl.StringArrayVar(&f.upstreams, "upstream", nil, "an upstream as `NAME=URL` or NAME='command args'; may be repeated")
	fl.StringVar(&f.level, "log-level", "warn", "debug, info, warn or error")
	fl.StringVar(&f.format, "log-format", "text", "text or json")
	return cmd
}

// stdioServer is the virtual server that a client gets.
func stdioServer(doc *config.Document, asked string) (string, error) {
	names := doc.ServerNames()
	switch {
	case asked != "" && doc.Servers[asked] != nil:
		return asked, nil
	case asked != "":
		return "", fmt.Errorf("--server %s: there is no such virtual server; there are: %s", asked, strings.Join(names, ", "))
	case doc.Servers[config.DefaultServer] != nil:
		return config.DefaultServer, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", fmt.Errorf("name a virtual server with --server; there are: %s", strings.Join(names, ", "))
}

// serveStdio serves one client until in or ctx ends.
func serveStdio(ctx context.Context, doc *config.Document, server string, log *slog.Logger, in io.Reader, out, stderr io.Writer) (err error) {
	// A client that closed its end is an error of the write, and not our death.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	kept, err := openStdioStore(ctx, doc, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	gw, err := penstock.New(doc, penstock.WithLogger(log), penstock.WithStore(kept), penstock.WithChildGuard(guardCommand()...))
	if err != nil {
		return err
	}
	for _, w := range doc.Warnings {
		log.Warn("configuration", "warning", w.Error())
	}
	var admin *adminSocket
	if doc.Admin != "off" {
		// Each client has a process of its own, so that no place in the document
		// can be the place of all of them.
		if admin, err = bindAdmin(ctx, processSocket(os.Getpid()), gw.Admin(), log); err != nil {
			log.Warn("no admin socket", "error", err)
		} else {
			fmt.Fprintf(stderr, "penstock: admin on %s\n", admin.address())
			admin.start()
		}
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, f := range []func(context.Context) error{gw.Run, kept.Run} {
		running.Go(func() {
			if err := f(run); err != nil && run.Err() == nil {
				log.Error("stopped by itself", "error", err)
			}
		})
	}

	err = gw.ServeStdio(ctx, server, in, out, time.Duration(doc.Shutdown))
	if north.IsGone(err) {
		log.Info("the client is gone", "error", err)
		err = nil
	}
	gw.Drain()
	stop()
	running.Wait()
	end, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if admin != nil {
		admin.close(end)
	}
	return errors.Join(err, gw.Close(end))
}
