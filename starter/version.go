package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"trawl/internal/spec"
)

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": spec.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			if r := revision(); r != "" {
				v["revision"] = r
			}
			if a.json {
				return a.printJSON(v)
			}
			a.print("trawl %s", v["version"])
			if r := v["revision"]; r != "" {
				a.print(" (%s)", r)
			}
			a.print(", %s, %s\n", v["go"], v["platform"])
			return nil
		},
	}
}

// revision is the commit that the program was built of, if the build says so.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+"
		}
	}
	return rev + dirty
}
