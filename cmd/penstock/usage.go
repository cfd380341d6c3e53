package main

import "github.com/spf13/cobra"

// usageError is wrong usage of the command, for which main exits with 2 instead
// of 1.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

// Unwrap returns what was wrong.
func (e *usageError) Unwrap() error { return e.err }

// asUsage makes an argument check of cobra report wrong usage.
func asUsage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}
