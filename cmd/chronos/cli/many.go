package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

// listPage is how many timers a request of a list asks for at most.
const listPage = 1000

func (c *CLI) list(at *listener) *cobra.Command {
	var f filter
	limit := 0
	cmd := &cobra.Command{
		Use: "list", Short: "List timers in the order of their due times", Args: noArguments,
		Long: "List timers in the order of their due times. All filters that are given must apply. The node looks at all\ntimers, so a rare text among millions takes a while.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit is less than 1")
			}
			if f.all && cmd.Flags().Changed("limit") {
				return usagef("--all and --limit exclude each other")
			}
			if f.all {
				limit = 0
			}
			return c.runList(cmd, at, &f, limit)
		},
	}
	f.add(cmd, "list all timers that match")
	cmd.Flags().IntVar(&limit, "limit", 100, "list so many timers at most")
	askAdmin(cmd.Flags(), at)
	return cmd
}

// runList lists up to limit timers; 0 for no limit. As JSON each timer is a line.
func (c *CLI) runList(cmd *cobra.Command, at *listener, f *filter, limit int) error {
	if err := f.read(c.Now()); err != nil {
		return err
	}
	node, err := c.admin(at)
	if err != nil {
		return err
	}
	defer node.Close()
	t := newTable(cmd.OutOrStdout())
	defer t.flush()
	shown, read := 0, pages{}
	var away []string
	for cursor := ""; ; {
		size := listPage
		if limit > 0 {
			size = min(size, limit-shown)
		}
		page, err := node.List(cmd.Context(), f.Filter, cursor, size)
		if err != nil {
			return node.outcome(err)
		}
		if cursor == "" && !asJSON(cmd) {
			t.row("ID", "DUE", "STATE", "POP", "ATTEMPTS", "CALLS")
		}
		for i := range page.Timers {
			if err := showListed(cmd, t, &page.Timers[i]); err != nil {
				return err
			}
		}
		shown, away = shown+len(page.Timers), with(away, page.Unreached)
		if err := read.next(page.Next); err != nil {
			return err
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		if limit > 0 && shown >= limit {
			_, _ = fmt.Fprintln(c.Err, "there may be more: --limit or --all shows more of them")
			break
		}
	}
	return incomplete("timers", away)
}

func showListed(cmd *cobra.Command, t *table, l *client.ListedTimer) error {
	if asJSON(cmd) {
		return show(cmd, l, nil)
	}
	t.row(l.ID, when(l.Due), string(l.State), strconv.Itoa(l.Sequence), strconv.Itoa(l.Attempts), l.Callback.HTTP.URI)
	return nil
}

// change is a change to a timer, or to all timers that match a filter.
type change struct {
	filter

	at     *listener
	action client.Action
	by     time.Duration
	did    string
	dryRun bool
	yes    bool
}

func (h *change) add(cmd *cobra.Command) {
	h.filter.add(cmd, "all timers")
	cmd.Flags().BoolVar(&h.dryRun, "dry-run", false, "count the timers, and change none")
	askAdmin(cmd.Flags(), h.at)
	cmd.Flags().BoolVar(&h.yes, "yes", false, "ask for no confirmation of a change to many timers")
}

func (c *CLI) fire(at *listener) *cobra.Command {
	h := change{at: at, action: client.BulkFire, did: "fired"}
	cmd := &cobra.Command{
		Use: "fire {ID... | FILTERS}", Short: "Have the next pop of timers be due now", Args: cobra.ArbitraryArgs,
		Long: "Have the next pop of timers be due now. The pops behind keep their due times.",
		RunE: func(cmd *cobra.Command, args []string) error { return c.runChange(cmd, &h, args) },
	}
	h.add(cmd)
	return cmd
}

func (c *CLI) delay(at *listener) *cobra.Command {
	h := change{at: at, action: client.BulkDelay, did: "delayed"}
	cmd := &cobra.Command{
		Use: "delay {ID... | FILTERS} --by DURATION", Short: "Have the next pops of timers come later", Args: cobra.ArbitraryArgs,
		Long: "Have the next pop of timers, and the pops behind, come later. After the exit status 3 some timers may be\ndelayed already: a second command delays these timers again.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if h.by <= 0 {
				return usagef("--by is missing, or not positive")
			}
			return c.runChange(cmd, &h, args)
		},
	}
	h.add(cmd)
	cmd.Flags().DurationVar(&h.by, "by", 0, "how much later, such as 30s")
	return cmd
}

func (c *CLI) deleteMany(at *listener) *cobra.Command {
	h := change{at: at, action: client.BulkDelete, did: "deleted"}
	cmd := &cobra.Command{
		Use: "delete FILTERS", Short: "Delete all timers that match", Args: noArguments,
		Long: "Delete all timers that match. \"chronos timer cancel\" deletes single timers.",
		RunE: func(cmd *cobra.Command, args []string) error { return c.runChange(cmd, &h, args) },
	}
	h.add(cmd)
	return cmd
}

