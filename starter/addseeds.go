package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"trawl/internal/contract"
	"trawl/internal/spec"
	"trawl/workflows"
)

// maxAdded bounds one update: it becomes part of the workflow's history.
const maxAdded = 1000

func (a *app) addSeedsCmd() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "add-seeds NAME [URL...]",
		Short: "Add URLs to a crawl under way",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			urls, err := seedURLs(args[1:], files)
			if err != nil {
				return err
			}
			return a.addSeeds(cmd, args[0], urls)
		},
	}
	cmd.Flags().StringArrayVar(&files, "seed-file", nil, "file with one URL per line; repeatable")
	return cmd
}

// seedURLs reads and checks seeds by the rules of the spec.
func seedURLs(urls, files []string) ([]string, error) {
	s := spec.New()
	s.Seeds.URLs, s.Seeds.Files = urls, files
	return s.SeedURLs()
}

// addSeeds sends the URLs in portions. A portion sent twice does no harm, so
// after a failure the whole command can be repeated.
func (a *app) addSeeds(cmd *cobra.Command, name string, urls []string) error {
	t, err := a.world.temporal(cmd.Context())
	if err != nil {
		return err
	}
	defer t.Close()
	for sent := 0; sent < len(urls); {
		n := min(maxAdded, len(urls)-sent)
		err := t.Update(cmd.Context(), name, workflows.UpAddSeeds, contract.AddSeeds{URLs: urls[sent : sent+n]})
		if err != nil {
			if sent > 0 {
				a.say("%d of %d seeds were added; repeat the command for the others", sent, len(urls))
			}
			return err
		}
		sent += n
	}
	return a.confirm(name, fmt.Sprintf("%d seed(s) added", len(urls)))
}
