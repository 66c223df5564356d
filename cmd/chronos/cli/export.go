package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

// exportedLine is a line of an export: a timer as PUT takes the timer, and the timer's key.
type exportedLine struct {
	Key string `json:"key"`
	client.Timer
}

// MarshalJSON writes the key before the members of the timer.
func (l exportedLine) MarshalJSON() ([]byte, error) {
	key, err := json.Marshal(l.Key)
	if err != nil {
		return nil, err
	}
	raw, err := l.Timer.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return append(append(append([]byte(`{"key":`), key...), ','), raw[1:]...), nil
}

// UnmarshalJSON reads the key, and the rest as the timer.
func (l *exportedLine) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	if err := json.Unmarshal(members["key"], &l.Key); err != nil || l.Key == "" {
		return errors.New("the line has no key")
	}
	delete(members, "key")
	rest, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return l.Timer.UnmarshalJSON(rest)
}

// export is how far a chronos timer export has come.
type export struct {
	filter

	at      *listener
	secrets bool

	written, hidden, ended int
	reached                time.Time // the due time of the last timer that had its turn
}

func (c *CLI) export(at *listener) *cobra.Command {
	e := export{at: at}
	cmd := &cobra.Command{
		Use: "export [FILTERS]", Short: "Write timers as lines of JSON that chronos timer import reads", Args: noArguments,
		Long: `Write timers as lines of JSON that chronos timer import reads, in the order of their due times.

A line has what is left of a timer: the key, the instant of the next pop, and for a timer that recurs the pops
behind. The sequence numbers begin anew. The timers stay, and go on.

Answers hide secrets in headers and URLs. Timers that have secrets are left out and counted, and the exit
status is 1. With --secrets the lines have the secrets. --secrets needs a token of the role admin, and the
node logs a line for every timer.`,
		Example: `  chronos timer export > timers.ndjson
  chronos timer export --secrets --to https://api.example.com > timers.ndjson`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runExport(cmd, &e) },
	}
	e.add(cmd, "all timers, as without any filter")
	cmd.Flags().BoolVar(&e.secrets, "secrets", false, "export timers with secrets, too")
	askAdmin(cmd.Flags(), at)
	return cmd
}

func (c *CLI) runExport(cmd *cobra.Command, e *export) error {
	if err := e.read(c.Now()); err != nil {
		return err
	}
	if e.all && e.selects() {
		return usagef("--all and filters exclude each other")
	}
	node, err := c.admin(e.at)
	if err != nil {
		return err
	}
	defer node.Close()
	out := bufio.NewWriter(cmd.OutOrStdout())
	away, err := e.run(cmd, node, out)
	if flushed := lost(out.Flush()); err == nil {
		err = flushed
	}
	_, _ = fmt.Fprintf(c.Err, "exported %d timers, left out %d with secrets, and %d that ended meanwhile\n", e.written, e.hidden, e.ended)
	switch {
	case err != nil && !e.reached.IsZero():
		_, _ = fmt.Fprintf(c.Err, "the lines so far are complete; go on with --due-after %s\n", e.reached.UTC().Format(time.RFC3339Nano))
		return err
	case err != nil:
		return err
	case len(away) > 0:
		return incomplete("timers", away)
	case e.hidden > 0:
		return &failure{Refused, errors.New("timers with secrets are missing; --secrets exports them, too")}
	}
	return nil
}

// run writes the timers, page by page, and returns the shards whose timers may be missing.
func (e *export) run(cmd *cobra.Command, node *admin, out *bufio.Writer) (away []string, err error) {
	ctx, read := cmd.Context(), pages{}
	for cursor := ""; ; {
		page, err := node.List(ctx, e.Filter, cursor, listPage)
		if err != nil {
			return away, node.outcome(err)
		}
		away = with(away, page.Unreached)
		found := together(ctx, page.Timers, func(l client.ListedTimer) (client.Exported, error) { return node.Export(ctx, l.Key, e.secrets) })
		for i := range found {
			if err := e.write(out, &found[i].value, found[i].err); err != nil {
				return away, node.outcome(err)
			}
			e.reached = page.Timers[i].Due
		}
		if cursor = page.Next; cursor == "" {
			return away, nil
		}
		if err := read.next(cursor); err != nil {
			return away, err
		}
	}
}

// write writes the line of a timer.
func (e *export) write(out *bufio.Writer, x *client.Exported, err error) error {
	switch {
	case errors.Is(err, client.ErrNotFound):
		e.ended++
		return nil
	case err != nil:
		return err
	case x.Hidden:
		e.hidden++
		return nil
	}
	raw, err := json.Marshal(exportedLine{x.Key, x.Timer})
	if err != nil {
		return err
	}
	e.written++
	_, err = out.Write(append(raw, '\n'))
	return lost(err)
}
