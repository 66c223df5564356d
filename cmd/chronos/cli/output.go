package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"chronos/api/client"
)

// addOutput adds the flags that say how a command shows what it found.
func addOutput(cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.VarP(new(format), "output", "o", "`table` or json")
	flags.Bool("json", false, "short for --output json")
	mustComplete(cmd, "output", "table", "json")
}

// format is the value of --output.
type format string

func (f *format) String() string { return string(*f) }

// Type is the name of the type in a help text.
func (f *format) Type() string { return "format" }

// Set refuses what is no format.
func (f *format) Set(text string) error {
	if text != "table" && text != "json" {
		return errors.New("want table or json")
	}
	*f = format(text)
	return nil
}

func asJSON(cmd *cobra.Command) bool {
	short, err := cmd.Flags().GetBool("json")
	return err == nil && short || cmd.Flag("output").Value.String() == "json"
}

// show shows a view as JSON, or else as text.
func show(cmd *cobra.Command, view any, text func(out io.Writer)) error {
	out := cmd.OutOrStdout()
	if !asJSON(cmd) {
		text(out)
		return nil
	}
	var lines strings.Builder
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(view); err != nil {
		return lost(err)
	}
	_, err := io.WriteString(out, escaped(lines.String()))
	return lost(err)
}

// escaped is JSON without characters that control a terminal.
func escaped(text string) string {
	var safe strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || r == '\n' {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&safe, "\\u%04x", unit)
		}
	}
	return safe.String()
}

// table aligns the columns of rows. The first row has the names of the columns. A table keeps up to tableRows
// rows, so that a long list is shown as it comes.
type table struct {
	out    io.Writer
	rows   [][]string
	widths []int // in characters
}

const tableRows = 1000

func newTable(out io.Writer, columns ...string) *table {
	t := &table{out: out}
	if len(columns) > 0 {
		t.row(columns...)
	}
	return t
}

// row adds a row. Cells are made plain.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = plain(cell)
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cells[i]))
	}
	if t.rows = append(t.rows, cells); len(t.rows) == tableRows {
		t.flush()
	}
}

// flush writes the rows. Writing fails only if the reader of the output has gone.
func (t *table) flush() {
	var text strings.Builder
	for _, row := range t.rows {
		last := len(row) - 1
		for last > 0 && row[last] == "" {
			last--
		}
		for i, cell := range row[:last] {
			text.WriteString(cell + strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+2))
		}
		text.WriteString(row[last] + "\n")
	}
	_, _ = io.WriteString(t.out, text.String())
	t.rows = t.rows[:0]
}

// plain is text on one line, without characters that control a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// when is an instant as a table shows the instant; "-" for none.
func when(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

func isTerminal(stream any) bool {
	file, is := stream.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// mustComplete has a shell complete the values of a flag.
func mustComplete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist
	}
}

func refusedToken(err error) bool {
	problem, answered := errors.AsType[*client.Problem](err)
	return answered && problem.Status == http.StatusUnauthorized
}

// incomplete is an error if something on some shards is missing in what was shown.
func incomplete(what string, shards []string) error {
	if len(shards) == 0 {
		return nil
	}
	return &failure{Unreachable, fmt.Errorf("the %s on %s are missing here: the node can't reach the instance", what, strings.Join(shards, ", "))}
}

// with is the union of the names of shards.
func with(shards, more []string) []string {
	for _, name := range more {
		if !slices.Contains(shards, name) {
			shards = append(shards, name)
		}
	}
	return shards
}

// pages are the cursors of a list that is read page by page.
type pages map[string]bool

// next is an error if a node's cursor would make a command ask for the same page again.
func (p pages) next(cursor string) error {
	if p[cursor] {
		return &failure{Refused, errors.New("the node's cursor stands still")}
	}
	p[cursor] = cursor != ""
	return nil
}
