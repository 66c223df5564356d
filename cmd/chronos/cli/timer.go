package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

// timer is the tree of chronos timer.
func (c *CLI) timer() *cobra.Command {
	at := new(listener)
	timer := only(&cobra.Command{
		Use: "timer", Short: "Create, show, change and cancel timers", GroupID: groupAsk,
		Long: `Create, show, change and cancel timers.

create, get, cancel, watch and import ask the public listener; list, fire, delay, delete, export and
--copies ask the admin listener. CHRONOS_TOKEN is the token for both. Without CHRONOS_TOKEN the admin listener gets the token
that a node of this user on this machine made.`,
	})
	askInTime(timer.PersistentFlags(), at)
	addOutput(timer, timer.PersistentFlags())
	timer.AddCommand(c.create(at), c.get(at), c.cancel(at), c.watch(at), c.list(at), c.fire(at), c.delay(at), c.deleteMany(at), c.export(at), c.importTimers(at))
	return timer
}

func (c *CLI) get(at *listener) *cobra.Command {
	withCopies := false
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show a timer", Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := c.public(at)
			if err != nil {
				return err
			}
			defer nodes.Close()
			found, err := nodes.Lookup(cmd.Context(), args[0])
			if err != nil {
				return outcome(err)
			}
			view := viewStored(&found)
			if withCopies {
				if view["copies"], err = c.copies(cmd.Context(), at, args[0]); err != nil {
					return err
				}
			}
			return show(cmd, view, func(out io.Writer) { showStored(out, &found, view["copies"]) })
		},
	}
	askPublic(cmd.Flags(), at)
	askAdmin(cmd.Flags(), at)
	cmd.Flags().BoolVar(&withCopies, "copies", false, "show the copies on the Redis instances, too")
	return cmd
}

func (c *CLI) copies(ctx context.Context, at *listener, id string) ([]client.Copy, error) {
	node, err := c.admin(at)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	copies, err := node.Copies(ctx, id)
	return copies, node.outcome(err)
}

// viewStored is a timer as GET /timers/{id} answers it.
func viewStored(s *client.Stored) map[string]any {
	view := map[string]any{}
	raw, err := json.Marshal(s.Timer)
	if err == nil {
		_ = json.Unmarshal(raw, &view) // was marshalled from an object
	}
	view["id"], view["key"], view["state"], view["due"] = s.ID, s.Key, s.State, when(s.Due)
	view["sequence"], view["attempts"], view["etag"] = s.Sequence, s.Attempts, s.ETag
	if f := s.LastFailure; f != nil {
		view["last-failure"] = map[string]string{"at": when(f.At), "reason": f.Reason}
	}
	return view
}

func showStored(out io.Writer, s *client.Stored, copies any) {
	t := newTable(out)
	t.row("id", s.ID)
	t.row("state", string(s.State))
	t.row("due", when(s.Due))
	t.row("pop", strconv.Itoa(s.Sequence)+", attempts so far "+strconv.Itoa(s.Attempts))
	if s.Timer.RepeatFor > 0 {
		t.row("recurs", fmt.Sprintf("every %v for %v", s.Timer.Interval, s.Timer.RepeatFor))
	}
	method := s.Timer.Method
	if method == "" {
		method = "POST"
	}
	t.row("calls", method+" "+s.Timer.URI)
	if s.Timer.Opaque != "" {
		t.row("body", s.Timer.Opaque)
	}
	for _, tag := range s.Timer.Tags {
		t.row("tag", tag.Type+"="+strconv.Itoa(tag.Count))
	}
	if f := s.LastFailure; f != nil {
		t.row("last failure", when(f.At)+" "+f.Reason)
	}
	t.flush()
	if list, is := copies.([]client.Copy); is {
		_, _ = fmt.Fprintln(out)
		showCopies(out, list)
	}
}

func showCopies(out io.Writer, copies []client.Copy) {
	t := newTable(out, "SHARD", "RANK", "STATE", "VERSION", "POP", "ATTEMPT", "DUE", "LOOK", "LEASE")
	for i := range copies {
		c := &copies[i]
		t.row(c.Shard, strconv.Itoa(c.Rank), c.State, orDash(c.Version), orDash(c.Sequence), orDash(c.Attempt), instantOrDash(c.Due), instantOrDash(c.Look), orDash(c.Lease))
	}
	t.flush()
}

func orDash[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

func instantOrDash(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return when(*at)
}

func (c *CLI) cancel(at *listener) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel ID...", Short: "Cancel timers", Args: cobra.ArbitraryArgs,
		Long: "Cancel timers. A timer that does not exist counts as cancelled, as with DELETE.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("ID is missing")
			}
			nodes, err := c.public(at)
			if err != nil {
				return err
			}
			defer nodes.Close()
			return each(cmd.Context(), c, args, func(ctx context.Context, id string) error {
				done, err := nodes.Delete(ctx, id)
				if err != nil {
					return outcome(err)
				}
				view := map[string]any{"id": id, "in_flight": done.InFlight, "unreached": done.Unreached}
				return show(cmd, view, func(out io.Writer) {
					text := plain(id) + " is cancelled"
					if done.InFlight {
						text += "; a callback may still start within 2 s"
					}
					if done.Unreached > 0 {
						text += fmt.Sprintf("; %d copies could not be told yet", done.Unreached)
					}
					_, _ = fmt.Fprintln(out, text)
				})
			})
		},
	}
	askPublic(cmd.Flags(), at)
	return cmd
}

// watchEvery is the time between two looks at a watched timer.
const watchEvery = time.Second

func (c *CLI) watch(at *listener) *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch ID", Short: "Show each change of a timer until the timer has ended", Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := c.public(at)
			if err != nil {
				return err
			}
			defer nodes.Close()
			return c.follow(cmd, nodes, args[0])
		},
	}
	askPublic(cmd.Flags(), at)
	return cmd
}

func (c *CLI) follow(cmd *cobra.Command, nodes *client.Client, id string) error {
	ctx, before := cmd.Context(), ""
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		found, err := nodes.Lookup(ctx, id)
		if errors.Is(err, client.ErrNotFound) && before != "" {
			return showEnd(cmd, err)
		}
		if err != nil && ctx.Err() != nil && before != "" {
			return nil // the user has seen enough
		}
		if err != nil {
			return outcome(err)
		}
		line := fmt.Sprintf("%s, pop %d is due %s, attempts so far %d", plain(string(found.State)), found.Sequence, when(found.Due), found.Attempts)
		if f := found.LastFailure; f != nil {
			line += ", last failure: " + plain(f.Reason)
		}
		if line != before {
			before = line
			if err := show(cmd, viewStored(&found), func(out io.Writer) { _, _ = fmt.Fprintln(out, when(c.Now()), line) }); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// showEnd shows how a watched timer has ended, as far as the node knows.
func showEnd(cmd *cobra.Command, err error) error {
	view := map[string]string{"state": "over"}
	if problem, is := errors.AsType[*client.Problem](err); is && problem.Last != nil {
		view["result"], view["at"] = problem.Last.Result, when(problem.Last.At)
	}
	return show(cmd, view, func(out io.Writer) {
		if view["result"] == "" {
			_, _ = fmt.Fprintln(out, "the timer has ended")
			return
		}
		_, _ = fmt.Fprintf(out, "the timer has ended; the last callback: %s at %s\n", plain(view["result"]), view["at"])
	})
}
