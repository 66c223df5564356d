package history

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Callback is a callback that arrived, with the answer of the receiver.
type Callback struct {
	ArriveNs int64  `json:"arrive_ns"`
	URL      string `json:"url"`
	BodyHash string `json:"body_hash"`
	// ID is X-Chronos-Timer; Key and Version are taken out of the webhook-id, Seq is X-Sequence-Number, Attempt is
	// X-Chronos-Attempt. A missing or malformed value is left empty or 0.
	ID        string `json:"id"`
	Key       string `json:"key"`
	Version   string `json:"version"`
	Seq       int    `json:"seq"`
	Attempt   int    `json:"attempt"`
	WebhookID string `json:"webhook_id"`
	// DueMs is X-Chronos-Due, since 1970, by a shard's clock. DueMs is not judged.
	DueMs int64 `json:"due_ms,omitempty"`
	// Node is the node that called, empty if unknown.
	Node string `json:"node,omitempty"`
	// Status is the answer of the receiver. AnsweredNs is when the receiver answered; -1 without an answer.
	Status     int   `json:"status"`
	AnsweredNs int64 `json:"answered_ns"`
	// RetryAfterMs is the Retry-After of the answer, 0 for none.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`

	limit    time.Duration // how long the answer may take
	revision *revision     // by URL and body; nil for that of the write
}

func (c *Callback) validate() error {
	if c.AnsweredNs != -1 && c.AnsweredNs < c.ArriveNs {
		return fmt.Errorf("arrive_ns %d, answered_ns %d: not in order", c.ArriveNs, c.AnsweredNs)
	}
	return nil
}

func (c *Callback) arrived() time.Duration { return time.Duration(c.ArriveNs) }

// took is how long the answer took; the constant never without an answer.
func (c *Callback) took() time.Duration {
	if c.AnsweredNs == -1 {
		return never
	}
	return time.Duration(c.AnsweredNs - c.ArriveNs)
}

// over is when the caller knew how the attempt ended, at the latest.
func (c *Callback) over() time.Duration { return c.arrived() + min(c.took(), c.limit) }

// succeeded tells whether the answer was 2xx, and came by the given time before the limit.
func (c *Callback) succeeded(before time.Duration) bool {
	return c.Status >= http.StatusOK && c.Status < http.StatusMultipleChoices && c.took() <= c.limit-before
}

// gone tells whether the answer was 410, and came by the given time before the limit.
func (c *Callback) gone(before time.Duration) bool {
	return c.Status == http.StatusGone && c.took() <= c.limit-before
}

// labelled tells whether the webhook-id agrees with the labels: key.version.seq.
func (c *Callback) labelled() bool {
	return c.WebhookID == c.Key+"."+c.Version+"."+strconv.Itoa(c.Seq)
}

// ofKey tells whether the id belongs to the timer with the key.
func (c *Callback) ofKey(key string) bool {
	rest, found := strings.CutPrefix(c.ID, key)
	return c.Key == key && found && (rest == "" || rest[0] == '-')
}

func (c *Callback) String() string {
	return fmt.Sprintf("callback %s attempt %d to %s at %s", c.WebhookID, c.Attempt, c.URL, c.arrived())
}
