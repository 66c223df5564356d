package wire

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"chronos/scheduler/timer"
)

const (
	problemType = "application/problem+json"
	// codeOverloaded says that nothing was done.
	codeOverloaded = "overloaded"
)

// Problem is an error that a client gets when a request fails (RFC 9457, with the detail also in
// the header Reason). The texts come from this program: no text holds bytes of the request.
type Problem struct { //nolint:errname // it has the name that RFC 9457 gives it
	Status  int
	Detail  string
	Code    string  // stable, for programs
	Pointer *string // JSON pointer into the request body; nil for none

	// Last is the last known attempt at a pop of a timer that has ended; nil for none.
	Last *LastDelivery

	RetryAfter time.Duration // of the header, rounded up to seconds; 0 for none
	header     [2]string     // another header, name and value; "" for none
}

// LastDelivery is how an attempt ended, and when.
type LastDelivery struct {
	Result string
	At     time.Time
}

// NewProblem makes a problem without a pointer and without further headers.
func NewProblem(status int, code, detail string) Problem {
	return Problem{Status: status, Detail: detail, Code: code}
}

// With is the problem with another header.
func (p Problem) With(name, value string) Problem {
	p.header = [2]string{name, value}
	return p
}

func (p Problem) Error() string { return p.Detail }

// ProblemOf makes a client's answer from err. The result is false if the answer hides the error.
func ProblemOf(err error) (Problem, bool) {
	var (
		refused *timer.InvalidError
		unmet   *timer.ConditionError
		own     Problem
	)
	switch {
	case errors.As(err, &own):
		return own, true
	case errors.As(err, &refused):
		p := NewProblem(http.StatusBadRequest, refused.Code, refused.Detail)
		p.Pointer = &refused.Pointer
		return p, true
	case errors.Is(err, timer.ErrNotFound):
		return NewProblem(http.StatusNotFound, "timer-not-found", "there is no such timer; it may have ended or been deleted"), true
	case errors.Is(err, timer.ErrKeyReused):
		return NewProblem(http.StatusUnprocessableEntity, "idempotency-key-reused", "this Idempotency-Key was used with another body; send a new key for another timer"), true
	case errors.Is(err, timer.ErrOvertaken):
		return NewProblem(http.StatusConflict, "overtaken", "other requests wrote this timer at the same time; a newer write replaced this one, which may have been in force for a moment; read the timer, and send the request again if you still want it"), true
	case errors.As(err, &unmet):
		return unmetProblem(unmet), true
	case errors.Is(err, timer.ErrOverloaded):
		return Overloaded(), true
	case errors.Is(err, timer.ErrNotUpgraded):
		p := NewProblem(http.StatusServiceUnavailable, "upgrade-under-way", "a node of an earlier version is running, and can't read such a timer; nothing was done; send the request again once all nodes are upgraded, or leave out method, headers, timeout, retry and expires-after")
		p.RetryAfter = timer.RetryAfter
		return p, true
	case errors.Is(err, timer.ErrUpgrading):
		p := NewProblem(http.StatusServiceUnavailable, "upgrade-under-way", "a later version of the server has written the timer, and this node can't read that; upgrade this node, or send the request to a node that is upgraded; until then the request may have been carried out or not")
		p.RetryAfter = timer.RetryAfter
		return p, true
	case errors.Is(err, timer.ErrUndecided):
		p := NewProblem(http.StatusServiceUnavailable, "condition-undecided", "whether to write the timer can't be decided now: a shard of the timer does not answer or has lost data, the topology changes, or other writes kept coming first; nothing was done; send the request again later")
		p.RetryAfter = timer.RetryAfter
		return p, true
	case errors.Is(err, timer.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		p := NewProblem(http.StatusServiceUnavailable, "store-unavailable", "the timer's store could not be reached in time; the request may have been carried out or not; send it again later")
		p.RetryAfter = timer.RetryAfter
		return p, true
	}
	return Internal(), false
}

// unmetProblem is the answer to a write on a condition that does not hold, with the ETag of the
// timer that is there.
func unmetProblem(unmet *timer.ConditionError) Problem {
	if unmet.Present == 0 {
		return NewProblem(http.StatusPreconditionFailed, "precondition-failed", "there is no such timer, so the condition does not hold; nothing was done")
	}
	p := NewProblem(http.StatusPreconditionFailed, "precondition-failed", "the timer has another version than the condition asks for; nothing was done; read the timer, and send the request again with the ETag of that answer if you still want it")
	return p.With("ETag", string(AppendETag(nil, unmet.Present)))
}

// AppendETag appends the ETag of a timer's version, with the quotes.
func AppendETag(dst []byte, v timer.Version) []byte {
	return append(v.Append(append(dst, '"')), '"')
}

// Internal says nothing about the cause.
func Internal() Problem {
	return NewProblem(http.StatusInternalServerError, "internal", "something went wrong in the server; its log says what")
}

// Overloaded answers a request that may succeed when less is under way.
func Overloaded() Problem {
	p := NewProblem(http.StatusServiceUnavailable, codeOverloaded, "too much is under way and nothing was done; send the request again later")
	p.RetryAfter = timer.RetryAfter
	return p
}

// Body is JSON.
func (p Problem) Body() []byte {
	const typical = 256
	return append(p.appendMembers(append(make([]byte, 0, typical), '{')), '}')
}

// appendPart writes p as the error of a part of a request. A part has no headers of its own.
func (p Problem) appendPart(dst []byte) []byte {
	dst = p.appendMembers(append(dst, '{'))
	if p.RetryAfter > 0 {
		dst = append(dst, `,"retry-after":`...)
		dst = strconv.AppendInt(dst, p.retrySeconds(), 10)
	}
	return append(dst, '}')
}

func (p Problem) appendMembers(dst []byte) []byte {
	dst = appendString(append(dst, `"title":`...), http.StatusText(p.Status))
	dst = strconv.AppendInt(append(dst, `,"status":`...), int64(p.Status), 10)
	dst = appendString(append(dst, `,"detail":`...), p.Detail)
	dst = appendString(append(dst, `,"code":`...), p.Code)
	if p.Pointer != nil {
		dst = appendString(append(dst, `,"pointer":`...), *p.Pointer)
	}
	if p.Last != nil {
		dst = appendString(append(dst, `,"last":{"result":`...), p.Last.Result)
		dst = append(timer.AppendInstant(append(dst, `,"at":"`...), p.Last.At), `"}`...)
	}
	return dst
}

// retrySeconds is RetryAfter in whole seconds, rounded up.
func (p Problem) retrySeconds() int64 { return int64((p.RetryAfter + time.Second - 1) / time.Second) }

// EachHeader calls set with all headers of an answer with the body.
func (p Problem) EachHeader(set func(name, value string)) {
	set("Content-Type", problemType)
	set("Reason", Printable(p.Detail))
	if p.RetryAfter > 0 {
		set("Retry-After", strconv.FormatInt(p.retrySeconds(), 10))
	}
	if p.header[0] != "" {
		set(p.header[0], p.header[1])
	}
}

// Printable makes a line of printable ASCII of s.
func Printable(s string) string {
	const maxReason = 300
	line := make([]byte, 0, len(s))
	for _, r := range s {
		if r < ' ' || r > '~' {
			r = '?'
		}
		line = append(line, byte(r))
	}
	return string(line[:min(len(line), maxReason)])
}
