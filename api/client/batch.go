package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// MaxBatch is how many timers a batch may have.
const MaxBatch = 1000

// Result is the result for a single timer of a batch.
type Result struct {
	// Receipt is the timer's receipt, if Err is nil.
	Receipt Receipt
	// Err is a *Problem that says why the timer was refused. If the Problem's Code is
	// store-unavailable, the timer may exist nevertheless. The Problem's Pointer leads into the
	// list of timers: /timers/17/timing/interval.
	Err error
}

// BatchOption changes what CreateBatch does.
type BatchOption func(*operation) error

// Once makes it safe to call CreateBatch again after an error, of the whole batch or of some
// timers. The timers must be the same, in the same order. Timers that were made with this key are
// found and not made again. A key is 1 to 255 printable ASCII characters; a random UUID is a good
// key. A node remembers the key for an hour after the timer has fired or was deleted.
func Once(key string) BatchOption {
	return func(op *operation) error {
		if key == "" {
			return errors.New("the key is empty")
		}
		op.idempotencyKey, op.repeatable = key, true
		return nil
	}
}

// CreateBatch makes new timers, 1 to MaxBatch, in one request. The results have the order of the
// timers. Timers fail independently: CreateBatch returns a nil error even if every timer was
// refused.
//
// After an error there are no results. If the error is a *Problem with a Status of 4xx or the code
// overloaded, no timers were made. After any further error, some timers may exist.
func (c *Client) CreateBatch(ctx context.Context, timers []Timer, options ...BatchOption) ([]Result, error) {
	op := operation{name: "create timers", method: http.MethodPost, path: "/timers/batch"}
	for _, option := range options {
		if err := option(&op); err != nil {
			return nil, fmt.Errorf("%s: %w", op.name, err)
		}
	}
	var err error
	if op.body, err = encodeBatch(timers); err != nil {
		return nil, fmt.Errorf("%s: %w", op.name, err)
	}
	a, err := c.do(ctx, &op, http.StatusOK, http.StatusMultiStatus)
	if err != nil {
		return nil, err
	}
	results, err := decodeBatch(a.body, len(timers))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.name, err)
	}
	return results, nil
}

func encodeBatch(timers []Timer) ([]byte, error) {
	if len(timers) == 0 || len(timers) > MaxBatch {
		return nil, fmt.Errorf("there are %d timers; give 1 to %d", len(timers), MaxBatch)
	}
	body := []byte(`{"timers":`)
	delim := byte('[')
	for i := range timers {
		timer, err := encodeTimer(&timers[i])
		if err != nil {
			return nil, fmt.Errorf("timer %d: %w", i, err)
		}
		body = append(append(body, delim), timer...)
		delim = ','
	}
	return append(body, "]}"...), nil
}

// resultBody is a receipt or an error.
type resultBody struct {
	receiptBody

	Replayed bool        `json:"replayed"`
	Error    *failedBody `json:"error"`
}

type failedBody struct {
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Code       string `json:"code"`
	Pointer    string `json:"pointer"`
	RetryAfter uint32 `json:"retry-after"`
}

func decodeBatch(raw []byte, want int) ([]Result, error) {
	var body struct {
		Results []resultBody `json:"results"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || len(body.Results) != want {
		return nil, errors.New("the answer is not that of chronos to a batch; is the base URL right?")
	}
	results := make([]Result, want)
	for i := range body.Results {
		result := &body.Results[i]
		switch {
		case result.Error != nil:
			e := result.Error
			results[i].Err = &Problem{
				Status: e.Status, Code: e.Code, Detail: e.Detail, Pointer: e.Pointer,
				RetryAfter: min(time.Duration(e.RetryAfter)*time.Second, maxRetryAfter),
			}
		case result.ID == "":
			return nil, fmt.Errorf("the answer's result %d is neither a receipt nor an error", i)
		default:
			results[i].Receipt = result.receipt()
			results[i].Receipt.Replayed = result.Replayed
		}
	}
	return results, nil
}
