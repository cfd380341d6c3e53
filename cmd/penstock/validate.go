package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/config"
)

// defaultConfigFile is what every subcommand reads when --config is not given.
const defaultConfigFile = "penstock.yaml"

func newValidateCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration and report every problem",
		Long: "Check the configuration and report every problem with file, line and column.\n" +
			"Warnings tell what is legal and unwise; they do not change the exit code.",
		Args: asUsage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return validate(cmd, file)
		},
	}
	cmd.Flags().StringVar(&file, "config", defaultConfigFile, "the document to check")
	return cmd
}

func validate(cmd *cobra.Command, file string) error {
	doc, err := config.Load(file)
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		cmd.PrintErrln(problems.Error())
		return fmt.Errorf("%s: %s", file, counted(len(problems), "problem"))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist; write one with `penstock init`, or name another with --config", file)
	case err != nil:
		return err
	}
	for _, w := range doc.Warnings {
		cmd.PrintErrln("warning: " + w.Error())
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok (%s, %s)\n", file,
		counted(len(doc.Upstreams), "upstream"), counted(len(doc.Servers), "server"))
	return err
}

func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
