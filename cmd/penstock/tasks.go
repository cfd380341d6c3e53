package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/internal/gateway"
)

type tasksFlags struct {
	explainFlags // how the gateway is found
	upstream     string
	json         bool
	durable      bool   // durable tasks alone
	phase        string // of durable tasks
}

func newTasksCommand() *cobra.Command {
	var f tasksFlags
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "See, cancel and resolve the tasks that callers have at upstreams",
		Long: "Ask the running gateway for the tasks that it remembers, of all callers, durable ones among them.\n" +
			"It is reached through its admin socket, whose address serve and demo print.",
		Args: asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := &cobra.Command{
		Use: "list", Short: "List tasks, newest first", Args: asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.list(cmd.Context(), cmd.OutOrStdout()) },
	}
	list.Flags().StringVar(&f.upstream, "upstream", "", "only those of this `UPSTREAM`")
	list.Flags().BoolVar(&f.durable, "durable", false, "only durable tasks")
	list.Flags().StringVar(&f.phase, "phase", "", "only durable tasks in this `PHASE`, such as reconciliation_required")
	show := &cobra.Command{
		Use: "show ID", Short: "Show who has a task, and where", Args: asUsage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.show(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	cancel := &cobra.Command{
		Use: "cancel ID", Short: "Cancel a task at its upstream", Args: asUsage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.cancel(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	for _, sub := range append([]*cobra.Command{list, show, cancel}, f.durableCommands()...) {
		fl := sub.Flags()
		fl.StringVar(&f.config, "config", "", "configuration `FILE` of the running gateway, to find its admin socket")
		fl.StringVar(&f.admin, "admin", "", "`ADDR` of the admin socket, unix:PATH")
		fl.BoolVar(&f.json, "json", false, "print JSON, one task a line")
		cmd.AddCommand(sub)
	}
	return cmd
}

// ask sends one request to the admin socket and reads its answer into out.
func (f *tasksFlags) ask(ctx context.Context, method, path string, q url.Values, out any) error {
	socket, err := f.socket()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://penstock"+path+"?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := adminClient(socket).Do(req)
	if err != nil {
		return fmt.Errorf("no gateway answers at unix:%s: %w; is it running?", socket, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("answer of the gateway: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(body)))
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("answer of the gateway: %w", err)
	}
	return nil
}

func (f *tasksFlags) list(ctx context.Context, w io.Writer) error {
	if f.phase != "" {
		f.durable = true
	}
	if !f.durable {
		if err := f.owned(ctx, w); err != nil {
			return err
		}
	}
	return f.routes(ctx, w)
}

// owned prints the tasks that are known by the ids of their upstreams.
func (f *tasksFlags) owned(ctx context.Context, w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if !f.json {
		fmt.Fprintln(table, "ID\tUPSTREAM\tTOOL\tCALLER\tCREATED\tEXPIRES\tSTATE")
	}
	for after := ""; ; {
		var page gateway.TasksOut
		if err := f.ask(ctx, http.MethodGet, "/tasks", url.Values{"after": {after}, "upstream": {f.upstream}}, &page); err != nil {
			return err
		}
		for i := range page.Tasks {
			t := &page.Tasks[i]
			if f.json {
				if err := json.NewEncoder(w).Encode(t); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", taskName(t), t.Upstream, t.Tool, t.Principal[:12],
				t.Created.Format(time.DateTime), expiry(t), taskState(t))
		}
		if after = page.Next; after == "" {
			return table.Flush()
		}
	}
}

// taskName is the id, or what is known of it where no sealing key opens it.
func taskName(t *gateway.TaskOut) string {
	if t.ID == "" {
		return "sha256:" + t.Hash[:16]
	}
	return printable(t.ID)
}

func expiry(t *gateway.TaskOut) string {
	if t.Expires == nil {
		return "never"
	}
	return t.Expires.Format(time.DateTime)
}

func taskState(t *gateway.TaskOut) string {
	if t.Located {
		return t.Mark + ", located"
	}
	return t.Mark
}

func (f *tasksFlags) show(ctx context.Context, w io.Writer, id string) error {
	if isDurable(id) {
		return f.showRoute(ctx, w, id)
	}
	var page gateway.TasksOut
	if err := f.ask(ctx, http.MethodGet, "/tasks/show", url.Values{"id": {id}}, &page); err != nil {
		return err
	}
	if len(page.Tasks) == 0 {
		return fmt.Errorf("nobody has a task %q here", id)
	}
	for i := range page.Tasks {
		t := &page.Tasks[i]
		if f.json {
			if err := json.NewEncoder(w).Encode(t); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "task %s\n  upstream: %s (%s)\n  tool:     %s, called as %s on server %s\n  caller:   %s\n  created:  %s\n  expires:  %s\n  last use: %s\n  state:    %s\n",
			taskName(t), t.Upstream, t.Dialect, t.Tool, t.Exposed, t.Server, t.Principal,
			t.Created.Format(time.DateTime), expiry(t), t.Used.Format(time.DateTime), taskState(t))
	}
	return nil
}

func (f *tasksFlags) cancel(ctx context.Context, w io.Writer, id string) error {
	if isDurable(id) {
		return f.cancelRoute(ctx, w, id)
	}
	var out []gateway.CancelledOut
	if err := f.ask(ctx, http.MethodPost, "/tasks/cancel", url.Values{"id": {id}}, &out); err != nil {
		return err
	}
	if len(out) == 0 {
		return fmt.Errorf("nobody has a task %q here", id)
	}
	var failed error
	for i := range out {
		c := &out[i]
		if c.Error != "" {
			failed = errors.Join(failed, fmt.Errorf("task %s of caller %s at %s: %s", taskName(&c.Task), c.Task.Principal[:12], c.Task.Upstream, c.Error))
			continue
		}
		fmt.Fprintf(w, "cancelled at upstream %s: task %s of caller %s\n", c.Task.Upstream, taskName(&c.Task), c.Task.Principal[:12])
	}
	return failed
}
