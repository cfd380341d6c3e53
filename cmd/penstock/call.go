package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// callFlags are the flags of `penstock call` as given.
type callFlags struct {
	legacy, tasks, follow bool
	headers               []string
	timeout               time.Duration
}

func newCallCommand() *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "call URL METHOD [JSON]",
		Short: "Send one request as a client would, and print the answer",
		Long: "Send one request as a client would, and print the result.\n\n" +
			"JSON is the request's params: an object, @FILE, or - for standard input.\n" +
			"Notifications that come with the answer go to standard error, one a line.\n" +
			"An error goes to standard error with exit code 1.",
		Example: `  penstock call http://127.0.0.1:8080/mcp tools/list
  penstock call http://127.0.0.1:8080/mcp tools/call '{"name":"search_books","arguments":{"query":"gothic"}}'
  penstock call --follow http://127.0.0.1:8080/mcp tools/call '{"name":"jobs__bake_cake","arguments":{"flavor":"lemon"}}'
  penstock call --legacy http://127.0.0.1:8080/mcp resources/read '{"uri":"workshop://safety"}'`,
		Args:          asUsage(callArgs),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newCaller(cmd, &f, args)
			if err != nil {
				return &usageError{err}
			}
			if f.follow {
				return c.run(cmd.Context()) // each request has the timeout, and the task its own time
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			return c.run(ctx)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.legacy, "legacy", false, "speak 2025-11-25: initialize, one request, end of session")
	flags.BoolVar(&f.tasks, "tasks", false, "declare the tasks extension, so that the server may answer with a task")
	flags.BoolVar(&f.follow, "follow", false, "where the answer is a task, follow it to its end and print its result")
	flags.StringArrayVar(&f.headers, "header", nil, "an HTTP header to send, as `K=V`; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 60*time.Second, "how long all of it may take; with --follow, each request")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	return cmd
}

// callArgs checks how many arguments there are.
func callArgs(_ *cobra.Command, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return fmt.Errorf("call takes a URL, a method and at most one JSON argument (quote it), not %d arguments", len(args))
	}
	return nil
}

// caller sends one request to one server.
type caller struct {
	url      *url.URL
	method   string
	params   jsontext.Value // an object, or nil
	legacy   bool
	tasks    bool
	followed bool
	headers  http.Header
	timeout  time.Duration

	client *http.Client
	out    io.Writer // the result
	notes  io.Writer // what else there is to say
}

