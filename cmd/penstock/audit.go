package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/penstock-mcp/penstock/internal/audit"
)

type auditFlags struct{ key, keyEnv, expect string }

func newAuditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Work with the audit record",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("there is no command audit %q; see penstock audit --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditVerifyCommand())
	return cmd
}

func newAuditVerifyCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Find what was changed, removed, inserted, reordered or torn in an audit file",
		Long: "Check the chain of hashes in an audit file, line by line, and print the last hash.\n\n" +
			"Rotated files are checked together, oldest first: penstock audit verify audit.jsonl.* audit.jsonl\n\n" +
			"Whoever can write the file can cut lines off at its end, and without a key make all of it anew. Keep the\n" +
			"last hash elsewhere and give it as --expect; use a key. Other users of the machine can see --key among the\n" +
			"arguments of the process, and the shell remembers it: prefer --key-env.\n\n" +
			"A torn line is what a crash or a full disk leaves behind. It is reported even where the header after it\n" +
			"tells of it, for what it held is lost, and its text is under no hash.\n\n" +
			"Exit codes: 0 no problem, 1 problems or a file that cannot be read, 2 wrong usage.",
		Args: asUsage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return f.verify(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.key, "key", "", "`KEY` of the chain (audit.key of the document); visible to others on the machine")
	fl.StringVar(&f.keyEnv, "key-env", "", "`NAME` of the environment variable that holds the key")
	fl.StringVar(&f.expect, "expect", "", "`HASH` that the last line must have")
	return cmd
}

// secret is the key that was given, or nil.
func (f *auditFlags) secret() ([]byte, error) {
	switch {
	case f.key != "" && f.keyEnv != "":
		return nil, &usageError{errors.New("give --key or --key-env, not both")}
	case f.keyEnv == "":
		return []byte(f.key), nil
	}
	key := os.Getenv(f.keyEnv)
	if key == "" {
		return nil, &usageError{fmt.Errorf("the environment variable %s of --key-env is not set", f.keyEnv)}
	}
	return []byte(key), nil
}

func (f *auditFlags) verify(cmd *cobra.Command, files []string) error {
	key, err := f.secret()
	if err != nil {
		return err
	}
	report, err := audit.VerifyFiles(files, key, f.expect)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	for _, p := range report.Problems {
		fmt.Fprintln(out, p)
	}
	if report.More > 0 {
		fmt.Fprintf(out, "and %s more\n", counted(report.More, "problem"))
	}
	for _, n := range report.Notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}
	fmt.Fprintf(out, "%s, %s, %s\n", counted(report.Files, "file"), counted(report.Chains, "run"), counted(report.Records, "event"))
	if problems := len(report.Problems) + report.More; problems > 0 {
		return fmt.Errorf("the audit record does not verify: %s", counted(problems, "problem"))
	}
	fmt.Fprintf(out, "ok, last hash %s\n", report.LastHash)
	return nil
}