func (c *CLI) runChange(cmd *cobra.Command, h *change, ids []string) error {
	if err := h.read(c.Now()); err != nil {
		return err
	}
	ways := 0
	for _, way := range []bool{len(ids) > 0, h.selects(), h.all} {
		if way {
			ways++
		}
	}
	switch {
	case ways == 0:
		return usagef("say which timers are meant: by a filter, or --all for all timers")
	case ways > 1:
		return usagef("IDs, filters and --all exclude each other")
	case len(ids) > 0 && h.dryRun:
		return usagef("--dry-run is for filters")
	}
	h.at.many = len(ids) == 0
	node, err := c.admin(h.at)
	if err != nil {
		return err
	}
	defer node.Close()
	if len(ids) > 0 {
		return each(cmd.Context(), c, ids, func(ctx context.Context, id string) error { return h.one(ctx, cmd, node, id) })
	}
	return c.changeMany(cmd, h, node)
}

// one changes a single timer.
func (h *change) one(ctx context.Context, cmd *cobra.Command, node *admin, id string) error {
	var done client.Receipt
	var err error
	if h.action == client.BulkFire {
		done, err = node.Fire(ctx, id, "")
	} else {
		done, err = node.Delay(ctx, id, h.by, "")
	}
	if err != nil {
		return node.outcome(err)
	}
	return showReceipt(cmd, &done)
}

// changeMany counts the timers, has the user confirm the number, and changes the timers.
func (c *CLI) changeMany(cmd *cobra.Command, h *change, node *admin) error {
	if h.dryRun || !h.yes {
		counted, err := c.carryOut(cmd.Context(), h, node, true)
		if err != nil {
			return err
		}
		if h.dryRun {
			if err := show(cmd, &counted, func(out io.Writer) { _, _ = fmt.Fprintf(out, "%d timers would be %s\n", counted.Done, h.did) }); err != nil {
				return err
			}
			return incomplete("timers", counted.Unreached)
		}
		if err := c.confirm(cmd, h, &counted); err != nil {
			return err
		}
	}
	sum, err := c.carryOut(cmd.Context(), h, node, false)
	if err != nil {
		_, _ = fmt.Fprintf(c.Err, "%s %d timers before the error\n", h.did, sum.Done)
		return err
	}
	if err := show(cmd, &sum, func(out io.Writer) {
		_, _ = fmt.Fprintf(out, "%s %d timers, refused %d, left out %d that changed meanwhile\n", h.did, sum.Done, len(sum.Refused), sum.LeftOut)
	}); err != nil {
		return err
	}
	if len(sum.Refused) > 0 {
		return &failure{Refused, errors.New("some timers were left as they are")}
	}
	return incomplete("timers", sum.Unreached)
}

// confirm has the user type how many timers are to be changed.
func (c *CLI) confirm(cmd *cobra.Command, h *change, counted *client.BulkResult) error {
	count, missing := counted.Done, ""
	if len(counted.Unreached) > 0 {
		missing = ", without the timers on " + plain(strings.Join(counted.Unreached, ", ")) + ", which the node can't reach now"
	}
	if !isTerminal(cmd.InOrStdin()) {
		return usagef("%d timers would be %s, and nobody can confirm this: give --yes", count, h.did)
	}
	_, _ = fmt.Fprintf(c.Err, "%d timers will be %s%s. Type the number to go on: ", count, h.did, missing)
	typed := make(chan string, 1)
	go func() { // ends with the process, if nobody types a line
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // an error leaves the line incomplete, which is no confirmation
		typed <- line
	}()
	select {
	case line := <-typed:
		if line == strconv.Itoa(count)+"\n" {
			return nil
		}
	case <-cmd.Context().Done():
	}
	return &failure{Refused, errors.New("not confirmed: nothing was done")}
}

// carryOut calls for the change until all timers have had their turn. After an error the sum is what was done
// before the error.
func (c *CLI) carryOut(ctx context.Context, h *change, node *admin, dryRun bool) (sum client.BulkResult, err error) {
	b := client.Bulk{Action: h.action, By: h.by, Filter: h.Filter, All: h.all, DryRun: dryRun}
	sum.Refused, sum.Unreached = []client.BulkRefusal{}, []string{}
	for read := (pages{}); ; {
		done, err := node.Bulk(ctx, b)
		for _, r := range done.Refused {
			_, _ = fmt.Fprintf(c.Err, "%s: %s\n", plain(r.ID), plain(r.Detail))
		}
		sum.Done, sum.LeftOut, sum.Scanned = sum.Done+done.Done, sum.LeftOut+done.LeftOut, sum.Scanned+done.Scanned
		sum.Refused, sum.Unreached = append(sum.Refused, done.Refused...), with(sum.Unreached, done.Unreached)
		if err != nil {
			return sum, node.outcome(err)
		}
		if err := read.next(done.Next); err != nil || done.Next == "" {
			return sum, err
		}
		b.Cursor = done.Next
	}
}
