package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"time"
)

// Pauses between tries.
const (
	firstPause = 100 * time.Millisecond // doubles
	maxPause   = 10 * time.Second
)

var errTooLong = errors.New("the answer is too long")

// operation is a request, with how to repeat the request after a failure.
type operation struct {
	name           string // for errors: "create timer"
	method, path   string
	body           []byte
	contentType    string // of the body; "" for application/json
	idempotencyKey string
	match          string // If-Match; "" for no such condition
	absent         bool   // the timer must not exist
	repeatable     bool   // sending the request twice does no harm
}

// answer is a response whose body is read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends an operation until the answer has a status in want, or until the operation may not be
// repeated.
func (c *Client) do(ctx context.Context, op *operation, want ...int) (*answer, error) {
	for try := 1; ; try++ {
		a, err := c.try(ctx, op)
		if err == nil && slices.Contains(want, a.status) {
			return a, nil
		}
		if err == nil {
			err = problemOf(a)
		}
		pause, again := op.pause(err, try)
		if !again || try >= c.tries || !wait(ctx, pause) {
			return nil, fmt.Errorf("%s: %w", op.name, err)
		}
	}
}

// pause is how long to wait after an error, and whether to try again at all.
func (op *operation) pause(err error, try int) (pause time.Duration, again bool) {
	spread := min(firstPause<<(min(try, 16)-1), maxPause)
	problem, answered := errors.AsType[*Problem](err)
	switch {
	case answered && op.repeatable:
		again = problem.again()
	case answered:
		again = problem.nothingDone()
	case errors.Is(err, errTooLong): // the next answer would be too long, too
	default:
		again = op.repeatable || notConnected(err)
	}
	if answered {
		pause = problem.RetryAfter
	}
	return pause + rand.N(spread), again && pause <= maxPause
}

// notConnected reports whether a request failed before it was sent.
func notConnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// wait waits for a pause and reports whether ctx lasted. If ctx ends before the pause does, wait
// returns at once.
func wait(ctx context.Context, pause time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// try sends an operation once and reads the answer to the end, so that the connection can be used
// again.
func (c *Client) try(ctx context.Context, op *operation) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var body io.Reader = http.NoBody
	if op.body != nil {
		body = bytes.NewReader(op.body)
	}
	req, err := http.NewRequestWithContext(ctx, op.method, c.base+op.path, body)
	if err != nil {
		return nil, err
	}
	if op.body != nil {
		req.Header.Set("Content-Type", cmp.Or(op.contentType, "application/json"))
		req.Header.Set("Prefer", "handling=strict") // a node that does not know a member refuses the timer
	}
	if op.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", op.idempotencyKey)
	}
	if op.match != "" {
		req.Header.Set("If-Match", op.match)
	}
	if op.absent {
		req.Header.Set("If-None-Match", "*")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	read, err := io.ReadAll(io.LimitReader(resp.Body, c.maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if int64(len(read)) > c.maxAnswer {
		return nil, errTooLong
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: read}, nil
}
