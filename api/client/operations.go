package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Create makes a new timer. After an error the timer may exist nevertheless, unless the error is a
// *Problem with a Status of 4xx or the code overloaded. CreateOnce can be called again.
//
// All operations block until an answer comes, the tries are used up, or ctx ends. If a node has
// answered, the errors wrap a *Problem.
func (c *Client) Create(ctx context.Context, t Timer) (Receipt, error) {
	return c.write(ctx, operation{name: "create timer", method: http.MethodPost, path: "/timers"}, &t)
}

// CreateOnce makes a new timer, or finds the timer that was made with the same key. A key is 1 to
// 255 printable ASCII characters: a random UUID is a good key. After an error CreateOnce can be
// called again with the same Timer. With a different Timer the error is a *Problem with the code
// idempotency-key-reused. A node remembers a key for an hour after the key's timer has fired or was
// deleted.
func (c *Client) CreateOnce(ctx context.Context, key string, t Timer) (Receipt, error) {
	if key == "" {
		return Receipt{}, errors.New("create timer once: the key is empty")
	}
	op := operation{name: "create timer once", method: http.MethodPost, path: "/timers", idempotencyKey: key, repeatable: true}
	return c.write(ctx, op, &t)
}

// Replace stores t under an id or key, whether or not the timer exists. The timer starts with
// sequence number 1. Replace is also how to choose a key: 1 to 128 of A-Z a-z 0-9 . _ ~ -. A
// *Problem with the code overtaken says that a newer write of the same timer won. The Client
// doesn't repeat the write then.
func (c *Client) Replace(ctx context.Context, id string, t Timer) (Receipt, error) {
	op, err := itemOperation("replace timer", http.MethodPut, id)
	if err != nil {
		return Receipt{}, err
	}
	return c.write(ctx, op, &t)
}

// Delete ends a timer, known or not.
func (c *Client) Delete(ctx context.Context, id string) (Deletion, error) {
	op, err := itemOperation("delete timer", http.MethodDelete, id)
	if err != nil {
		return Deletion{}, err
	}
	a, err := c.do(ctx, &op, http.StatusCreated)
	if err != nil {
		return Deletion{}, err
	}
	return Deletion{InFlight: a.inFlight(), Unreached: a.unreached()}, nil
}

// Lookup reads a timer. The error is ErrNotFound if no such timer exists: the timer may have fired
// or ended.
func (c *Client) Lookup(ctx context.Context, id string) (Stored, error) {
	op, err := itemOperation("look up timer", http.MethodGet, id)
	if err != nil {
		return Stored{}, err
	}
	a, err := c.do(ctx, &op, http.StatusOK)
	if err != nil {
		return Stored{}, err
	}
	stored, err := decodeStored(a.body)
	if err != nil {
		return Stored{}, fmt.Errorf("%s: %w", op.name, err)
	}
	return stored, nil
}

func (c *Client) write(ctx context.Context, op operation, t *Timer) (Receipt, error) {
	body, err := encodeTimer(t)
	if err != nil {
		return Receipt{}, fmt.Errorf("%s: %w", op.name, err)
	}
	op.body = body
	a, err := c.do(ctx, &op, http.StatusOK)
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := decodeReceipt(a.body)
	if err != nil {
		return Receipt{}, fmt.Errorf("%s: %w", op.name, err)
	}
	receipt.Replayed = a.header.Get("Idempotent-Replayed") == "true"
	receipt.InFlight, receipt.Unreached = a.inFlight(), a.unreached()
	return receipt, nil
}

func itemOperation(name, method, id string) (operation, error) {
	if id == "" || id == "." || id == ".." {
		return operation{}, fmt.Errorf("%s: the id is empty or made of dots alone", name)
	}
	return operation{name: name, method: method, path: "/timers/" + url.PathEscape(id), repeatable: true}, nil
}

func (a *answer) inFlight() bool { return a.header.Get("X-Chronos-In-Flight") == "true" }

func (a *answer) unreached() int {
	n, err := strconv.Atoi(a.header.Get("X-Chronos-Unreached"))
	if err != nil { // the answer has no count
		return 0
	}
	return n
}
