package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

func (c *CLI) nameSite(at *listener) *cobra.Command {
	return &cobra.Command{
		Use: "name-site NAME", Short: "Name the site of a cluster without sites", Args: arguments("NAME"),
		Long: `Name the site of a cluster without sites. A site keeps its name. All Redis instances have to be reached.
Afterwards "chronos topology add NAME URL --site SITE" adds another site.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeTopology(cmd, at, func(a *client.Admin, ctx context.Context) (client.Topology, error) {
				return a.NameSite(ctx, args[0])
			}, false)
		},
	}
}

func (c *CLI) removeSite(at *listener) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: "remove-site NAME", Short: "Forget another site", Args: arguments("NAME"),
		Long: `Forget another site. The remaining sites call back the timers of the site.
First stop the nodes of the site for good: they would go on calling back the same timers. The Redis instances of
the site keep their timers; empty them before another use.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeTopology(cmd, at, func(a *client.Admin, ctx context.Context) (client.Topology, error) {
				return a.RemoveSite(ctx, args[0], force)
			}, false)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "forget a site that is lost, or that has not told all: what only that site knew is lost")
	return cmd
}

func (c *CLI) beginSite(at *listener) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: "init", Short: "Have a site that lost all its timers begin without timers", Args: noArguments,
		Long: `Have the site of the node begin without timers. A site whose Redis instances are all empty waits until another site
fills it, and answers and calls back nothing. If no other site comes back, this command ends the wait: the timers
whose home was the site are given up.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.changeTopology(cmd, at, func(a *client.Admin, ctx context.Context) (client.Topology, error) {
				return a.BeginSite(ctx, force)
			}, false)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "begin although another site is reached and would fill the site")
	return cmd
}

// showSites shows the sites, if there are any, and what a change has given up.
func showSites(out io.Writer, view *client.Topology) {
	if len(view.Sites) > 0 {
		_, _ = fmt.Fprintf(out, "\nthis node is of site %s\n\n", plain(view.Site))
		t := newTable(out, "SITE", "REACHED", "FILLED", "BEHIND", "INSTANCES")
		for i := range view.Sites {
			s := &view.Sites[i]
			behind := "?"
			if s.Behind != nil {
				behind = (time.Duration(*s.Behind * float64(time.Second))).Round(100 * time.Millisecond).String()
			}
			t.row(s.Name, yesNo(s.Reached), yesNo(s.Filled), behind, strings.Join(s.Shards, ","))
		}
		t.flush()
	}
	if view.Note != "" {
		_, _ = fmt.Fprintf(out, "\n%s\n", plain(view.Note))
	}
}
