package client

import (
	"context"
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
		return Receipt{}, argumentError("create timer once: the key is empty")
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

// ReplaceIf is Replace on a condition. The error is ErrConditionFailed if the condition does not hold.
// Of several ReplaceIf with the same condition at most one succeeds. After any other error the timer
// may have been replaced, unless the error is a *Problem with a Status of 4xx or the code
// condition-undecided: the Client does not repeat a request that may have been carried out, since the
// repetition would find its own version.
func (c *Client) ReplaceIf(ctx context.Context, id string, cond Condition, t Timer) (Receipt, error) {
	op, err := conditionalOperation("replace timer", http.MethodPut, id, cond)
	if err != nil {
		return Receipt{}, err
	}
	return c.write(ctx, op, &t)
}

// Patch changes some members of a timer. A change without timing keeps the sequence number and the due times
// of the timer, and the outcome of a callback under way counts; a change of timing starts the timer anew, as
// Replace does. The error is ErrNotFound if no such timer exists.
//
// The Client doesn't repeat a request that may have been carried out, since the repetition could undo the
// change that another client made in between. After any error except a *Problem with a Status of 4xx or the
// code condition-undecided or overloaded, the timer may have been changed.
func (c *Client) Patch(ctx context.Context, id string, change Change) (Receipt, error) {
	op, err := itemOperation(patchName, http.MethodPatch, id)
	if err != nil {
		return Receipt{}, err
	}
	return c.change(ctx, op, &change)
}

// PatchIf is Patch on a condition, with errors as for ReplaceIf. A Condition with Absent is refused.
func (c *Client) PatchIf(ctx context.Context, id string, cond Condition, change Change) (Receipt, error) {
	op, err := conditionalOperation(patchName, http.MethodPatch, id, cond)
	switch {
	case err != nil:
		return Receipt{}, err
	case op.absent:
		return Receipt{}, argumentError(patchName + ": a timer that does not exist can't be changed")
	}
	return c.change(ctx, op, &change)
}

const patchName = "change timer"

func (c *Client) change(ctx context.Context, op operation, change *Change) (Receipt, error) {
	body, err := encodeChange(change)
	if err != nil {
		return Receipt{}, fmt.Errorf("%s: %w", op.name, err)
	}
	op.body, op.contentType, op.repeatable = body, "application/merge-patch+json", false
	return c.store(ctx, &op)
}

// Delete ends a timer, known or not.
func (c *Client) Delete(ctx context.Context, id string) (Deletion, error) {
	op, err := itemOperation("delete timer", http.MethodDelete, id)
	if err != nil {
		return Deletion{}, err
	}
	return c.end(ctx, op)
}

// DeleteIf is Delete on a condition, with errors as for ReplaceIf.
func (c *Client) DeleteIf(ctx context.Context, id string, cond Condition) (Deletion, error) {
	op, err := conditionalOperation("delete timer", http.MethodDelete, id, cond)
	if err != nil {
		return Deletion{}, err
	}
	return c.end(ctx, op)
}

func (c *Client) end(ctx context.Context, op operation) (Deletion, error) {
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
	stored.ETag = a.header.Get("ETag")
	return stored, nil
}

func (c *Client) write(ctx context.Context, op operation, t *Timer) (Receipt, error) {
	body, err := encodeTimer(t)
	if err != nil {
		return Receipt{}, fmt.Errorf("%s: %w", op.name, err)
	}
	op.body = body
	return c.store(ctx, &op)
}

// store sends an operation whose answer is a receipt.
func (c *Client) store(ctx context.Context, op *operation) (Receipt, error) {
	a, err := c.do(ctx, op, http.StatusOK)
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := decodeReceipt(a.body)
	if err != nil {
		return Receipt{}, fmt.Errorf("%s: %w", op.name, err)
	}
	receipt.Replayed = a.header.Get("Idempotent-Replayed") == "true"
	receipt.InFlight, receipt.Unreached, receipt.ETag = a.inFlight(), a.unreached(), a.header.Get("ETag")
	return receipt, nil
}

func itemOperation(name, method, id string) (operation, error) {
	if id == "" || id == "." || id == ".." {
		return operation{}, argumentError(name + ": the id is empty or made of dots alone")
	}
	return operation{name: name, method: method, path: "/timers/" + url.PathEscape(id), repeatable: true}, nil
}

// Condition is what a timer must be for a write. The zero value is refused: Replace and Delete write
// without a condition.
type Condition struct {
	ETag   string // the timer must have this ETag, as Receipt and Stored have it
	Exists bool   // the timer must exist
	Absent bool   // the timer must not exist; of ReplaceIf alone
}

func conditionalOperation(name, method, id string, cond Condition) (operation, error) {
	op, err := itemOperation(name, method, id)
	if err != nil {
		return operation{}, err
	}
	op.repeatable = false
	switch cond {
	case Condition{ETag: cond.ETag}:
		op.match = cond.ETag
	case Condition{Exists: true}:
		op.match = "*"
	case Condition{Absent: true}:
		op.absent = true
	}
	if op.match == "" && !op.absent {
		return operation{}, argumentError(name + ": a condition has either an ETag, or Exists, or Absent")
	}
	return op, nil
}

func (a *answer) inFlight() bool { return a.header.Get("X-Chronos-In-Flight") == "true" }

func (a *answer) unreached() int {
	n, err := strconv.Atoi(a.header.Get("X-Chronos-Unreached"))
	if err != nil { // the answer has no count
		return 0
	}
	return n
}
