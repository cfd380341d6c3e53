package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/gateway"
)

// durableCommands are those for durable tasks alone.
func (f *tasksFlags) durableCommands() []*cobra.Command {
	export := &cobra.Command{
		Use: "export ID", Short: "Print all that is stored of a durable task, as JSON", Args: asUsage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.export(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	status, reason := "", ""
	resolve := &cobra.Command{
		Use: "resolve ID", Short: "End a durable task whose outcome was looked into", Args: asUsage(cobra.ExactArgs(1)),
		Long: "End a durable task whose outcome is unknown, once it was found out at its upstream what became of it.\n" +
			"Nothing is sent. The caller is told that an operator said so, and why; the record says it, too.",
		Example: `  penstock tasks resolve pst_0b9e… --status completed --reason "seen in the worker's ledger"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch status {
			case "completed", "failed", "cancelled", "unknown":
			default:
				return &usageError{fmt.Errorf("--status %q is none of completed, failed, cancelled, unknown", status)}
			}
			if reason == "" {
				return &usageError{errors.New("--reason is needed: the caller is told it")}
			}
			return f.resolve(cmd.Context(), cmd.OutOrStdout(), args[0], status, reason)
		},
	}
	resolve.Flags().StringVar(&status, "status", "", "what became of it: completed, failed, cancelled or unknown")
	resolve.Flags().StringVar(&reason, "reason", "", "how that is known")
	return []*cobra.Command{export, resolve}
}

// routes prints the durable tasks, if there are any.
func (f *tasksFlags) routes(ctx context.Context, w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for n, after := 0, ""; ; {
		var page gateway.RoutesOut
		err := f.ask(ctx, http.MethodGet, "/routes", url.Values{"after": {after}, "upstream": {f.upstream}, "phase": {f.phase}}, &page)
		if err != nil && !f.durable {
			return nil //nolint:nilerr // there are none on such a gateway
		}
		if err != nil {
			return err
		}
		for i := range page.Routes {
			r := &page.Routes[i]
			if f.json {
				if err := json.NewEncoder(w).Encode(r); err != nil {
					return err
				}
				continue
			}
			if n++; n == 1 {
				fmt.Fprintln(table, "DURABLE ID\tUPSTREAM\tTOOL\tCALLER\tCREATED\tEXPIRES\tPHASE\tREASON\tNEXT")
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Upstream, printable(r.Tool), r.Principal[:min(12, len(r.Principal))],
				r.Created.Format(time.DateTime), r.Expires.Format(time.DateTime), r.Phase, dash(r.Reason), r.Next)
		}
		if after = page.Next; after == "" {
			return table.Flush()
		}
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// showRoute prints one durable task with its journal.
func (f *tasksFlags) showRoute(ctx context.Context, w io.Writer, id string) error {
	var out gateway.RouteExport
	if err := f.ask(ctx, http.MethodGet, "/routes/show", url.Values{"id": {id}}, &out); err != nil {
		return err
	}
	return f.printRoute(w, &out)
}

func (f *tasksFlags) printRoute(w io.Writer, out *gateway.RouteExport) error {
	r := &out.Route
	if f.json {
		return json.NewEncoder(w).Encode(r)
	}
	fmt.Fprintf(w, "durable task %s\n  phase:    %s\n  reason:   %s\n  next:     %s\n  upstream: %s, its task %s\n  tool:     %s, called as %s on server %s\n"+
		"  caller:   %s of tenant %s\n  created:  %s\n  cutoff:   %s\n  expires:  %s\n",
		r.ID, r.Phase, dash(r.Reason), r.Next, r.Upstream, dash(printable(r.UpstreamTask)), printable(r.Tool), printable(r.Alias), r.Server,
		r.Principal, printable(r.Tenant), r.Created.Format(time.DateTime), r.Cutoff.Format(time.DateTime), r.Expires.Format(time.DateTime))
	for i := range out.Journal {
		e := &out.Journal[i]
		fmt.Fprintf(w, "  %3d %s  %s -> %s  %s  by %s\n", e.Version, e.At.Format(time.DateTime), dash(e.From), e.To, dash(e.Reason), printable(e.Actor))
	}
	if out.Problem != "" {
		return errors.New(out.Problem)
	}
	return nil
}

func (f *tasksFlags) export(ctx context.Context, w io.Writer, id string) error {
	var out json.RawMessage
	if err := f.ask(ctx, http.MethodGet, "/routes/show", url.Values{"id": {id}}, &out); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

func (f *tasksFlags) resolve(ctx context.Context, w io.Writer, id, status, reason string) error {
	var out gateway.RouteExport
	if err := f.ask(ctx, http.MethodPost, "/routes/resolve", url.Values{"id": {id}, "status": {status}, "reason": {reason}}, &out); err != nil {
		return err
	}
	return f.printRoute(w, &out)
}

func (f *tasksFlags) cancelRoute(ctx context.Context, w io.Writer, id string) error {
	var out gateway.RouteExport
	if err := f.ask(ctx, http.MethodPost, "/routes/cancel", url.Values{"id": {id}}, &out); err != nil {
		return err
	}
	return f.printRoute(w, &out)
}

// isDurable tells whether an id has the form of those of durable tasks.
func isDurable(id string) bool { return durable.IsPublicID(id) }

// runPin prints the pin of what an upstream offers now, and what is to be known of it.
func (f *explainFlags) runPin(ctx context.Context, w, notes io.Writer) error {
	ask := tasksFlags{explainFlags: *f}
	var out gateway.PinOut
	if err := ask.ask(ctx, http.MethodGet, "/pin", url.Values{"upstream": {f.pin}}, &out); err != nil {
		return err
	}
	fmt.Fprintln(w, out.Pin)
	switch {
	case !out.Tasks:
		fmt.Fprintf(notes, "penstock: upstream %s does not speak tasks, and gets no durable ones\n", out.Upstream)
	case out.Pinned != "" && out.Pinned != out.Pin:
		fmt.Fprintf(notes, "penstock: the document pins %s: upstream %s offers something else now; review it before you pin it\n", out.Pinned, out.Upstream)
	}
	return nil
}
