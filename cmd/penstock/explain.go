package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/gateway"
)

type explainFlags struct {
	server, as, issuer, tenant, config, admin, pin string
	scopes, claims                                 []string
}

func newExplainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Tell where a tool, prompt or URI goes, and why",
		Long: "Ask the running gateway where a tool, prompt, resource or template of that name goes, and why.\n" +
			"It is reached through its admin socket, whose address serve and demo print.\n\n" +
			"With --as it also tells what the policy decides for a caller, and what each rule has to say: allowed,\n" +
			"hidden (the caller is told that it does not exist), or that a call depends on its arguments. For the\n" +
			"subject of an API key, tenant and scopes are those of the key; for others give what their token says.\n\n" +
			"With --pin and without NAME it prints the digest of what an upstream offers now: its revision, its capabilities,\n" +
			"and every tool, resource, template and prompt in full. Review them before you write it into the document.",
		Example: `  penstock explain tickets__create
  penstock explain tickets__create --as alice
  penstock explain tickets__create --as bob --tenant acme --scope mcp --claim 'groups=["ops"]'
  penstock explain --pin jobs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.pin != "":
				if len(args) != 0 {
					return &usageError{errors.New("--pin takes the place of NAME")}
				}
				return f.runPin(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			case len(args) != 1:
				return &usageError{fmt.Errorf("explain takes one NAME, %d were given", len(args))}
			}
			if f.as == "" && (f.issuer != "" || f.tenant != "" || len(f.scopes) > 0 || len(f.claims) > 0) {
				return &usageError{errors.New("--issuer, --tenant, --scope and --claim say more of the caller that --as names; name one")}
			}
			for _, c := range f.claims {
				if name, _, ok := strings.Cut(c, "="); !ok || name == "" {
					return &usageError{fmt.Errorf("--claim %q: write it as NAME=VALUE", c)}
				}
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.server, "server", "", "only this virtual `SERVER`")
	fl.StringVar(&f.as, "as", "", "tell what the policy decides for this `SUBJECT`")
	fl.StringVar(&f.issuer, "issuer", "", "with --as: `ISSUER` of the caller (default: that of an API key of the subject, or the first of auth.jwt)")
	fl.StringVar(&f.tenant, "tenant", "", "with --as: `TENANT` of the caller")
	fl.StringSliceVar(&f.scopes, "scope", nil, "with --as: `SCOPE` of the caller; may be repeated")
	fl.StringArrayVar(&f.claims, "claim", nil, "with --as: a claim of the caller's token as `NAME=VALUE`, where VALUE is JSON or a text; may be repeated")
	fl.StringVar(&f.config, "config", "", "configuration `FILE` of the running gateway, to find its admin socket")
	fl.StringVar(&f.admin, "admin", "", "`ADDR` of the admin socket, unix:PATH")
	fl.StringVar(&f.pin, "pin", "", "print the digest of what this `UPSTREAM` offers, for its durable.pin")
	return cmd
}

// socket finds the admin socket of the gateway that is asked.
func (f *explainFlags) socket() (string, error) {
	if f.admin != "" {
		path, ok := strings.CutPrefix(f.admin, "unix:")
		if !ok || path == "" {
			return "", &usageError{fmt.Errorf("--admin %q is not unix:PATH", f.admin)}
		}
		return path, nil
	}
	path := f.config
	if path == "" {
		path = defaultConfig
		if _, err := os.Stat(path); err != nil {
			return "", &usageError{errors.New("which gateway? name its admin socket with --admin unix:PATH (serve and demo print it), or its document with --config")}
		}
	}
	doc, err := config.Load(path)
	if err != nil {
		return "", err
	}
	if doc.Admin == "" && doc.State.Path() == "" {
		return "", &usageError{fmt.Errorf("%s does not tell where the admin socket is; name it with --admin unix:PATH", path)}
	}
	if doc.Admin == "off" {
		return "", fmt.Errorf("%s sets admin: off, so the gateway cannot be asked", path)
	}
	return adminPath(doc, 0), nil
}

func (f *explainFlags) run(ctx context.Context, out io.Writer, name string) error {
	path, err := f.socket()
	if err != nil {
		return err
	}
	q := url.Values{"name": {name}}
	if f.server != "" {
		q.Set("server", f.server)
	}
	if f.as != "" {
		q.Set("as", f.as)
	}
	for name, value := range map[string]string{"issuer": f.issuer, "tenant": f.tenant} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, s := range f.scopes {
		q.Add("scope", s)
	}
	for _, c := range f.claims {
		q.Add("claim", c)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://penstock/explain?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := adminClient(path).Do(req)
	if err != nil {
		return fmt.Errorf("no gateway answers at unix:%s: %w; is it running?", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return fmt.Errorf("answer of the gateway: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(body)))
	}
	var all []gateway.Explained
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("answer of the gateway: %w", err)
	}
	for _, e := range all {
		printExplained(out, e)
	}
	return nil
}

// policyLine says what the policy decided.
func policyLine(t *gateway.Explanation) string {
	switch {
	case t.Decision == "allow" && t.Decided == "":
		return "allowed, for the document has no policy"
	case t.Decision == "allow":
		return "allowed by rule " + t.Decided
	case t.Decision == "depends":
		return "listed; a call may be refused for its arguments"
	case t.Decided == "":
		return "hidden, for no rule allows it; the caller is told that it does not exist"
	}
	return "hidden by rule " + t.Decided + "; the caller is told that it does not exist"
}

func printExplained(w io.Writer, e gateway.Explained) {
	for _, t := range e.Targets {
		if t.Upstream == "" {
			fmt.Fprintf(w, "server %s: %q goes nowhere: %s\n", e.Server, e.Name, t.Why)
			continue
		}
		fmt.Fprintf(w, "server %s: %s %q goes to upstream %q as %q\n", e.Server, strings.TrimSuffix(t.Kind, "s"), e.Name, t.Upstream, t.Original)
		fmt.Fprintf(w, "  rule:    %s (%s)\n", t.Rule, t.Why)
		if t.Exposed != "" && t.Exposed != e.Name {
			fmt.Fprintf(w, "  listed:  %s\n", t.Exposed)
		}
		if len(t.Names) > 0 {
			fmt.Fprintf(w, "  names:   %s\n", strings.Join(t.Names, ", "))
		}
		if t.Hidden {
			fmt.Fprintln(w, "  hidden:  by expose; clients are told that it does not exist")
		}
		if t.Decision != "" {
			fmt.Fprintf(w, "  policy:  %s\n", policyLine(&t))
		}
		if len(t.Judged) > 0 {
			fmt.Fprintf(w, "  judged:  %s\n", strings.Join(t.Judged, ", "))
		}
		for _, s := range t.Steps {
			effect := ""
			if s.Effect != "" {
				effect = " (" + s.Effect + ")"
			}
			fmt.Fprintf(w, "    %s%s: %s\n", s.Rule, effect, s.Outcome)
		}
		if t.Error != "" {
			fmt.Fprintf(w, "  error:   %s\n", t.Error)
		}
	}
	for _, c := range e.Collisions {
		fmt.Fprintf(w, "  collision: %s %q is %s; %s is listed as %q\n", strings.TrimSuffix(c.Kind, "s"), c.Name, c.Winner, c.Loser, c.Exposed)
	}
}
