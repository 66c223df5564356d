package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

func (c *CLI) status() *cobra.Command {
	at, watch := new(listener), false
	cmd := &cobra.Command{
		Use: "status", Short: "Show nodes, Redis instances, timers and alarms", GroupID: groupAsk, Args: noArguments,
		Long: "Show nodes, Redis instances, timers and alarms. The exit status is 1 if there is an alarm.",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runStatus(cmd, at, watch) },
	}
	askAdmin(cmd.Flags(), at)
	askInTime(cmd.Flags(), at)
	addOutput(cmd, cmd.Flags())
	cmd.Flags().BoolVar(&watch, "watch", false, "show the status again every 2 s, until Ctrl-C")
	return cmd
}

const statusEvery = 2 * time.Second

func (c *CLI) runStatus(cmd *cobra.Command, at *listener, watch bool) error {
	node, err := c.admin(at)
	if err != nil {
		return err
	}
	defer node.Close()
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for shown := false; ; shown = true {
		found, err := node.Status(cmd.Context())
		if err != nil && cmd.Context().Err() != nil && shown {
			return nil // the user has seen enough
		}
		if err != nil {
			return node.outcome(err)
		}
		if watch && isTerminal(c.Out) && !asJSON(cmd) {
			_, _ = fmt.Fprint(c.Out, "\x1b[H\x1b[J") // from the top of an empty screen
		}
		if err := show(cmd, &found, func(out io.Writer) { c.showStatus(out, &found) }); err != nil {
			return err
		}
		if !watch {
			return alarmed(found.Alarms)
		}
		select {
		case <-tick.C:
		case <-cmd.Context().Done():
			return alarmed(found.Alarms)
		}
	}
}

func alarmed(alarms []client.Alarm) error {
	if len(alarms) == 0 {
		return nil
	}
	return &failure{status: Refused} // the alarms are shown
}

func (c *CLI) showStatus(out io.Writer, s *client.Status) {
	for _, a := range s.Alarms {
		_, _ = fmt.Fprintln(out, c.red("ALARM "+plain(a.Code)+": "+plain(a.Text)))
	}
	if len(s.Alarms) == 0 {
		_, _ = fmt.Fprintln(out, "no alarms")
	}
	_, _ = fmt.Fprintf(out, "\ntimers ≈ %d in %d copies, dead letters %d, in flight %d\n", s.Timers.About, s.Timers.Copies, s.Dead.Total, s.InFlight)
	_, _ = fmt.Fprintf(out, "fired %.1f/s, failed %.1f/s, late p50 %.1f ms, p99 %.1f ms, p99.9 %.1f ms\n\n", s.FiredPerS, s.FailedPerS, s.LateMS.P50, s.LateMS.P99, s.LateMS.P999)
	t := newTable(out, "SHARD", "STATE", "UP", "COPIES", "SWEPT", "MEMORY", "CLOCK", "PERSISTS", "PROBLEM")
	for i := range s.Shards {
		h := &s.Shards[i]
		t.row(h.Name, h.State, yesNo(h.Up), orDash(h.Copies), share(h.Swept), memory(h.UsedMemory, h.MaxMemory), fmt.Sprintf("%+.1f ms", h.ClockOffsetMS), h.Persists, orDash(h.Problem))
	}
	t.flush()
	_, _ = fmt.Fprintln(out)
	t = newTable(out, "NODE", "HOST", "VERSION", "FIRED/S", "FAILED/S", "IN FLIGHT", "P99.9", "SEEN")
	for i := range s.Nodes {
		n := &s.Nodes[i]
		t.row(n.ID, n.Host, n.Version, fmt.Sprintf("%.1f", n.FiredPerS), fmt.Sprintf("%.1f", n.FailedPerS), strconv.Itoa(n.InFlight), fmt.Sprintf("%.1f ms", n.LateMS.P999), fmt.Sprintf("%.1f s ago", n.SeenMS/1000))
	}
	t.flush()
}

// red is text in red on a terminal, unless NO_COLOR is set (no-color.org).
func (c *CLI) red(text string) string {
	for _, entry := range c.Environ {
		if value, is := strings.CutPrefix(entry, "NO_COLOR="); is && value != "" {
			return text
		}
	}
	if _, is := c.Out.(*os.File); !is || !isTerminal(c.Out) {
		return text
	}
	return "\x1b[31m" + text + "\x1b[0m"
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func share(of *float64) string {
	if of == nil {
		return "?"
	}
	return fmt.Sprintf("%.0f %%", *of*100)
}

func memory(used *int64, most int64) string {
	if used == nil {
		return "?"
	}
	text := fmt.Sprintf("%.1f MiB", float64(*used)/(1<<20))
	if most > 0 {
		text += fmt.Sprintf(" of %.1f", float64(most)/(1<<20))
	}
	return text
}

func (c *CLI) healthcheck() *cobra.Command {
	at := new(listener)
	cmd := &cobra.Command{
		Use: "healthcheck [ready|live]", Short: "Ask whether a node serves requests, for images without a shell", GroupID: groupAsk,
		Long:      "Ask whether a node serves requests (ready, without an argument), or whether its process runs (live).\nWithout --admin-url and CHRONOS_ADMIN_URL the port is that of CHRONOS_ADMIN_LISTEN, as in the image of a node.",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: []string{"ready", "live"},
		RunE: func(cmd *cobra.Command, args []string) error {
			what := "ready"
			if len(args) > 0 {
				what = args[0]
			}
			if what != "ready" && what != "live" {
				return usagef("%q is neither ready nor live", what)
			}
			at.ofNode = true
			node, err := c.admin(at)
			if err != nil {
				return err
			}
			defer node.Close()
			ask := node.Ready
			if what == "live" {
				ask = node.Live
			}
			err = ask(cmd.Context())
			if problem, answered := errors.AsType[*client.Problem](err); answered {
				return &failure{Refused, fmt.Errorf("not %s: %s", what, problem.Detail)}
			}
			if err != nil {
				return outcome(err)
			}
			_, err = fmt.Fprintln(c.Out, what)
			return lost(err)
		},
	}
	askAdmin(cmd.Flags(), at)
	askInTime(cmd.Flags(), at)
	return cmd
}
