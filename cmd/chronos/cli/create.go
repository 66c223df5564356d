package cli

import (
	"encoding/json"
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

// creation are the flags of chronos timer create.
type creation struct {
	at      *listener
	in      time.Duration
	instant string
	every   time.Duration
	during  time.Duration
	to      string
	body    string
	method  string
	headers []string
	id      string
	tags    []string
	copies  int
	once    string
	file    string
}

func (c *CLI) create(at *listener) *cobra.Command {
	o := creation{at: at}
	cmd := &cobra.Command{
		Use: "create", Short: "Create a timer, or replace a timer with --id", Args: noArguments,
		Example: `  chronos timer create --in 10m --to http://localhost:8080/hello --body "tea is ready"
  chronos timer create --at 2027-01-01T00:00:00Z --to http://localhost:8080/year --id new-year
  chronos timer create --every 30s --for 1h --to http://localhost:8080/tick
  chronos timer create --at 2027-01-01T00:00:00Z --every 24h --for 720h --to http://localhost:8080/daily
  echo '{"timing": {"interval": 5}, "callback": {"http": {"uri": "http://localhost:8080/"}}}' | chronos timer create -f -`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runCreate(cmd, &o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&o.in, "in", 0, "how long until the callback, such as 10m")
	f.StringVar(&o.instant, "at", "", "`instant` of the callback, or of the first, such as 2027-01-01T00:00:00Z")
	f.DurationVar(&o.every, "every", 0, "time between the callbacks of a timer that recurs; also until the first, without --at")
	f.DurationVar(&o.during, "for", 0, "how long the timer recurs")
	f.StringVar(&o.to, "to", "", "`URL` of the callback")
	f.StringVar(&o.body, "body", "", "`text` of the callback, @file for the text of a file, or - for the input")
	f.StringVar(&o.method, "method", "", "HTTP `method` of the callback (default POST)")
	f.StringArrayVar(&o.headers, "header", nil, "further header of the callback, as `name:value`; can be given more than once")
	f.StringVar(&o.id, "id", "", "`key` of the timer, which is replaced if it exists; a random key without it")
	f.StringArrayVar(&o.tags, "tag", nil, "tag that statistics count, as `type[=count]`; can be given more than once")
	f.IntVar(&o.copies, "copies", 0, "on how many Redis instances the timer is stored (default 2)")
	f.StringVar(&o.once, "idempotency-key", "", "`key` under which a repeated create makes no second timer")
	f.StringVarP(&o.file, "file", "f", "", "`file` with the timer as JSON, as POST /timers takes the timer; - for the input")
	cmd.MarkFlagsMutuallyExclusive("in", "at", "file")
	cmd.MarkFlagsMutuallyExclusive("in", "every", "file")
	cmd.MarkFlagsMutuallyExclusive("id", "idempotency-key")
	askPublic(f, at)
	for _, flag := range []string{"to", "body", "method", "header", "tag", "copies", "for"} {
		cmd.MarkFlagsMutuallyExclusive("file", flag)
	}
	return cmd
}

func (c *CLI) runCreate(cmd *cobra.Command, o *creation) error {
	t, err := o.timer(cmd)
	if err != nil {
		return err
	}
	nodes, err := c.public(o.at)
	if err != nil {
		return err
	}
	defer nodes.Close()
	var receipt client.Receipt
	switch ctx := cmd.Context(); {
	case o.id != "":
		receipt, err = nodes.Replace(ctx, o.id, t)
	case o.once != "":
		receipt, err = nodes.CreateOnce(ctx, o.once, t)
	default:
		receipt, err = nodes.Create(ctx, t)
	}
	if err != nil {
		return outcome(err)
	}
	return showReceipt(cmd, &receipt)
}

// timer is the timer that the flags ask for.
func (o *creation) timer(cmd *cobra.Command) (t client.Timer, err error) {
	if o.file != "" {
		raw, err := readText(cmd, o.file)
		if err != nil {
			return t, err
		}
		if err := json.Unmarshal(withoutAnswer(raw), &t); err != nil {
			return t, &failure{Misused, fmt.Errorf("%s: %w", o.file, err)}
		}
		return t, nil
	}
	t = client.Timer{Interval: o.in, RepeatFor: o.during, URI: o.to, Method: o.method, ReplicationFactor: o.copies}
	given := cmd.Flags().Changed
	switch {
	case !given("in") && !given("at") && !given("every"):
		return t, usagef("--in, --at or --every is missing")
	case o.to == "":
		return t, usagef("--to is missing")
	case given("every") != given("for"):
		return t, usagef("--every and --for go together")
	case given("every") && (o.every <= 0 || o.during <= 0):
		return t, usagef("--every and --for must be positive")
	case given("copies") && o.copies < 1:
		return t, usagef("--copies is less than 1")
	}
	if given("every") {
		t.Interval = o.every
	}
	if given("at") {
		if t.At, err = time.Parse(time.RFC3339, o.instant); err != nil {
			return t, usagef("--at %q is no instant such as 2027-01-01T00:00:00Z", o.instant)
		}
	}
	if t.Tags, err = readTags(o.tags); err != nil {
		return t, err
	}
	if t.Headers, err = readHeaders(o.headers); err != nil {
		return t, err
	}
	t.Opaque = o.body
	if name, isFile := strings.CutPrefix(o.body, "@"); isFile || o.body == "-" {
		t.Opaque, err = readText(cmd, name)
	}
	return t, err
}

// withoutAnswer leaves out what only the answer to a GET has, so that a timer that was read can be created
// again.
func withoutAnswer(raw string) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &members) != nil {
		return []byte(raw) // the error is that of the timer
	}
	for _, name := range []string{"id", "key", "state", "due", "sequence", "attempts", "last-failure", "etag", "copies"} {
		delete(members, name)
	}
	text, err := json.Marshal(members)
	if err != nil {
		return []byte(raw)
	}
	return text
}

