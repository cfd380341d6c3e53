package main

import (
	"errors"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/internal/qualify"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

func newVerifyCommand() *cobra.Command {
	var durable bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Show on this machine that what is promised holds",
		Long: "Show on this machine, with this program, that what is promised holds. With --durable-tasks it starts itself as an\n" +
			"upstream and as its workers, and submits durable tasks to it through a store in a temporary folder: an answer is\n" +
			"lost, the router is closed and opened again, and the work has to be done once; what must be refused has to be\n" +
			"refused. It needs no document and no network, and leaves nothing behind.\n\n" +
			"The evidence is printed as JSON, and the exit is 0, when every check held. Otherwise nothing is printed but the\n" +
			"check that failed, on standard error.",
		Example: "  penstock verify --durable-tasks",
		Args:    asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !durable {
				return &usageError{errors.New("say what to verify: --durable-tasks")}
			}
			self, err := ownCommand(neutral.UpstreamCommand)
			if err != nil {
				return err
			}
			result, err := qualify.Run(cmd.Context(), qualify.Options{Provider: self})
			if err != nil {
				return err
			}
			return result.Write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&durable, "durable-tasks", false, "the routing and recovery of durable tasks")
	return cmd
}

// ownCommand runs this program as something else. On Linux it is reached by what
// the process runs, whatever became of the file meanwhile.
func ownCommand(args ...string) ([]string, error) {
	if runtime.GOOS == "linux" {
		return append([]string{"/proc/self/exe"}, args...), nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return append([]string{self}, args...), nil
}

func newNeutralUpstreamCommand() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:    neutral.UpstreamCommand,
		Short:  "Serve the provider of the qualification over stdio",
		Hidden: true,
		Args:   asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if root == "" {
				return &usageError{errors.New("--root is needed")}
			}
			self, err := ownCommand(neutral.WorkerCommand)
			if err != nil {
				return err
			}
			return neutral.Serve(cmd.Context(), neutral.Options{Root: root, Worker: self}, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&root, "root", "", "`FOLDER` for events and artifacts")
	return cmd
}

func newNeutralWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    neutral.WorkerCommand,
		Short:  "Do one task of the qualification",
		Hidden: true,
		Args:   asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return neutral.Work(os.Getenv, cmd.InOrStdin())
		},
	}
}
