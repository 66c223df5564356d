package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

// deadChange is a change to a dead letter, or to all dead letters that match a filter.
type deadChange struct {
	letters

	did  string
	one  func(ctx context.Context, cmd *cobra.Command, node *admin, id string) error
	many func(ctx context.Context, node *admin, f client.LetterFilter, all bool, cursor string) (client.LettersDone, error)
}

func (c *CLI) fireDead(at *listener) *cobra.Command {
	h := deadChange{did: "fired", one: fireLetter, many: func(ctx context.Context, node *admin, f client.LetterFilter, all bool, cursor string) (client.LettersDone, error) {
		return node.FireLetters(ctx, f, all, cursor)
	}}
	return c.changeDead(at, &h, &cobra.Command{Use: "fire {ID | FILTERS | --all}", Short: "Have dead letters called back again, at once"})
}

func (c *CLI) deleteDead(at *listener) *cobra.Command {
	h := deadChange{did: "deleted", one: deleteLetter, many: func(ctx context.Context, node *admin, f client.LetterFilter, all bool, cursor string) (client.LettersDone, error) {
		return node.DeleteLetters(ctx, f, all, cursor)
	}}
	return c.changeDead(at, &h, &cobra.Command{Use: "delete {ID | FILTERS | --all}", Short: "Delete dead letters"})
}

func fireLetter(ctx context.Context, cmd *cobra.Command, node *admin, id string) error {
	made, err := node.FireLetter(ctx, id)
	if err != nil {
		return node.outcome(err)
	}
	return show(cmd, map[string]string{"id": made.ID}, func(out io.Writer) {
		_, _ = fmt.Fprintln(out, "fired again as timer", plain(made.ID))
	})
}

func deleteLetter(ctx context.Context, cmd *cobra.Command, node *admin, id string) error {
	if err := node.DeleteLetter(ctx, id); err != nil {
		return node.outcome(err)
	}
	return show(cmd, map[string]int{"deleted": 1}, func(out io.Writer) { _, _ = fmt.Fprintln(out, "deleted") })
}

func (c *CLI) changeDead(at *listener, h *deadChange, cmd *cobra.Command) *cobra.Command {
	h.add(cmd)
	cmd.Flags().BoolVar(&h.all, "all", false, "all dead letters")
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := h.read(c.Now()); err != nil {
			return err
		}
		ways := len(args)
		for _, way := range []bool{h.selects(), h.all} {
			if way {
				ways++
			}
		}
		if ways != 1 {
			return usagef("say which dead letters are meant: by an ID, by filters, or by --all")
		}
		at.many = len(args) == 0
		node, err := c.admin(at)
		if err != nil {
			return err
		}
		defer node.Close()
		if len(args) == 1 {
			return h.one(cmd.Context(), cmd, node, args[0])
		}
		return c.changeManyDead(cmd, h, node)
	}
	return cmd
}

// changeManyDead changes all selected dead letters, one page per request.
func (c *CLI) changeManyDead(cmd *cobra.Command, h *deadChange, node *admin) error {
	sum, err := c.carryOutDead(cmd, h, node)
	if isTerminal(c.Err) {
		_, _ = fmt.Fprint(c.Err, "\r\x1b[K") // the line of progress is over
	}
	if err != nil {
		_, _ = fmt.Fprintf(c.Err, "%s %d, refused %d before the error\n", h.did, sum.Fired+sum.Deleted, len(sum.Refused))
		return err
	}
	if err := show(cmd, &sum, func(out io.Writer) {
		_, _ = fmt.Fprintf(out, "%s %d, refused %d; %d dead letters are left\n", h.did, sum.Fired+sum.Deleted, len(sum.Refused), sum.Left)
	}); err != nil {
		return err
	}
	if len(sum.Refused) > 0 {
		return &failure{Refused, errors.New("some were refused")}
	}
	return incomplete("dead letters", sum.Unreached)
}

// carryOutDead calls for the change until all dead letters have had their turn. After an error the sum is what
// was done before the error.
func (c *CLI) carryOutDead(cmd *cobra.Command, h *deadChange, node *admin) (sum client.LettersDone, err error) {
	read := pages{}
	for cursor := ""; ; {
		done, err := h.many(cmd.Context(), node, h.LetterFilter, h.all, cursor)
		if err != nil {
			return sum, node.outcome(err)
		}
		sum.Fired, sum.Deleted, sum.Left = sum.Fired+done.Fired, sum.Deleted+done.Deleted, done.Left
		sum.Refused, sum.Unreached = append(sum.Refused, done.Refused...), with(sum.Unreached, done.Unreached)
		for _, r := range done.Refused {
			_, _ = fmt.Fprintf(c.Err, "%s %s: %s\n", plain(r.ID), plain(r.Key), plain(r.Detail))
		}
		if err := read.next(done.Next); err != nil || done.Next == "" {
			return sum, err
		}
		if cursor = done.Next; isTerminal(c.Err) {
			_, _ = fmt.Fprintf(c.Err, "\r%s %d, refused %d, %d dead letters are left ", h.did, sum.Fired+sum.Deleted, len(sum.Refused), sum.Left)
		}
	}
}
