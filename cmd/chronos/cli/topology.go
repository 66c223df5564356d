package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

// topology is the tree of chronos topology.
func (c *CLI) topology() *cobra.Command {
	at := new(listener)
	topology := &cobra.Command{
		Use: "topology", Short: "Show or change which Redis instances there are", GroupID: groupAsk, Args: noArguments,
		Long: "Show or change which Redis instances there are. Without a command the instances are shown.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.changeTopology(cmd, at, (*client.Admin).Topology, false)
		},
	}
	askAdmin(topology.PersistentFlags(), at)
	askInTime(topology.PersistentFlags(), at)
	addOutput(topology, topology.PersistentFlags())
	topology.AddCommand(c.showShards(at), c.addShard(at), c.drainShard(at), c.removeShard(at), c.nameSite(at), c.removeSite(at), c.beginSite(at))
	return topology
}

func (c *CLI) showShards(at *listener) *cobra.Command {
	watch := false
	cmd := &cobra.Command{
		Use: "show", Short: "Show the Redis instances, and how far the sweep is", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.changeTopology(cmd, at, (*client.Admin).Topology, watch)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show the instances again every second until all timers have moved")
	return cmd
}

func (c *CLI) addShard(at *listener) *cobra.Command {
	force, wait, site := false, false, ""
	cmd := &cobra.Command{
		Use: "add NAME [URL]", Short: "Have a Redis instance take timers",
		Long: `Have a Redis instance take timers. Timers of which the instance is to have a copy move there.
Without URL the command takes back an instance that is being drained.
With --site the instance is one of another site. A new site begins with the instance, and is filled at once;
then start nodes of the new site.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return arguments("NAME")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			url := ""
			if len(args) == 2 {
				url = args[1]
			}
			return c.changeTopology(cmd, at, func(a *client.Admin, ctx context.Context) (client.Topology, error) {
				if site != "" {
					return a.AddShardTo(ctx, site, args[0], url, force)
				}
				return a.AddShard(ctx, args[0], url, force)
			}, wait)
		},
	}
	cmd.Flags().StringVar(&site, "site", "", "`SITE` of the instance (default the site of the node)")
	addChange(cmd, &force, &wait, "add a second database of one Redis, too")
	return cmd
}

func (c *CLI) drainShard(at *listener) *cobra.Command {
	force, wait := false, false
	cmd := &cobra.Command{
		Use: "drain NAME", Short: "Move the timers of a Redis instance to the other instances", Args: arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeTopology(cmd, at, func(a *client.Admin, ctx context.Context) (client.Topology, error) {
				return a.DrainShard(ctx, args[0], force)
			}, wait)
		},
	}
	addChange(cmd, &force, &wait, "give up an instance that can't be reached: what has no copy elsewhere is lost")
	return cmd
}

func (c *CLI) removeShard(at *listener) *cobra.Command {
	force, wait := false, false
	cmd := &cobra.Command{
		Use: "remove NAME", Short: "Remove a Redis instance that is drained and empty", Args: arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeTopology(cmd, at, func(a *client.Admin, ctx context.Context) (client.Topology, error) {
				return a.RemoveShard(ctx, args[0], force)
			}, wait)
		},
	}
	addChange(cmd, &force, &wait, "remove the instance whatever the instance holds")
	return cmd
}

func addChange(cmd *cobra.Command, force, wait *bool, meaning string) {
	cmd.Flags().BoolVar(force, "force", false, meaning)
	cmd.Flags().BoolVar(wait, "wait", false, "show the progress until all timers have moved")
}

const (
	topologyEvery = time.Second
	// maxUnanswered is how many requests in a row may fail while a command waits.
	maxUnanswered = 30
)

// changeTopology carries out a request, shows the answer, and if asked shows the topology again until all
// timers have moved.
func (c *CLI) changeTopology(cmd *cobra.Command, at *listener, do func(*client.Admin, context.Context) (client.Topology, error), wait bool) error {
	node, err := c.admin(at)
	if err != nil {
		return err
	}
	defer node.Close()
	found, err := do(node.Admin, cmd.Context())
	if err != nil {
		return node.outcome(err)
	}
	tick := time.NewTicker(topologyEvery)
	defer tick.Stop()
	var rate pace
	for unanswered := 0; ; {
		if wait && isTerminal(c.Out) && !asJSON(cmd) {
			_, _ = fmt.Fprint(c.Out, "\x1b[H\x1b[J") // from the top of an empty screen
		}
		left := rate.left(&found, c.Now())
		if err := show(cmd, &found, func(out io.Writer) { showTopology(out, &found, left) }); err != nil || !wait || !found.Moving {
			return err
		}
		for {
			select {
			case <-tick.C:
			case <-cmd.Context().Done():
				return &failure{Refused, errors.New("stopped waiting; timers still move")}
			}
			next, err := node.Topology(cmd.Context())
			if err == nil {
				found, unanswered = next, 0
				break
			}
			if unanswered++; unanswered == maxUnanswered {
				return node.outcome(err)
			}
		}
	}
}

func showTopology(out io.Writer, view *client.Topology, left string) {
	state := "at rest"
	switch {
	case slices.ContainsFunc(view.Shards, announced):
		state = "a change is being announced to all nodes"
	case view.Moving:
		state = "timers are being moved" + left
	}
	_, _ = fmt.Fprintf(out, "epoch %d, cluster-view-id %s, %s\n\n", view.Epoch, plain(view.View), state)
	t := newTable(out, "NAME", "STATE", "COPIES", "SWEPT", "URL", "PROBLEM")
	for i := range view.Shards {
		s := &view.Shards[i]
		copies, swept := "?", "?"
		if s.Copies != nil && s.Swept != nil {
			copies, swept = strconv.FormatInt(*s.Copies, 10), bar(*s.Swept)
		}
		if !view.Moving {
			swept = "-"
		}
		t.row(s.Name, s.State, copies, swept, s.URL, s.Problem)
	}
	t.flush()
	showSites(out, view)
}

func announced(s client.TopologyShard) bool { return s.State == "joining" || s.State == "leaving" }

// bar is a bar of ten characters, and the share in percent.
func bar(share float64) string {
	full := min(max(int(share*10+.5), 0), 10)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", 10-full) + fmt.Sprintf("] %3.0f %%", share*100)
}

// pace estimates how long a sweep still takes. The zero value has seen nothing.
type pace struct {
	since time.Time
	from  float64
}

// left says how fast the instances are swept, and how long the slowest still takes; "" before two looks differ.
func (p *pace) left(view *client.Topology, now time.Time) string {
	swept := 1.0
	for i := range view.Shards {
		if s := view.Shards[i].Swept; s != nil {
			swept = min(swept, *s)
		}
	}
	if p.since.IsZero() || swept < p.from {
		p.since, p.from = now, swept
	}
	done, took := swept-p.from, now.Sub(p.since)
	if done <= 0 || took <= 0 {
		return ""
	}
	rest := time.Duration(float64(took) * (1 - swept) / done)
	return fmt.Sprintf(", %.1f %% a second, some %v left", 100*done/took.Seconds(), rest.Round(time.Second))
}