// newCaller checks the command line; its errors are wrong usage.
func newCaller(cmd *cobra.Command, f *callFlags, args []string) (*caller, error) {
	u, err := url.Parse(args[0])
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of a server; write it like http://127.0.0.1:8080/mcp", args[0])
	}
	switch {
	case f.legacy && (f.tasks || f.follow):
		return nil, errors.New("--tasks and --follow need an extension of 2026-07-28; they do not go with --legacy")
	case f.timeout <= 0:
		return nil, errors.New("--timeout must be more than zero")
	case args[1] == "":
		return nil, errors.New("name a method, such as tools/list")
	}
	c := &caller{
		url: u, method: args[1], legacy: f.legacy, tasks: f.tasks || f.follow, followed: f.follow, timeout: f.timeout,
		headers: http.Header{}, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(),
		client: &http.Client{
			// A redirect would send the request, and its headers, somewhere the user
			// did not name.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, h := range f.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--header %q: write it as K=V", h)
		}
		c.headers.Add(strings.TrimSpace(k), strings.TrimSpace(v))
	}
	if len(args) == 3 {
		if c.params, err = readParams(cmd.InOrStdin(), args[2]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// readParams reads the JSON argument: text, @file or - for standard input.
func readParams(stdin io.Reader, arg string) (jsontext.Value, error) {
	raw, from := []byte(arg), "JSON"
	var err error
	switch {
	case arg == "-":
		from = "standard input"
		raw, err = io.ReadAll(io.LimitReader(stdin, maxAnswer))
	case strings.HasPrefix(arg, "@"):
		from = arg[1:]
		raw, err = os.ReadFile(from)
	}
	if err != nil {
		return nil, err
	}
	v := jsontext.Value(strings.TrimSpace(string(raw)))
	if _, err := jsontext.AppendFormat(nil, v); err != nil { // strict, duplicate names included
		return nil, fmt.Errorf("%s is not valid JSON: %w", from, err)
	}
	if v.Kind() != '{' {
		return nil, fmt.Errorf(`%s must be an object of params, such as {"name":"search_books"}`, from)
	}
	return v, nil
}

// run sends the request and prints what comes back.
func (c *caller) run(ctx context.Context) error {
	var result jsontext.Value
	var err error
	if c.legacy {
		result, err = c.callLegacy(ctx)
	} else {
		result, err = c.callWithin(ctx)
	}
	if err == nil && c.followed {
		result, err = c.follow(ctx, result)
	}
	if errors.Is(err, errTaskEnded) {
		return err
	}
	if err != nil {
		return c.explain(ctx, err)
	}
	if result == nil {
		return nil // a notification has no answer
	}
	_, err = fmt.Fprintf(c.out, "%s\n", pretty(result))
	return err
}

// callWithin is callModern with a time of its own, where the whole has none.
func (c *caller) callWithin(ctx context.Context) (jsontext.Value, error) {
	if !c.followed {
		return c.callModern(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.callModern(ctx)
}

// notification reports whether the method expects no answer.
func (c *caller) notification() bool { return strings.HasPrefix(c.method, "notifications/") }

// pretty indents JSON by two spaces. Order, numbers and duplicate names stay as
// they came; strings lose needless escapes.
func pretty(raw jsontext.Value) []byte {
	out, err := jsontext.AppendFormat(nil, raw, jsontext.WithIndent("  "),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return raw
	}
	return out
}

// compact is JSON on one line.
func compact(raw jsontext.Value) []byte {
	out, err := jsontext.AppendFormat(nil, raw, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return []byte(printable(string(raw)))
	}
	return out
}

// callModern sends the request under 2026-07-28 (checklist 106 to 108).
func (c *caller) callModern(ctx context.Context) (jsontext.Value, error) {
	params, version, err := withMeta(c.params, c.tasks)
	if err != nil {
		return nil, &usageError{err}
	}
	header := http.Header{}
	header.Set(mcp.HeaderProtocolVersion, version)
	header.Set(mcp.HeaderMethod, c.method)
	if name, ok := nameOf(c.method, params); ok {
		header.Set(mcp.HeaderName, mcp.EncodeHeader(name))
	}
	return c.exchange(ctx, "1", c.method, params, header)
}

// callLegacy opens a session for the one request and ends it (checklist 130 to 132).
func (c *caller) callLegacy(ctx context.Context) (jsontext.Value, error) {
	params := jsontext.Value(`{"protocolVersion":"` + mcp.LatestLegacy.String() + `","capabilities":{},"clientInfo":` + clientInfo() + `}`)
	if c.method == mcp.Initialize && c.params != nil {
		params = c.params
	}
	header := http.Header{}
	opened := http.Header{}
	first, err := c.exchangeWith(ctx, "0", mcp.Initialize, params, header, opened)
	if err != nil {
		return nil, err
	}
	if id := opened.Get(mcp.HeaderSession); id != "" {
		header.Set(mcp.HeaderSession, id)
	}
	version, _ := stringMember(first, "protocolVersion")
	if version == "" {
		return nil, &oddAnswer{what: "its answer to initialize names no protocolVersion"}
	}
	header.Set(mcp.HeaderProtocolVersion, version)
	defer c.endSession(ctx, header)
	if c.method == mcp.Initialize {
		return first, nil
	}
	if _, err := c.exchange(ctx, "", mcp.Initialized, nil, header); err != nil {
		return nil, err
	}
	if c.method == mcp.Initialized {
		return nil, nil
	}
	return c.exchange(ctx, "1", c.method, c.params, header)
}
