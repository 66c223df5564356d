package history

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Callback is one callback that arrived, and what it was answered.
type Callback struct {
	ArriveNs int64  `json:"arrive_ns"`
	URL      string `json:"url"`
	BodyHash string `json:"body_hash"`
	// ID is X-Chronos-Timer; Key and Version are taken out of the webhook-id, Seq is X-Sequence-Number, Attempt is
	// X-Chronos-Attempt. What is missing or malformed is left empty or 0.
	ID        string `json:"id"`
	Key       string `json:"key"`
	Version   string `json:"version"`
	Seq       int    `json:"seq"`
	Attempt   int    `json:"attempt"`
	WebhookID string `json:"webhook_id"`
	// DueMs is X-Chronos-Due, since 1970. It is by a shard's clock and not judged.
	DueMs int64 `json:"due_ms,omitempty"`
	// Node called, if that is known.
	Node string `json:"node,omitempty"`
	// Status is our answer, AnsweredNs when it was given; -1 if none was.
	Status     int   `json:"status"`
	AnsweredNs int64 `json:"answered_ns"`
	// RetryAfterMs is the Retry-After that our answer named, 0 if none.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
}

func (c *Callback) validate() error {
	if c.AnsweredNs != -1 && c.AnsweredNs < c.ArriveNs {
		return fmt.Errorf("arrive_ns %d, answered_ns %d: not in order", c.ArriveNs, c.AnsweredNs)
	}
	return nil
}

func (c *Callback) arrived() time.Duration { return time.Duration(c.ArriveNs) }

// took is how long our answer took, never if none was given.
func (c *Callback) took() time.Duration {
	if c.AnsweredNs == -1 {
		return never
	}
	return time.Duration(c.AnsweredNs - c.ArriveNs)
}

// over is when the caller knew how the attempt ended, at the latest.
func (c *Callback) over(limit time.Duration) time.Duration { return c.arrived() + min(c.took(), limit) }

func (c *Callback) succeeded(within time.Duration) bool {
	return c.Status >= http.StatusOK && c.Status < http.StatusMultipleChoices && c.took() <= within
}

func (c *Callback) gone(within time.Duration) bool {
	return c.Status == http.StatusGone && c.took() <= within
}

// labelled tells whether the webhook-id is key.version.seq of the other labels.
func (c *Callback) labelled() bool {
	return c.WebhookID == c.Key+"."+c.Version+"."+strconv.Itoa(c.Seq)
}

// ofKey tells whether the id is one of the timer with the key.
func (c *Callback) ofKey(key string) bool {
	rest, found := strings.CutPrefix(c.ID, key)
	return c.Key == key && found && (rest == "" || rest[0] == '-')
}

func (c *Callback) String() string {
	return fmt.Sprintf("callback %s attempt %d to %s at %s", c.WebhookID, c.Attempt, c.URL, c.arrived())
}
