package check

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Headers are the checked headers of a callback, as received.
type Headers struct {
	TimerID   string // X-Chronos-Timer
	WebhookID string // webhook-id
	Sequence  string // X-Sequence-Number
	Attempt   string // X-Chronos-Attempt
	Due       string // X-Chronos-Due
}

// Callback is a callback that arrived.
type Callback struct {
	// Session and Revision are from the path. Without a path /cb/<session>/<revision>, Session and Revision are zero.
	Session  string
	Revision int
	// TimerID is the whole id. Key and Version are from the webhook-id.
	TimerID      string
	Key, Version string
	// Sequence is the number of the pop, from 1. Attempt is the number of the call for the pop, from 1.
	Sequence, Attempt int
	// Due is the due time that the callback states.
	Due time.Time
	// Arrived is the time of the arrival, by the wall clock.
	Arrived time.Time
	// Body is read during Arrive and not kept.
	Body []byte
	// Accepted means that the answer is 2xx, within the time that the server waits for an answer.
	Accepted bool
}

// Lateness is the time from due to arrival; negative for an early callback.
func (c *Callback) Lateness() time.Duration { return c.Arrived.Sub(c.Due) }

// Parse reads the path and the headers of a callback. The error names the first header that is missing, is malformed,
// or contradicts a different header. The Callback holds the readable parts even with an error. The caller sets Arrived,
// Body and Accepted.
func Parse(path string, h Headers) (Callback, error) {
	c := Callback{TimerID: h.TimerID}
	c.Session, c.Revision = splitPath(path)
	var errs []error
	var err error
	if c.Sequence, err = positive(h.Sequence); err != nil {
		errs = append(errs, fmt.Errorf("read X-Sequence-Number: %w", err))
	}
	if c.Attempt, err = positive(h.Attempt); err != nil {
		errs = append(errs, fmt.Errorf("read X-Chronos-Attempt: %w", err))
	}
	if c.Due, err = time.Parse(time.RFC3339Nano, h.Due); err != nil {
		errs = append(errs, fmt.Errorf("read X-Chronos-Due: %q is no RFC 3339 time", h.Due))
	}
	var sequence int
	if c.Key, c.Version, sequence, err = splitWebhookID(h.WebhookID); err != nil {
		errs = append(errs, fmt.Errorf("read webhook-id: %w", err))
	}
	if len(errs) > 0 {
		return c, errs[0]
	}
	if key := KeyOf(h.TimerID); key != c.Key {
		return c, fmt.Errorf("key %q in X-Chronos-Timer, %q in webhook-id", key, c.Key)
	}
	if sequence != c.Sequence {
		return c, fmt.Errorf("sequence %d in X-Sequence-Number, %d in webhook-id", c.Sequence, sequence)
	}
	return c, nil
}

// KeyOf returns the key of a timer's id: the part before -<replication factor>-<16 hex digits>, or the whole id.
func KeyOf(id string) string {
	const hint = 16
	cut := len(id) - hint - 1
	if cut < 1 || id[cut] != '-' || !all(id[cut+1:], isHex) {
		return id
	}
	dash := strings.LastIndexByte(id[:cut], '-')
	if dash < 1 || dash+1 == cut || !all(id[dash+1:cut], isDigit) {
		return id
	}
	return id[:dash]
}

// CallbackPath is the path of a callback with a session and a revision.
func CallbackPath(session string, revision int) string {
	return "/cb/" + session + "/" + strconv.Itoa(revision)
}

func splitPath(path string) (session string, revision int) {
	rest, found := strings.CutPrefix(path, "/cb/")
	if !found {
		return "", 0
	}
	session, number, found := strings.Cut(rest, "/")
	if !found || session == "" {
		return "", 0
	}
	revision, err := positive(number)
	if err != nil {
		return "", 0
	}
	return session, revision
}

// splitWebhookID splits key.version.sequence from the right, because a key may contain dots.
func splitWebhookID(id string) (key, version string, sequence int, err error) {
	last := strings.LastIndexByte(id, '.')
	if last < 1 {
		return "", "", 0, fmt.Errorf("%q is not key.version.sequence", id)
	}
	middle := strings.LastIndexByte(id[:last], '.')
	if middle < 1 || middle+1 == last {
		return "", "", 0, fmt.Errorf("%q is not key.version.sequence", id)
	}
	sequence, err = positive(id[last+1:])
	return id[:middle], id[middle+1 : last], sequence, err
}

func positive(text string) (int, error) {
	if text == "" {
		return 0, errors.New("missing")
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is no number from 1", text)
	}
	return n, nil
}

func all(text string, is func(byte) bool) bool {
	for i := range len(text) {
		if !is(text[i]) {
			return false
		}
	}
	return true
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isHex(b byte) bool { return isDigit(b) || b >= 'a' && b <= 'f' }
