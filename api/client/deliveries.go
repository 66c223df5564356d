package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Delivery is an attempt at a callback, as the log of deliveries keeps the attempt.
type Delivery struct {
	// At is when the outcome was stored, by the clock of the shard.
	At time.Time
	// Key is the timer's. WebhookID is the header webhook-id of the callback.
	Key, WebhookID string
	// Sequence is the number of the pop, and Attempt how many attempts at the pop there had been, this
	// attempt included.
	Sequence, Attempt int
	// Due is when the pop was due, Started when the attempt began, and Took how long the attempt lasted,
	// in whole milliseconds.
	Due, Started time.Time
	Took         time.Duration
	// OK says that the receiver has taken the pop.
	OK bool
	// Result is the status of the answer, or why there was none: "status 204", "connection refused".
	Result string
	// Destination is scheme://host:port of the callback; "" if unknown.
	Destination string
	// Node made the attempt, and Shard has the entry.
	Node, Shard string
}

// DeliveryPage is a part of the log of deliveries, the newest attempt first.
type DeliveryPage struct {
	// Deliveries may be fewer than the limit, or none, though more follow.
	Deliveries []Delivery
	// Next is the cursor of the next page; "" at the end.
	Next string
	// Unreached are the shards that gave no answer: their attempts are missing.
	Unreached []string
	// Unreadable is how many entries of the log are no attempts.
	Unreadable int
}

// DeliveryQuery asks for a part of the log. The zero value asks for the newest attempts.
type DeliveryQuery struct {
	Cursor string // the Next of the page before
	Limit  int    // of attempts, up to 1,000; 0 for 100
}

// Deliveries lists the attempts at the pops of a timer, also after the timer has ended, as far as the log
// goes back. The error is ErrNotFound if neither the timer nor an attempt is known. A *Problem with the
// code deliveries-off says that the node keeps no log, and cursor-stale that all attempts behind the
// cursor have left the log.
func (c *Client) Deliveries(ctx context.Context, id string, q DeliveryQuery) (DeliveryPage, error) {
	op, err := itemOperation("list deliveries", http.MethodGet, id)
	if err != nil {
		return DeliveryPage{}, err
	}
	query := url.Values{}
	if q.Cursor != "" {
		query.Set("cursor", q.Cursor)
	}
	if q.Limit != 0 {
		query.Set("limit", fmt.Sprint(q.Limit))
	}
	if op.path += "/deliveries"; len(query) > 0 {
		op.path += "?" + query.Encode()
	}
	a, err := c.do(ctx, &op, http.StatusOK)
	if err != nil {
		return DeliveryPage{}, err
	}
	page, err := decodeDeliveries(a.body)
	if err != nil {
		return DeliveryPage{}, fmt.Errorf("%s: %w", op.name, err)
	}
	return page, nil
}

type deliveryBody struct {
	At          time.Time   `json:"at"`
	Key         string      `json:"key"`
	WebhookID   string      `json:"webhook-id"`
	Sequence    int         `json:"sequence"`
	Attempt     int         `json:"attempt"`
	Due         time.Time   `json:"due"`
	Started     time.Time   `json:"started"`
	Took        json.Number `json:"took"`
	OK          bool        `json:"ok"`
	Result      string      `json:"result"`
	Destination string      `json:"destination"`
	Node        string      `json:"node"`
	Shard       string      `json:"shard"`
}

func decodeDeliveries(raw []byte) (DeliveryPage, error) {
	var body struct {
		Deliveries []deliveryBody `json:"deliveries"`
		Next       string         `json:"next"`
		Unreached  []string       `json:"unreached"`
		Unreadable int            `json:"unreadable"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || body.Deliveries == nil {
		return DeliveryPage{}, errors.New("the answer is not a log of chronos; is the base URL right?")
	}
	page := DeliveryPage{Deliveries: make([]Delivery, len(body.Deliveries)), Next: body.Next, Unreached: body.Unreached, Unreadable: body.Unreadable}
	for i, b := range body.Deliveries {
		took, err := duration(b.Took)
		if err != nil {
			return DeliveryPage{}, fmt.Errorf("the answer has %w", err)
		}
		page.Deliveries[i] = Delivery{
			At: b.At, Key: b.Key, WebhookID: b.WebhookID, Sequence: b.Sequence, Attempt: b.Attempt, Due: b.Due, Started: b.Started, Took: took,
			OK: b.OK, Result: b.Result, Destination: b.Destination, Node: b.Node, Shard: b.Shard,
		}
	}
	return page, nil
}
