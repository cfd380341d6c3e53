package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/config"
)

// defaultConfig is used when it exists and no other file is named.
const defaultConfig = "penstock.yaml"

type serveFlags struct {
	config, listen, state string
	upstreams             []string
	level, format         string
}

func newServeCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the gateway",
		Example: `  penstock serve --upstream time=http://127.0.0.1:3000/mcp
  penstock serve --upstream files='npx -y @modelcontextprotocol/server-filesystem /srv'
  penstock serve --config penstock.yaml`,
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
			return serve(cmd.Context(), doc, log, cmd.ErrOrStderr(), service{path: f.path(), load: f.document})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "configuration `FILE` (default ./"+defaultConfig+" if it exists)")
	fl.StringVar(&f.listen, "listen", "", "`ADDR` to listen on, over the document's")
	fl.StringVar(&f.state, "state", "", "`URL` of the store, over the document's")
	fl.StringArrayVar(&f.upstreams, "upstream", nil, "an upstream as `NAME=URL` or NAME='command args'; may be repeated")
	fl.StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	fl.StringVar(&f.format, "log-format", "text", "text or json")
	return cmd
}

// path is the file that serve reads, or "".
func (f *serveFlags) path() string {
	if f.config != "" {
		return f.config
	}
	if _, err := os.Stat(defaultConfig); err == nil && len(f.upstreams) == 0 {
		return defaultConfig
	}
	return ""
}

// document is what the flags and the file say together.
func (f *serveFlags) document() (*config.Document, error) {
	doc, err := f.base()
	if err != nil {
		return nil, err
	}
	if f.listen != "" {
		if err := config.CheckListen(f.listen, doc.Open()); err != nil {
			return nil, fmt.Errorf("--listen %s: %w", f.listen, err)
		}
		doc.Listen = f.listen
	}
	if f.state != "" {
		if doc.State, err = config.ParseStore(f.state); err != nil {
			return nil, fmt.Errorf("--state: %w", err)
		}
	}
	return doc, nil
}

func (f *serveFlags) base() (*config.Document, error) {
	path := f.path()
	if path == "" {
		if len(f.upstreams) == 0 {
			return nil, &usageError{errors.New("nothing to serve: there is no ./" + defaultConfig + "; name a file with --config, or an upstream with --upstream NAME=URL, or write a starter with penstock init")}
		}
		return config.FromUpstreams(f.upstreams)
	}
	doc, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	if len(f.upstreams) > 0 {
		if err := doc.AddUpstreams(f.upstreams); err != nil {
			return nil, err
		}
	}
	return doc, nil
}

func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	switch level {
	case "debug", "info", "warn", "error":
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("--log-level %q is none of debug, info, warn, error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("--log-format %q is neither text nor json", format)
}

// service is what serve does beside serving.
type service struct {
	path    string                           // the document's file, watched; or ""
	load    func() (*config.Document, error) // reads the document again; nil: no reload
	started func(base string)                // called once connections are accepted; or nil
}

// serve runs the gateway until ctx ends, then drains.
func serve(ctx context.Context, doc *config.Document, log *slog.Logger, stderr io.Writer, o service) error {
	defer paceCollections()()
	r, err := newRunning(ctx, doc, log)
	if err != nil {
		return err
	}
	for _, w := range doc.Warnings {
		log.Warn("configuration", "warning", w.Error())
	}
	r.start(ctx)
	for _, name := range doc.ServerNames() {
		fmt.Fprintf(stderr, "penstock: listening on %s%s\n", r.base, doc.Servers[name].Path)
	}
	if r.admin != nil {
		fmt.Fprintf(stderr, "penstock: admin on %s\n", r.admin.address())
	}
	if r.observe != nil {
		fmt.Fprintf(stderr, "penstock: observe on http://%s/ready\n", r.observe.Addr())
	}
	if !r.store.Durable() {
		fmt.Fprintln(stderr, "penstock: state is kept in memory and does not survive a restart")
	}
	if o.started != nil {
		o.started(r.base)
	}
	if o.load != nil {
		watch, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			(&reloader{path: o.path, load: o.load, take: r.gw.Reload, now: doc, log: log}).run(watch)
		})
		defer watching.Wait()
		defer stop()
	}
	return r.wait(ctx)
}
