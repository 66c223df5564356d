package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

const (
	// atOnce is how many requests about single timers a command sends at once.
	atOnce = 16
	// importBatch is how many lines of an import are read before the answers to all are waited for.
	importBatch = 512
)

// result is what a call has returned.
type result[T any] struct {
	value T
	err   error
}

// together calls do for all items, atOnce calls at a time, and returns the results in the order of the items. Once
// ctx has ended the remaining calls fail.
func together[I, O any](ctx context.Context, items []I, do func(I) (O, error)) []result[O] {
	results := make([]result[O], len(items))
	next := make(chan int)
	var all sync.WaitGroup
	for range min(atOnce, len(items)) {
		all.Go(func() {
			for i := range next {
				if err := ctx.Err(); err != nil {
					results[i].err = err
					continue
				}
				results[i].value, results[i].err = do(items[i])
			}
		})
	}
	for i := range items {
		next <- i
	}
	close(next)
	all.Wait()
	return results
}

// importing is how far a chronos timer import has come.
type importing struct {
	at           *listener
	file         string
	from         int
	skipExisting bool

	done, skipped, refused int
}

func (c *CLI) importTimers(at *listener) *cobra.Command {
	o := importing{at: at}
	cmd := &cobra.Command{
		Use: "import [-f FILE]", Short: "Create the timers that chronos timer export has written", Args: noArguments,
		Long: `Create the timers that chronos timer export has written. A timer that exists is replaced.

Lines that a node refuses are shown, counted and passed over, and the exit status is 1. After any other error
the command stops, and says with which --from-line to go on. A line that is imported again replaces the timer
of before: a timer that has popped since pops again.`,
		Example: `  chronos timer import < timers.ndjson
  chronos timer import -f timers.ndjson --skip-existing --from-line 120001`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runImport(cmd, &o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.file, "file", "f", "-", "`file` with the lines; - for the input")
	f.BoolVar(&o.skipExisting, "skip-existing", false, "leave timers that exist as they are")
	f.IntVar(&o.from, "from-line", 1, "begin with this line")
	askPublic(f, at)
	return cmd
}

func (c *CLI) runImport(cmd *cobra.Command, o *importing) error {
	if o.from < 1 {
		return usagef("--from-line is less than 1")
	}
	input, err := openInput(cmd, o.file)
	if err != nil {
		return err
	}
	defer input.Close() //nolint:errcheck // it was read
	nodes, err := c.public(o.at)
	if err != nil {
		return err
	}
	defer nodes.Close()
	failed := c.importLines(cmd.Context(), o, nodes, input)
	sum := map[string]int{"imported": o.done, "skipped": o.skipped, "refused": o.refused}
	if err := show(cmd, sum, func(out io.Writer) {
		_, _ = fmt.Fprintf(out, "imported %d timers, skipped %d that exist, refused %d\n", o.done, o.skipped, o.refused)
	}); err != nil {
		return err
	}
	if failed == nil && o.refused > 0 {
		return &failure{Refused, errors.New("some lines were refused")}
	}
	return failed
}

// line is a line of an import.
type line struct {
	number int
	text   []byte
}

// readLines sends the lines that are not empty, from the first line on, in batches, and then the error of the
// input. The goroutine ends when all is received or ctx has ended, or with the process if the input has no end.
func (o *importing) readLines(ctx context.Context, input io.Reader) (batches <-chan []line, failed <-chan error) {
	sent, end := make(chan []line), make(chan error, 1)
	go func() {
		defer close(sent)
		scanner := bufio.NewScanner(input)
		scanner.Buffer(nil, longestText)
		var batch []line
		send := func() bool {
			select {
			case sent <- batch:
				batch = nil
				return true
			case <-ctx.Done():
				return false
			}
		}
		for number := 1; scanner.Scan(); number++ {
			text := bytes.TrimSpace(scanner.Bytes())
			if number < o.from || len(text) == 0 {
				continue
			}
			if batch = append(batch, line{number, bytes.Clone(text)}); len(batch) == importBatch && !send() {
				return
			}
		}
		send()
		end <- scanner.Err()
	}()
	return sent, end
}

// importLines imports the lines, until the end or the first error that is not about a line.
func (c *CLI) importLines(ctx context.Context, o *importing, nodes *client.Client, input io.Reader) error {
	batches, failed := o.readLines(ctx, input)
	for {
		var batch []line
		select {
		case batch = <-batches:
		case <-ctx.Done():
			return &failure{Refused, errors.New("interrupted")}
		}
		if batch == nil {
			if err := <-failed; err != nil {
				return &failure{Misused, fmt.Errorf("read %s: %w", o.file, err)}
			}
			return nil
		}
		for i, r := range together(ctx, batch, func(l line) (bool, error) { return o.one(ctx, nodes, l.text) }) {
			switch number := batch[i].number; {
			case r.err == nil && r.value:
				o.done++
			case r.err == nil:
				o.skipped++
			case ofTheLine(r.err):
				o.refused++
				_, _ = fmt.Fprintf(c.Err, "line %d: %s\n", number, plain(r.err.Error()))
			default:
				_, _ = fmt.Fprintf(c.Err, "stopped at line %d; go on with --from-line %d\n", number, number)
				return outcome(r.err)
			}
		}
	}
}

// malformedLineError is the error of a line that is no exported timer.
type malformedLineError struct{ err error }

func (m malformedLineError) Error() string { return m.err.Error() }

// one creates the timer of a line, and reports whether the timer was created.
func (o *importing) one(ctx context.Context, nodes *client.Client, text []byte) (created bool, err error) {
	var l exportedLine
	if err := json.Unmarshal(text, &l); err != nil {
		return false, malformedLineError{err}
	}
	if !o.skipExisting {
		_, err = nodes.Replace(ctx, l.Key, l.Timer)
		return err == nil, err
	}
	_, err = nodes.ReplaceIf(ctx, l.Key, client.Condition{Absent: true}, l.Timer)
	if errors.Is(err, client.ErrConditionFailed) {
		return false, nil
	}
	return err == nil, err
}

// ofTheLine reports whether an error says that this line can't be imported, and says nothing of other lines.
func ofTheLine(err error) bool {
	if _, is := errors.AsType[malformedLineError](err); is || errors.Is(err, client.ErrArgument) {
		return true
	}
	problem, answered := errors.AsType[*client.Problem](err)
	return answered && (problem.Status == http.StatusBadRequest || problem.Status == http.StatusConflict || problem.Status == http.StatusRequestEntityTooLarge)
}
