package main

import (
	"errors"

	"github.com/spf13/cobra"

	"trawl/internal/spec"
)

func (a *app) validateCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check a spec file; start nothing",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.validate(file)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "spec file in YAML; - for standard input (required)")
	if err := cmd.MarkFlagRequired("file"); err != nil {
		panic(err) // the flag is one line above
	}
	return cmd
}

func (a *app) validate(file string) error {
	s, err := a.readSpec(file)
	if err == nil {
		err = finish(s)
	}
	var ps spec.Problems
	switch {
	case a.json && errors.As(err, &ps):
		if err := a.printJSON(ps); err != nil {
			return err
		}
		return exit(exitUsage)
	case err != nil:
		return err
	case a.json:
		return a.printJSON([]spec.Problem{})
	}
	for _, n := range s.Notes() {
		a.say("note: %s", n)
	}
	a.print("%s: valid, crawl %s\n", file, s.Name)
	return nil
}
