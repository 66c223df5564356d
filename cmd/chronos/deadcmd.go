package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"chronos/api/wire"
)

const deadUsage = `chronos: chronos dead [list] [FILTERS] [--limit N] [--json]   the dead letters, the newest first
         chronos dead show ID [--json]                     one of them, whole
         chronos dead fire ID | FILTERS | --all            has them called back again, at once
         chronos dead delete ID | FILTERS | --all

FILTERS, of which all must apply:
  --key KEY          of the timer
  --key-prefix TEXT  the key begins with it
  --reason TEXT      is a part of the reason
  --callback WHERE   a host, with or without the port, or the begin of the URL
  --since, --until   an instant, such as 2027-01-01T00:00:00Z, or how long ago, such as 2h30m

--limit N shows N letters at most, 100 if it is left out; with --json, which shows one page as the admin listener
answers it, up to 1000, and --cursor goes on where its next says.
`

// deadOrder is one use of `chronos dead`.
type deadOrder struct {
	what   string // list, show, fire or delete
	id     string
	filter url.Values
	all    bool
	limit  int
	cursor string
	asJSON bool
}

var errDeadUsage = errors.New("usage")

// deadCommand carries out `chronos dead`, and returns the exit status.
func deadCommand(args []string, node remote, out, errs io.Writer) int {
	order, err := parseDead(args, time.Now())
	if err != nil {
		if !errors.Is(err, errDeadUsage) {
			_, _ = fmt.Fprintf(errs, "chronos: %v\n\n", err)
		}
		_, _ = fmt.Fprint(errs, deadUsage)
		return 2
	}
	ctx := context.Background()
	switch {
	case order.what == "list":
		err = listDead(ctx, order, node, out, errs)
	case order.what == "show":
		err = showDead(ctx, order, node, out)
	case order.id != "":
		err = changeOneDead(ctx, order, node, out)
	default:
		err = changeDead(ctx, order, node, out, errs)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "chronos:", plain(err.Error()))
		return 1
	}
	return 0
}

func parseDead(args []string, now time.Time) (order *deadOrder, err error) {
	order = &deadOrder{what: "list", filter: url.Values{}}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		order.what, args = args[0], args[1:]
	}
	flags := order.flags(now)
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return order, errDeadUsage
		} else if err != nil {
			return order, err
		}
		if flags.NArg() == 0 {
			break
		}
		if order.id != "" {
			return order, errDeadUsage
		}
		order.id, args = flags.Arg(0), flags.Args()[1:]
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !order.makesSense(given) {
		return order, errDeadUsage
	}
	return order, nil
}

