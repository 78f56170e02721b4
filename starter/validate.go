package main

import (
	"errors"

	"github.com/spf13/cobra"

	"trawl/internal/spec"
)

func (a *app) validateCmd() *cobra.Command {
	return validator("Check the spec file of a crawl; start nothing", func(file string) error {
		s, err := a.readSpec(file)
		if err == nil {
			err = finish(s)
		}
		if err != nil {
			return a.valid(file, "", nil, err)
		}
		return a.valid(file, "crawl "+s.Name, s.Notes(), nil)
	})
}

// validator is a command that checks a spec file.
func validator(short string, check func(file string) error) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "validate -f FILE", Short: short, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return check(file) },
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "spec file in YAML; - for standard input (required)")
	if err := cmd.MarkFlagRequired("file"); err != nil {
		panic(err) // the flag is one line above
	}
	return cmd
}

// valid prints what came of a check: the problems, or whose spec it is.
func (a *app) valid(file, whose string, notes []string, err error) error {
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
	for _, n := range notes {
		a.say("note: %s", n)
	}
	a.print("%s: valid, %s\n", file, whose)
	return nil
}
