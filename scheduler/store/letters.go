package store

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"chronos/scheduler/timer"
)

// Letter is a dead letter: a timer that was given up after the last attempt at the only pop, or a
// timer with an unreadable record.
type Letter struct {
	ID     string // opaque; the same for the whole life of the letter, on every shard
	Shard  string
	At     time.Time // when the timer was given up, by the shard's clock
	Key    string    // of the timer; "" if the key can't be read
	Reason string    // why the last attempt failed
	Record Record    // the timer at the time of the letter
	// Err says why the letter can't be read, and wraps ErrUnreadable; nil for a readable letter.
	Err error
	// Text is what the shard stores. An unreadable letter may contain anything.
	Text string
}

// LetterFilter picks dead letters that meet all conditions. The zero value picks all.
type LetterFilter struct {
	Key       string // of the timer
	KeyPrefix string // the beginning of the key
	Reason    string // a part of the reason
	// Callback is the beginning of the callback's URL, or the URL's host, with or without the
	// port. User and password of a URL do not count.
	Callback string
	// Destination is the scheme, host and port of the callback: https://host:443.
	Destination  string
	ReasonIs     string    // the whole reason
	Since, Until time.Time // the earliest and the latest time of giving up; zero for no bound
}

// IsZero reports whether the filter picks all letters.
func (f *LetterFilter) IsZero() bool { return *f == LetterFilter{} }

// Picks reports whether the letter meets all conditions.
func (f *LetterFilter) Picks(l *Letter) bool {
	return (f.Key == "" || f.Key == l.Key) && strings.HasPrefix(l.Key, f.KeyPrefix) && strings.Contains(l.Reason, f.Reason) &&
		(f.Since.IsZero() || !l.At.Before(f.Since)) && (f.Until.IsZero() || !l.At.After(f.Until)) &&
		(f.Callback == "" || l.Err == nil && f.calls(l.Record.Timer.Callback)) &&
		(f.Destination == "" || l.Err == nil && f.Destination == destinationOf(l.Record.Timer.Callback.URI)) &&
		(f.ReasonIs == "" || f.ReasonIs == l.Reason)
}

// destinationOf is the destination of a URI, with the host in lower case and the port filled in; "" for a
// URI that can't be read.
func destinationOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func (f *LetterFilter) calls(c timer.Callback) bool {
	if strings.Contains(f.Callback, "://") {
		shown := c.Redacted()
		return strings.HasPrefix(shown, f.Callback) || strings.HasPrefix(strings.Replace(shown, timer.RedactedUser+"@", "", 1), f.Callback)
	}
	u, err := url.Parse(c.URI)
	return err == nil && (strings.EqualFold(u.Host, f.Callback) || strings.EqualFold(u.Hostname(), f.Callback))
}

// LetterQuery asks for some of the dead letters.
type LetterQuery struct {
	Filter LetterFilter
	Cursor string // the Next of the page before; "" for the beginning
	Limit  int    // of letters in the page; at least 1
}

// LetterPage is a part of the dead letters, the newest first.
type LetterPage struct {
	// Letters may be fewer than the limit, or empty, though more letters follow.
	Letters   []Letter
	Next      string   // the cursor of the next page; "" at the end
	Total     int64    // the number of all letters, whatever the filter
	Unreached []string // shards that gave no answer: their letters are missing in all of the page
}

// LetterStore keeps the dead letters. All methods are safe for concurrent use.
type LetterStore interface {
	// Letters lists letters, the newest first. The only error is ErrCursor: the page says
	// which shards gave no answer.
	Letters(ctx context.Context, q LetterQuery) (LetterPage, error)
	// Letter returns the letter of an ID. Errors: timer.ErrNotFound; timer.ErrUnavailable, if
	// the letter may be on a shard that gave no answer, or on a shard unknown to this node.
	Letter(ctx context.Context, id string) (Letter, error)
	// RemoveLetters removes letters, and returns an error for each letter. The error wraps
	// timer.ErrUnavailable if the letter may still exist. A letter that did not exist
	// counts as removed.
	RemoveLetters(ctx context.Context, letters []Letter) []error
}

// ErrCursor says that a cursor is not the Next of any page.
var ErrCursor = errors.New("malformed cursor")

// ErrUnreadable says that nobody can read a shard's record of a timer.
var ErrUnreadable = errors.New("unreadable")
