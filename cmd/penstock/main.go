// Command penstock is the gateway and the tools around it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == guardName {
		penstock.GuardChild(os.Stdin)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "penstock:", err)
	var usage *usageError
	if errors.As(err, &usage) {
		os.Exit(2)
	}
	os.Exit(1)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "penstock",
		Short:         "One governed MCP endpoint in front of many MCP servers",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("there is no command %q; see penstock --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newServeCommand(), newStdioCommand(), newDemoCommand(), newBenchCommand(), newCallCommand(), newInitCommand(),
		newValidateCommand(), newSchemaCommand(), newKeyCommand(), newTasksCommand(), newExplainCommand(), newAuditCommand(), newVerifyCommand(),
		newNeutralUpstreamCommand(), newNeutralWorkerCommand(), newVersionCommand(),
	)
	return root
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "penstock", penstock.Version())
			return err
		},
	}
}
