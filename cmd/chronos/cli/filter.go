package cli

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

// filter are the flags that select timers.
type filter struct {
	client.Filter

	state, dueAfter, dueBefore string
	all                        bool
}

// add adds the flags; all says what --all does.
func (f *filter) add(cmd *cobra.Command, all string) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.dueBefore, "due-before", "", "due before this `instant`, such as 2027-01-01T00:00:00Z, or within this time, such as 1h")
	flags.StringVar(&f.dueAfter, "due-after", "", "due at this `instant` or later, or not within this time")
	flags.StringVar(&f.state, "state", "", "waiting, leased or retrying")
	flags.StringVar(&f.Destination, "to", "", "called back at this scheme, host and port, such as https://api.example.com")
	flags.StringVar(&f.Tag, "tag", "", "with a tag of this `type`")
	flags.StringVar(&f.KeyPrefix, "prefix", "", "with a key that begins with this `text`")
	flags.StringVar(&f.Text, "text", "", "with this `text` in the key or in the URL of the callback; 3 characters at least")
	flags.StringVar(&f.Key, "key", "", "the timer with this `key` or id")
	flags.BoolVar(&f.all, "all", false, all)
	mustComplete(cmd, "state", "waiting", "leased", "retrying")
}

// read completes the filter by the texts of the flags.
func (f *filter) read(now time.Time) (err error) {
	f.State = client.State(f.state)
	if states := []client.State{"", client.Waiting, client.Leased, client.Retrying}; !slices.Contains(states, f.State) {
		return usagef("--state is none of waiting, leased and retrying")
	}
	const least = 3
	if n := utf8.RuneCountInString(f.Text); n > 0 && n < least {
		return usagef("--text is shorter than %d characters", least)
	}
	if f.DueAfter, err = readInstant("--due-after", f.dueAfter, now, false); err != nil {
		return err
	}
	f.DueBefore, err = readInstant("--due-before", f.dueBefore, now, false)
	return err
}

// selects reports whether the filter selects some timers alone.
func (f *filter) selects() bool { return f.Filter != (client.Filter{}) }

// readInstant reads an instant, or a duration from now into the future or the past.
func readInstant(flag, text string, now time.Time, past bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if by, err := time.ParseDuration(text); err == nil {
		if past {
			by = -by
		}
		return now.Add(by), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("%s %q is neither an instant such as 2027-01-01T00:00:00Z nor a duration such as 1h30m", flag, text)
	}
	return at, nil
}
