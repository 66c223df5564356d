package wire

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"chronos/scheduler/destinations"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// LetterProblem makes the answer to a client from err.
func LetterProblem(err error) Problem {
	var refused *timer.InvalidError
	switch {
	case errors.Is(err, timer.ErrNotFound):
		return NewProblem(http.StatusNotFound, "letter-not-found", "there is no such dead letter; it was fired again, deleted, or is over CHRONOS_DEAD_RETENTION old: list them")
	case errors.Is(err, store.ErrCursor):
		return NewProblem(http.StatusBadRequest, "cursor-malformed", "the cursor is none that was answered as next; leave it out to begin anew")
	case errors.Is(err, timer.ErrSuperseded):
		return NewProblem(http.StatusConflict, "letter-superseded", "a timer with this key was set, replaced or deleted since this one was given up, and is there or was until 2 minutes ago; delete the letter, or try again when that timer is over")
	case errors.Is(err, store.ErrUnreadable):
		return NewProblem(http.StatusConflict, "letter-unreadable", Printable(err.Error())+"; look at its text, and delete it")
	case errors.As(err, &refused):
		return NewProblem(http.StatusConflict, refused.Code, "a timer like this is refused now: "+refused.Detail)
	}
	p, known := ProblemOf(err)
	if known && p.Code == "store-unavailable" {
		p.Detail = "not all Redis instances that it takes could be reached in time; try again later: a letter that was fired meanwhile is fired as the same timer, with the same webhook-id"
	}
	return p
}

// PauseProblem makes the answer to a client from err.
func PauseProblem(err error) Problem {
	switch {
	case errors.Is(err, destinations.ErrFull):
		return NewProblem(http.StatusConflict, "pauses-full", "the Redis instances refuse this: "+strconv.Itoa(store.MaxPauses)+
			" destinations are paused, or over "+strconv.Itoa(store.MaxDecisions)+" were within a day, or this node's clock is over an hour wrong; resume some, or set the clock")
	case errors.Is(err, timer.ErrOvertaken):
		return NewProblem(http.StatusConflict, "overtaken", "other requests paused or resumed this destination at the same time; look at the destinations, and send the request again if you still want it")
	}
	p, known := ProblemOf(err)
	if known && p.Code == "store-unavailable" {
		p.Detail = "no Redis instance could be told in time; nothing may have changed, or some nodes have heard of it; send the request again later"
	}
	return p
}

// TopologyProblem makes the answer to a client from err.
func TopologyProblem(err error) Problem {
	var (
		refused *RefusedError
		own     Problem
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &refused):
		return NewProblem(http.StatusConflict, cmp.Or(refused.Code, "topology-refused"), Printable(refused.Reason))
	}
	p := NewProblem(http.StatusServiceUnavailable, "topology-unfinished", Printable(err.Error()))
	p.RetryAfter = 10 * time.Second
	return p
}