// flags are the flags that fill the order.
func (o *deadOrder) flags(now time.Time) *flag.FlagSet {
	flags := flag.NewFlagSet("dead", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for _, name := range []string{"key", "key-prefix", "reason", "callback", "since", "until"} {
		flags.Func(name, "", func(value string) error {
			if value == "" || o.filter.Has(name) {
				return errors.New("give it once, and not empty")
			}
			if name == "since" || name == "until" {
				if ago, err := time.ParseDuration(value); err == nil {
					value = now.Add(-ago).UTC().Format(time.RFC3339)
				}
			}
			o.filter.Set(name, value)
			return nil
		})
	}
	flags.BoolVar(&o.all, "all", false, "")
	flags.IntVar(&o.limit, "limit", 100, "")
	flags.StringVar(&o.cursor, "cursor", "", "")
	flags.BoolVar(&o.asJSON, "json", false, "")
	return flags
}

// makesSense reports whether the arguments and the given flags go together.
func (o *deadOrder) makesSense(given map[string]bool) bool {
	ways := 0 // in which the order selects dead letters
	for _, way := range []bool{o.id != "", o.all, len(o.filter) > 0} {
		if way {
			ways++
		}
	}
	switch o.what {
	case "list":
		return o.id == "" && !o.all && o.limit > 0 && (o.asJSON || !given["cursor"])
	case "show":
		return o.id != "" && ways == 1 && !given["limit"] && !given["cursor"]
	case "fire", "delete":
		return ways == 1 && !given["limit"] && !given["cursor"] && !given["json"]
	}
	return false
}

// path is the path and query of the order's request to the admin listener.
func (o *deadOrder) path(cursor string, limit int) string {
	query := maps.Clone(o.filter)
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if o.all {
		query.Set("all", "true")
	}
	path := "/dead"
	switch o.what {
	case "list":
		query.Set("limit", strconv.Itoa(limit))
	case "fire":
		path = "/dead/fire"
	}
	return path + "?" + query.Encode()
}

func listDead(ctx context.Context, order *deadOrder, node remote, out, errs io.Writer) error {
	if order.asJSON {
		return askJSON(ctx, node, order.path(order.cursor, order.limit), out)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tGIVEN UP\tKEY\tATTEMPTS\tREASON\tCALLBACK")
	const page = 1000
	shown, view := 0, wire.LettersView{}
	for cursor := ""; ; cursor = view.Next {
		view = wire.LettersView{}
		if err := node.ask(ctx, http.MethodGet, order.path(cursor, min(order.limit-shown, page)), "", &view); err != nil {
			return err
		}
		for _, l := range view.Letters {
			reason := l.Reason
			if l.Problem != "" {
				reason = l.Problem
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", plain(l.ID), plain(l.At), plain(l.Key), l.Attempts, plain(reason), plain(l.Callback))
		}
		shown += len(view.Letters)
		if err := moved(cursor, view.Next); err != nil {
			return err
		}
		if view.Next == "" || shown >= order.limit {
			break
		}
	}
	_ = w.Flush() // fails only if the reader of the output has gone
	all := ""
	if view.Total != nil { // a token with a prefix is not told
		all = fmt.Sprintf(" of %d", *view.Total)
	}
	_, _ = fmt.Fprintf(out, "\n%d%s dead letters\n", shown, all)
	if view.Next != "" {
		_, _ = fmt.Fprintln(errs, "there may be more: --limit shows more of them")
	}
	return missing(view.Unreached)
}

// missing is an error if the dead letters of some shards could not be read.
func missing(shards []string) error {
	if len(shards) == 0 {
		return nil
	}
	return fmt.Errorf("the letters on %s are missing in this: it can't be reached", strings.Join(shards, ", "))
}

// moved is an error if a node's cursor would make a command ask for the same page for ever.
func moved(cursor, next string) error {
	if next != "" && next == cursor {
		return errors.New("the node's cursor stands still")
	}
	return nil
}

func askJSON(ctx context.Context, node remote, path string, out io.Writer) error {
	var answer json.RawMessage
	if err := node.ask(ctx, http.MethodGet, path, "", &answer); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s\n", strings.TrimSpace(string(answer)))
	return err
}

func showDead(ctx context.Context, order *deadOrder, node remote, out io.Writer) error {
	path := "/dead/" + url.PathEscape(order.id)
	if order.asJSON {
		return askJSON(ctx, node, path, out)
	}
	var l wire.LetterView
	if err := node.ask(ctx, http.MethodGet, path, "", &l); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"id", l.ID}, {"key", l.Key}, {"given up", l.At}, {"reason", l.Reason}, {"shard", l.Shard}, {"webhook-id", l.WebhookID},
		{"sequence", strconv.Itoa(l.Sequence)}, {"attempts", strconv.Itoa(l.Attempts)}, {"problem", l.Problem}, {"text", l.Text},
	} {
		if line[1] != "" && line[1] != "0" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", line[0], plain(line[1]))
		}
	}
	_ = w.Flush() // fails only if the reader of the output has gone
	if l.Timer == nil {
		return nil
	}
	timer, err := json.MarshalIndent(l.Timer, "", "  ")
	if err != nil {
		return fmt.Errorf("show the timer: %w", err)
	}
	for line := range strings.Lines(string(timer)) {
		_, _ = fmt.Fprintln(out, plain(strings.TrimSuffix(line, "\n")))
	}
	return nil
}

func changeOneDead(ctx context.Context, order *deadOrder, node remote, out io.Writer) error {
	path := "/dead/" + url.PathEscape(order.id)
	if order.what == "delete" {
		if err := node.ask(ctx, http.MethodDelete, path, "", new(json.RawMessage)); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out, "deleted")
		return err
	}
	var timer struct{ ID string }
	if err := node.ask(ctx, http.MethodPost, path+"/fire", "", &timer); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "fired again as timer", plain(timer.ID))
	return err
}

// changeDead changes all selected dead letters, one page per request.
func changeDead(ctx context.Context, order *deadOrder, node remote, out, errs io.Writer) error {
	method, did := http.MethodDelete, "deleted"
	if order.what == "fire" {
		method, did = http.MethodPost, "fired"
	}
	count, refused, view := 0, 0, wire.LettersDone{}
	var err error
	for cursor := ""; ; cursor = view.Next {
		view = wire.LettersDone{Left: view.Left}
		if err = node.ask(ctx, method, order.path(cursor, 0), "", &view); err != nil {
			break
		}
		count, refused = count+view.Fired+view.Deleted, refused+len(view.Refused)
		for _, r := range view.Refused {
			_, _ = fmt.Fprintf(errs, "%s %s: %s\n", plain(r.ID), plain(r.Key), plain(r.Detail))
		}
		if err = moved(cursor, view.Next); err != nil || view.Next == "" {
			break
		}
		if isTerminal(errs) {
			_, _ = fmt.Fprintf(errs, "\r%s %d, refused %d, %d dead letters are left ", did, count, refused, view.Left)
		}
	}
	if isTerminal(errs) {
		_, _ = fmt.Fprint(errs, "\r\x1b[K") // the line of progress is over
	}
	if err != nil {
		return fmt.Errorf("%s %d, refused %d, and then: %w", did, count, refused, err)
	}
	_, _ = fmt.Fprintf(out, "%s %d, refused %d; %d dead letters are left\n", did, count, refused, view.Left)
	if refused > 0 {
		err = errors.New("some were refused")
	}
	return errors.Join(err, missing(view.Unreached))
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
