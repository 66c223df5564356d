package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrNotFound says that the timer does not exist.
	ErrNotFound = errors.New("timer not found")
	// ErrArgument says that the caller's arguments are wrong. Nothing was sent.
	ErrArgument = errors.New("wrong argument")
	// ErrConditionFailed says that the condition of a write does not hold. Nothing was done.
	ErrConditionFailed = errors.New("the condition does not hold")
)

// argumentError is an ErrArgument in words of its own.
type argumentError string

func (e argumentError) Error() string { return string(e) }

func (e argumentError) Is(target error) bool { return target == ErrArgument }

// Problem is a node's answer to a failed request. Problem is an error; errors.As finds the Problem
// in the errors of the operations.
type Problem struct { //nolint:errname // RFC 9457 calls it so, and it is more than an error
	// Status is the HTTP status.
	Status int
	// Code says what is wrong, for programs: "interval-negative". Codes are stable. Code is empty
	// if something between the client and the node has answered.
	Code string
	// Detail says what is wrong and what to do, for people.
	Detail string
	// Pointer is a JSON pointer to the wrong part of the request's body. Pointer is empty if the
	// whole body, or something outside the body, is wrong.
	Pointer string
	// RetryAfter is how long to wait before the request is sent again; zero if the answer doesn't
	// say.
	RetryAfter time.Duration
	// Last is the last attempt at a pop of a timer that has ended, with ErrNotFound; nil if the node does
	// not know.
	Last *LastDelivery
}

// LastDelivery is how an attempt ended.
type LastDelivery struct {
	Result string    // as in Delivery
	At     time.Time // when the outcome was stored
}

// Error has the status, the code and the detail.
func (p *Problem) Error() string {
	text := "status " + strconv.Itoa(p.Status)
	if p.Code != "" {
		text += " " + p.Code
	}
	if p.Pointer != "" {
		text += " at " + p.Pointer
	}
	return text + ": " + p.Detail
}

// Is reports whether p means the same as ErrNotFound or ErrConditionFailed.
func (p *Problem) Is(target error) bool {
	return target == ErrNotFound && p.Status == http.StatusNotFound && p.Code == "timer-not-found" ||
		target == ErrConditionFailed && p.Status == http.StatusPreconditionFailed
}

// again reports whether a repeatable request should be sent again.
func (p *Problem) again() bool {
	return p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable
}

// nothingDone reports whether the node answered before doing anything. In this case even a request
// that can't be repeated may be sent again.
func (p *Problem) nothingDone() bool {
	return p.Status == http.StatusTooManyRequests && p.Code != "" ||
		p.Status == http.StatusServiceUnavailable && (p.Code == "overloaded" || p.Code == "condition-undecided")
}

// problemOf makes a Problem of any answer, even if the answer is not from a node.
func problemOf(a *answer) *Problem {
	p := &Problem{Status: a.status, Detail: a.header.Get("Reason"), RetryAfter: a.retryAfter()}
	kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err == nil && kind == "application/problem+json" {
		var body struct {
			Detail  string `json:"detail"`
			Code    string `json:"code"`
			Pointer string `json:"pointer"`
			Last    *struct {
				Result string    `json:"result"`
				At     time.Time `json:"at"`
			} `json:"last"`
		}
		if json.Unmarshal(a.body, &body) == nil {
			p.Code, p.Pointer = body.Code, body.Pointer
			if body.Last != nil {
				p.Last = &LastDelivery{body.Last.Result, body.Last.At}
			}
			if body.Detail != "" {
				p.Detail = body.Detail
			}
		}
	}
	const longest = 200
	if text := strings.TrimSpace(string(a.body)); p.Detail == "" && kind == "text/plain" && len(text) <= longest {
		p.Detail = text
	}
	if p.Detail == "" {
		p.Detail = fmt.Sprintf("unexpected answer: %s", strings.ToLower(http.StatusText(a.status)))
	}
	return p
}

// maxRetryAfter bounds the delays that a Client believes.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After in seconds or as a date.
func (a *answer) retryAfter() time.Duration {
	given := a.header.Get("Retry-After")
	if n, err := strconv.ParseUint(given, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	until, err := http.ParseTime(given)
	if err != nil {
		return 0
	}
	now := time.Now()
	if date, err := http.ParseTime(a.header.Get("Date")); err == nil {
		now = date // until comes from the same clock
	}
	return min(max(until.Sub(now), 0), maxRetryAfter)
}
