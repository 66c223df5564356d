package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

// letters are the flags that select dead letters.
type letters struct {
	client.LetterFilter

	since, until string
	all          bool
}

func (f *letters) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.Key, "key", "", "of the timer with this `key`")
	flags.StringVar(&f.KeyPrefix, "key-prefix", "", "of timers whose keys begin with this `text`")
	flags.StringVar(&f.Reason, "reason", "", "with this `text` in the reason")
	flags.StringVar(&f.Callback, "callback", "", "for this `host`, with or without port, or for URLs that begin with it")
	flags.StringVar(&f.since, "since", "", "given up at this `instant` or later, such as 2027-01-01T00:00:00Z, or within this time, such as 2h30m")
	flags.StringVar(&f.until, "until", "", "given up at this `instant` or earlier, or not within this time")
}

func (f *letters) read(now time.Time) (err error) {
	if f.Since, err = readInstant("--since", f.since, now, true); err != nil {
		return err
	}
	f.Until, err = readInstant("--until", f.until, now, true)
	return err
}

func (f *letters) selects() bool { return f.LetterFilter != (client.LetterFilter{}) }

// dead is the tree of chronos dead.
func (c *CLI) dead() *cobra.Command {
	at := new(listener)
	list := c.listDead(at)
	dead := &cobra.Command{
		Use: "dead", Short: "Show the dead letters, fire them again, delete them", GroupID: groupAsk, Args: noArguments,
		Long: "Show the dead letters, fire them again, delete them. A dead letter is a pop that chronos gave up.\nWithout a command the dead letters are listed, as by \"chronos dead list\".",
		RunE: list.RunE,
	}
	askAdmin(dead.PersistentFlags(), at)
	askInTime(dead.PersistentFlags(), at)
	addOutput(dead, dead.PersistentFlags())
	dead.Flags().AddFlagSet(list.Flags())
	dead.AddCommand(list, c.showDead(at), c.groupDead(at), c.fireDead(at), c.deleteDead(at))
	return dead
}

func (c *CLI) listDead(at *listener) *cobra.Command {
	var f letters
	limit, cursor := 0, ""
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters, the newest first", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.read(c.Now()); err != nil {
				return err
			}
			if limit < 1 {
				return usagef("--limit is less than 1")
			}
			node, err := c.admin(at)
			if err != nil {
				return err
			}
			defer node.Close()
			if asJSON(cmd) {
				page, err := node.Letters(cmd.Context(), f.LetterFilter, cursor, limit)
				if err != nil {
					return node.outcome(err)
				}
				if err := show(cmd, &page, nil); err != nil {
					return err
				}
				return incomplete("dead letters", page.Unreached)
			}
			if cursor != "" {
				return usagef("--cursor is for --json, which shows a single page")
			}
			return c.tableOfDead(cmd, node, &f, limit)
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "list so many dead letters at most; with --json up to 1000")
	cmd.Flags().StringVar(&cursor, "cursor", "", "with --json: go on at the next of the answer before")
	return cmd
}

func (c *CLI) tableOfDead(cmd *cobra.Command, node *admin, f *letters, limit int) error {
	t := newTable(c.Out)
	shown, read := 0, pages{}
	var away []string
	var page client.LetterPage
	for cursor := ""; ; cursor = page.Next {
		var err error
		if page, err = node.Letters(cmd.Context(), f.LetterFilter, cursor, min(limit-shown, listPage)); err != nil {
			t.flush()
			return node.outcome(err)
		}
		if cursor == "" {
			t.row("ID", "GIVEN UP", "KEY", "ATTEMPTS", "REASON", "CALLBACK")
		}
		for i := range page.Letters {
			l := &page.Letters[i]
			reason := l.Reason
			if l.Problem != "" {
				reason = l.Problem
			}
			t.row(l.ID, when(l.At), l.Key, strconv.Itoa(l.Attempts), reason, l.Callback)
		}
		shown, away = shown+len(page.Letters), with(away, page.Unreached)
		if err := read.next(page.Next); err != nil {
			return err
		}
		if page.Next == "" || shown >= limit {
			break
		}
	}
	t.flush()
	all := ""
	if page.Total != nil { // a token with a prefix is not told
		all = fmt.Sprintf(" of %d", *page.Total)
	}
	_, _ = fmt.Fprintf(c.Out, "\n%d%s dead letters\n", shown, all)
	if page.Next != "" {
		_, _ = fmt.Fprintln(c.Err, "there may be more: --limit shows more of them")
	}
	return incomplete("dead letters", away)
}

func (c *CLI) showDead(at *listener) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a dead letter, with its timer", Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := c.admin(at)
			if err != nil {
				return err
			}
			defer node.Close()
			l, err := node.Letter(cmd.Context(), args[0])
			if err != nil {
				return node.outcome(err)
			}
			return show(cmd, &l, func(out io.Writer) { showLetter(out, &l) })
		},
	}
}

func showLetter(out io.Writer, l *client.Letter) {
	t := newTable(out)
	for _, line := range [][2]string{
		{"id", l.ID}, {"key", l.Key}, {"given up", when(l.At)}, {"reason", l.Reason}, {"shard", l.Shard}, {"webhook-id", l.WebhookID},
		{"sequence", strconv.Itoa(l.Sequence)}, {"attempts", strconv.Itoa(l.Attempts)}, {"problem", l.Problem}, {"text", l.Text},
	} {
		if line[1] != "" && line[1] != "0" {
			t.row(line[0], line[1])
		}
	}
	t.flush()
	var indented bytes.Buffer
	if l.Timer == nil || json.Indent(&indented, l.Timer, "", "  ") != nil {
		return
	}
	for line := range strings.Lines(indented.String()) {
		_, _ = fmt.Fprintln(out, plain(strings.TrimSuffix(line, "\n")))
	}
}

func (c *CLI) groupDead(at *listener) *cobra.Command {
	return &cobra.Command{
		Use: "groups", Short: "Sum up the newest dead letters by destination and reason", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			node, err := c.admin(at)
			if err != nil {
				return err
			}
			defer node.Close()
			found, err := node.LetterGroups(cmd.Context())
			if err != nil {
				return node.outcome(err)
			}
			if err := show(cmd, &found, func(out io.Writer) { showGroups(out, &found) }); err != nil {
				return err
			}
			return incomplete("dead letters", found.Unreached)
		},
	}
}

func showGroups(out io.Writer, g *client.LetterGroups) {
	t := newTable(out, "COUNT", "DESTINATION", "REASON", "OLDEST", "NEWEST")
	for i := range g.Groups {
		one := &g.Groups[i]
		t.row(strconv.Itoa(one.Count), orDash(one.Destination), one.Reason, instantOrDash(one.Oldest), instantOrDash(one.Newest))
	}
	t.flush()
	which := "all"
	if !g.Complete {
		which = "the newest"
	}
	_, _ = fmt.Fprintf(out, "\n%d groups of %s %d dead letters\n", len(g.Groups), which, g.LookedAt)
}
