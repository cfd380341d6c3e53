package main

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/internal/auth"
)

// keyName is what a name of a key may be made of. In the document it stands in
// quotes all the same, for it may look like a number.
var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func newKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make API keys",
		Args:  asUsage(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var name string
	fresh := &cobra.Command{
		Use:   "new",
		Short: "Print a random API key, once, and its hash for the document",
		Long: "Print a random API key, its hash, and the part of the document that accepts it. The key is printed once\n" +
			"and kept nowhere: the document holds its hash alone. Callers send it as Authorization: Bearer KEY.\n\n" +
			"Add scopes, tenant or expires to the entry as your policy needs them, and take it out to revoke the key.",
		Example: "  penstock key new --name alice",
		Args:    asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !keyName.MatchString(name) {
				return &usageError{fmt.Errorf("--name %q: a name begins with a letter or digit and goes on with letters, digits, dots, underscores and dashes, 64 at most", name)}
			}
			key, hash := auth.NewKey()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "key: %s\nhash: %s\n\nauth:\n  api_keys:\n    - {name: %q, hash: %q, subject: %q}\n", key, hash, name, hash, name)
			return err
		},
	}
	fresh.Flags().StringVar(&name, "name", "key", "`NAME` of the key, which is its subject, too")
	cmd.AddCommand(fresh)
	return cmd
}