func readTags(texts []string) (tags []client.Tag, err error) {
	for _, text := range texts {
		tag := client.Tag{Type: text, Count: 1}
		if kind, count, counted := strings.Cut(text, "="); counted {
			tag.Type = kind
			if tag.Count, err = strconv.Atoi(count); err != nil || tag.Count < 1 {
				return nil, usagef("--tag %q: the count is no number from 1 up", text)
			}
		}
		tags = append(tags, tag)
	}
	return tags, nil
}

func readHeaders(texts []string) (headers map[string]string, err error) {
	for _, text := range texts {
		name, value, is := strings.Cut(text, ":")
		if !is {
			return nil, usagef("--header %q has no colon", text)
		}
		if headers == nil {
			headers = map[string]string{}
		}
		if _, twice := headers[name]; twice {
			return nil, usagef("--header %s is there twice", name)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

// longestText is more than a node takes as a timer.
const longestText = 64 << 20

// openInput opens a file, or the input if the name is -.
func openInput(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	file, err := os.Open(name) //nolint:gosec // the user's own file
	if err != nil {
		return nil, &failure{Misused, err}
	}
	return file, nil
}

// readText reads a file, or the input if the name is -.
func readText(cmd *cobra.Command, name string) (string, error) {
	from, err := openInput(cmd, name)
	if err != nil {
		return "", err
	}
	defer from.Close() //nolint:errcheck // it was read
	type text struct {
		raw []byte
		err error
	}
	read := make(chan text, 1)
	go func() { // ends with the process, if the input has no end
		raw, err := io.ReadAll(io.LimitReader(from, longestText+1))
		read <- text{raw, err}
	}()
	select {
	case got := <-read:
		if got.err == nil && len(got.raw) > longestText {
			got.err = errors.New("the text is longer than a timer may be")
		}
		if got.err != nil {
			return "", &failure{Misused, fmt.Errorf("read %s: %w", name, got.err)}
		}
		return string(got.raw), nil
	case <-cmd.Context().Done():
		return "", &failure{Refused, errors.New("interrupted: nothing was done")}
	}
}

// receipt is the answer to a write as JSON.
type receipt struct {
	ID        string   `json:"id"`
	Key       string   `json:"key"`
	ETag      string   `json:"etag,omitempty"`
	Due       string   `json:"due,omitempty"`
	Copies    int      `json:"copies"`
	Ignored   []string `json:"ignored,omitempty"`
	Replayed  bool     `json:"replayed,omitempty"`
	Over      bool     `json:"over,omitempty"`
	InFlight  bool     `json:"in_flight,omitempty"`
	Unreached int      `json:"unreached,omitempty"`
}

func showReceipt(cmd *cobra.Command, r *client.Receipt) error {
	view := receipt{
		ID: r.ID, Key: r.Key, ETag: r.ETag, Copies: r.Copies, Ignored: r.Ignored, Replayed: r.Replayed, Over: r.Over, InFlight: r.InFlight, Unreached: r.Unreached,
	}
	if !r.Due.IsZero() {
		view.Due = when(r.Due)
	}
	return show(cmd, &view, func(out io.Writer) {
		t := newTable(out)
		t.row("id", r.ID)
		if r.Over {
			t.row("state", "over: the timer of an earlier request with this key has fired or was deleted")
		} else {
			t.row("due", when(r.Due))
			t.row("copies", strconv.Itoa(r.Copies))
		}
		if r.Replayed {
			t.row("replayed", "an earlier request with this key made the timer")
		}
		if r.InFlight {
			t.row("in flight", "a callback of the timer before may still start within 2 s")
		}
		if r.Unreached > 0 {
			t.row("unreached", fmt.Sprintf("%d copies of the timer before could not be told yet", r.Unreached))
		}
		t.flush()
	})
}
