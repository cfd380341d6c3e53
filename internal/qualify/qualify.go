package qualify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/artifact"
	"github.com/penstock-mcp/penstock/internal/qualify/direct"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// Options are what a qualification needs.
type Options struct {
	// Provider is the command that serves the neutral provider, which this binary
	// is, too. `--root FOLDER` is added to it.
	Provider []string
}

const (
	wholeTime   = time.Minute // of a qualification
	requestTime = 10 * time.Second
	endingTime  = 5 * time.Second // for the provider to end
)

// seams are where a test puts something that does not hold.
type seams struct {
	router  func(coordinator) coordinator
	sources func(durable.Sources) durable.Sources
	judge   func(folder string, want *artifact.Expected) error
	remove  func(folder string) error
}

var asItIs = seams{
	router:  func(c coordinator) coordinator { return c },
	sources: func(s durable.Sources) durable.Sources { return s },
	judge:   artifact.Verify,
	remove:  os.RemoveAll,
}

// Run makes all the checks. The error is a *Failure, and there is no result then.
// Whatever comes of it, nothing is left running or on disk.
func Run(ctx context.Context, o Options) (*Result, error) { return run(ctx, o, asItIs) }

// qualification is one run.
type qualification struct {
	o     Options
	seams seams
	who   durable.Caller

	workspace string // the temporary folder
	file      string // the database in it
	root      string // the provider's folder in it

	upstream *direct.Child
	source   *direct.Source
	target   durable.Target
	session  string // of the one connection with the upstream

	router *router // nil: none is open
	caller *caller
	lease  string

	primary *job
	task    *seen // the primary task as it was last seen
	e       Evidence
}

func run(ctx context.Context, o Options, s seams) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, wholeTime)
	defer cancel()
	q := &qualification{o: o, seams: s, who: durable.Caller{Principal: "qualification", Tenant: "local", Local: true}}
	q.e.Execution = Execution{UpstreamTransport: "stdio", CallerTransport: "in-process-duplex", SelfSpawnedUpstream: true, SelfSpawnedWorker: true}
	if err := q.check(ctx); err != nil {
		return nil, errors.Join(err, q.abandon())
	}
	return seal(&q.e)
}

// check makes the checks in their order.
func (q *qualification) check(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		q.begin, q.discover, q.loseAcknowledgement, q.recover, q.changeInput, q.update, q.complete, q.verify, q.refuseArtifacts, q.passDeadline, q.end,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the workspace and starts the provider.
func (q *qualification) begin(ctx context.Context) (err error) {
	if q.workspace, err = os.MkdirTemp("", "penstock-qualification-"); err != nil {
		return failed(Workspace, err)
	}
	q.file, q.root = filepath.Join(q.workspace, "state.db"), filepath.Join(q.workspace, "provider")
	if err := os.Mkdir(q.root, 0o700); err != nil {
		return failed(Workspace, err)
	}
	q.upstream, err = direct.Start(ctx, direct.Command{
		Argv: append(append([]string{}, q.o.Provider...), "--root", q.root), Dir: q.workspace, Env: direct.Environment(),
	})
	if err != nil {
		return failed(Upstream, err)
	}
	return nil
}

// discover is check 1: there are tasks and exactly the one tool. What was found
// is pinned.
func (q *qualification) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := q.upstream.Discover(ctx)
	if err != nil {
		return failed(Discovery, err)
	}
	if !found.SupportsTasks() {
		return failedf(Discovery, "the provider does not speak tasks")
	}
	if len(found.Tools) != 1 {
		return failedf(Discovery, "the provider has %d tools, not the one", len(found.Tools))
	}
	if q.source, err = direct.Pin("neutral", q.upstream, found, durable.Settings{Echo: true, Spelling: durable.Penstock}); err != nil {
		return failed(Discovery, err)
	}
	if q.target, err = q.source.Target(neutral.Tool); err != nil {
		return failed(Discovery, err)
	}
	if q.session, err = q.connected(ctx); err != nil {
		return failed(Discovery, err)
	}
	return nil
}

// connected is the session of the connection that the router is given.
func (q *qualification) connected(ctx context.Context) (string, error) {
	source, ok := q.seams.sources(q.source).Source(q.source.Key())
	if !ok {
		return "", errors.New("the provider is not eligible")
	}
	connection, err := source.Connect(ctx)
	if err != nil {
		return "", err
	}
	return connection.Session(), nil
}

// end is check 10: everything ends well, and nothing is left.
func (q *qualification) end(context.Context) error {
	if err := q.closeRouter(); err != nil {
		return failed(Shutdown, err)
	}
	upstream := q.upstream
	q.upstream = nil
	if err := upstream.Close(endingTime); err != nil {
		return failed(Shutdown, err)
	}
	if err := q.removeWorkspace(); err != nil {
		return failed(Cleanup, err)
	}
	q.e.Execution.WorkspaceRemoved = true
	return nil
}

// abandon ends what a failed qualification has left.
func (q *qualification) abandon() error {
	_ = q.closeRouter() // there is a first error already
	if q.upstream != nil {
		_ = q.upstream.Close(endingTime) // likewise
		q.upstream = nil
	}
	if err := q.removeWorkspace(); err != nil {
		return failed(Cleanup, err)
	}
	return nil
}

func (q *qualification) closeRouter() error {
	if q.router == nil {
		return nil
	}
	q.caller.close()
	r := q.router
	q.router, q.caller = nil, nil
	return r.close()
}

func (q *qualification) removeWorkspace() error {
	if q.workspace == "" {
		return nil
	}
	folder := q.workspace
	q.workspace = ""
	if err := q.seams.remove(folder); err != nil {
		return err
	}
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is still there", folder)
	}
	return nil
}

// reopen closes the router that is open, if any, and opens another.
func (q *qualification) reopen(ctx context.Context) (err error) {
	if err := q.closeRouter(); err != nil {
		return failed(Router, err)
	}
	if q.router, q.caller, err = q.openRouter(ctx); err != nil {
		return failed(Router, err)
	}
	return nil
}

// counts are how often things have happened at the provider.
type counts map[neutral.Event]int

func (q *qualification) count() (counts, error) {
	c := counts{}
	for _, e := range neutral.Events {
		n, err := neutral.Count(q.root, e)
		if err != nil {
			return nil, failed(Counts, err)
		}
		c[e] = n
	}
	return c, nil
}

// since is how often an event has happened since others were counted.
func (c counts) since(before counts, e neutral.Event) int { return c[e] - before[e] }
