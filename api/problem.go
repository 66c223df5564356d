package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/api/tokens"
	"chronos/scheduler/timer"
)

const (
	problemType = "application/problem+json"
	// codeOverloaded says that nothing was done.
	codeOverloaded = "overloaded"
)

// problem is what a client is told when its request fails (RFC 9457, with the
// reason also in the Reason header). Its texts are ours: they never hold bytes
// of the request.
type problem struct {
	Title   string  `json:"title"`
	Status  int     `json:"status"`
	Detail  string  `json:"detail"`
	Code    string  `json:"code"`              // stable, for programs
	Pointer *string `json:"pointer,omitempty"` // JSON pointer into the request body

	retryAfter     time.Duration // of the header, rounded up to seconds; 0 for none
	acceptEncoding string        // the header; "" for none
	challenge      bool          // asks for a token
	closes         bool          // what else the connection brings can't be made out
}

func newProblem(status int, code, detail string) problem {
	return problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

// idError is a refused id: its pointer is not one into a body.
type idError struct{ *timer.InvalidError }

func (e idError) Unwrap() error { return e.InvalidError }

// problemOf says how a client is told of err; false if it is not told what it was.
func problemOf(err error) (problem, bool) {
	var (
		id      idError
		refused *timer.InvalidError
		own     *problemError
	)
	switch {
	case errors.As(err, &own):
		return own.problem, true
	case errors.As(err, &id):
		return newProblem(http.StatusBadRequest, id.Code, id.Detail), true
	case errors.As(err, &refused):
		p := newProblem(http.StatusBadRequest, refused.Code, refused.Detail)
		p.Pointer = &refused.Pointer
		return p, true
	case errors.Is(err, timer.ErrNotFound):
		return newProblem(http.StatusNotFound, "timer-not-found", "there is no such timer; it may have ended or been deleted"), true
	case errors.Is(err, timer.ErrKeyReused):
		return newProblem(http.StatusUnprocessableEntity, "idempotency-key-reused", "this Idempotency-Key was used with another body; send a new key for another timer"), true
	case errors.Is(err, timer.ErrOvertaken):
		return newProblem(http.StatusConflict, "overtaken", "other requests wrote this timer at the same time; a newer write replaced this one, which may have been in force for a moment; read the timer, and send the request again if you still want it"), true
	case errors.Is(err, timer.ErrOverloaded):
		return overloadedProblem(), true
	case errors.Is(err, timer.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		p := newProblem(http.StatusServiceUnavailable, "store-unavailable", "the timer's store could not be reached in time; the request may have been carried out or not; send it again later")
		p.retryAfter = timer.RetryAfter
		return p, true
	}
	return internalProblem(), false
}

func internalProblem() problem {
	return newProblem(http.StatusInternalServerError, "internal", "something went wrong in the server; its log says what")
}

func overloadedProblem() problem {
	p := newProblem(http.StatusServiceUnavailable, codeOverloaded, "too much is under way and nothing was done; send the request again later")
	p.retryAfter = timer.RetryAfter
	return p
}

func pathUnknown() problem {
	return newProblem(http.StatusNotFound, "path-unknown", "there is nothing at this path; timers are at /timers and /timers/<id>")
}

// problemError is an error that is told as it is.
type problemError struct{ problem problem }

func (e *problemError) Error() string { return e.problem.Detail }

// transportProblem says how a client is told of a request that could not be read.
func transportProblem(err error, maxBody int) problem {
	var (
		large *fasthttp.ErrSmallBuffer
		netOp net.Error
		own   *problemError
		p     problem
	)
	switch {
	case errors.As(err, &own):
		p = own.problem
	case errors.Is(err, errBodiesFull):
		p = overloadedProblem()
	case errors.As(err, &large), errors.Is(err, errHeaderTooLarge):
		p = newProblem(http.StatusRequestHeaderFieldsTooLarge, "header-too-large", "the request line and headers are over "+strconv.Itoa(readBuffer)+" bytes or more than "+strconv.Itoa(maxFields)+" headers; send fewer or shorter ones")
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		p = newProblem(http.StatusRequestEntityTooLarge, "body-too-large", "the body is over "+strconv.Itoa(maxBody)+" bytes; send a smaller one")
	case errors.As(err, &netOp) && netOp.Timeout():
		p = newProblem(http.StatusRequestTimeout, "request-timeout", "the request did not arrive in time; send all of it without pause")
	default:
		p = newProblem(http.StatusBadRequest, "request-malformed", "the request is not valid HTTP/1.1 as RFC 9112 has it; send a path that begins with one slash and has no fragment, one Host, either one Content-Length or Transfer-Encoding: chunked, and lines that end with CR LF")
	}
	p.closes = true
	return p
}

// write makes p the answer of the public listener.
func (p problem) write(resp *fasthttp.Response) {
	resp.SetStatusCode(p.Status)
	resp.SetBody(p.body())
	resp.Header.SetContentType(problemType)
	p.eachHeader(resp.Header.Set)
	if p.closes {
		resp.SetConnectionClose()
	}
}

// writeTo makes p the answer of the admin listener.
func (p problem) writeTo(w http.ResponseWriter) {
	w.Header().Set(fasthttp.HeaderContentType, problemType)
	p.eachHeader(w.Header().Set)
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.body()) // the client has gone if it fails
}

func (p problem) body() []byte {
	const typical = 256
	return append(p.appendMembers(append(make([]byte, 0, typical), '{')), '}')
}

// append writes p as the error of one part of a request, which has no headers of
// its own.
func (p problem) append(dst []byte) []byte {
	dst = p.appendMembers(append(dst, '{'))
	if p.retryAfter > 0 {
		dst = append(dst, `,"retry-after":`...)
		dst = strconv.AppendInt(dst, p.retrySeconds(), 10)
	}
	return append(dst, '}')
}

func (p problem) appendMembers(dst []byte) []byte {
	dst = appendString(append(dst, `"title":`...), p.Title)
	dst = strconv.AppendInt(append(dst, `,"status":`...), int64(p.Status), 10)
	dst = appendString(append(dst, `,"detail":`...), p.Detail)
	dst = appendString(append(dst, `,"code":`...), p.Code)
	if p.Pointer != nil {
		dst = appendString(append(dst, `,"pointer":`...), *p.Pointer)
	}
	return dst
}

// retrySeconds is retryAfter in whole seconds, rounded up.
func (p problem) retrySeconds() int64 { return int64((p.retryAfter + time.Second - 1) / time.Second) }

func (p problem) eachHeader(set func(name, value string)) {
	set("Reason", printable(p.Detail))
	if p.retryAfter > 0 {
		set(fasthttp.HeaderRetryAfter, strconv.FormatInt(p.retrySeconds(), 10))
	}
	if p.acceptEncoding != "" {
		set(fasthttp.HeaderAcceptEncoding, p.acceptEncoding)
	}
	if p.challenge {
		set(fasthttp.HeaderWWWAuthenticate, tokens.Challenge)
	}
}

// printable makes one line of printable ASCII of s.
func printable(s string) string {
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
