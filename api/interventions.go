package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Interventions are what an operator sees of a single timer and does to the timer beyond Items;
// *scheduler.Scheduler implements Interventions. The methods are safe for concurrent use and return soon
// after ctx has ended.
type Interventions interface {
	// Copies returns the copies of a timer, in rank order. Errors: timer.ErrNotFound.
	Copies(ctx context.Context, id timer.ID) ([]listing.Copy, error)
	// Lookup returns the timer and the timer's state. Errors: timer.ErrNotFound, timer.ErrUnavailable.
	Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error)
	// Fire has the next pop be due now; the pops behind keep their due times. Errors: timer.ErrNotFound,
	// *timer.ConditionError, timer.ErrOvertaken, timer.ErrFiring, timer.ErrUndecided,
	// timer.ErrUnavailable.
	Fire(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error)
	// Delay moves the next pop, and the pops behind, by so much. Additional error: *timer.InvalidError
	// if the next pop would be due too late.
	Delay(ctx context.Context, id timer.ID, cond timer.Condition, by time.Duration) (timer.Receipt, error)
}

// interventionPatience is how long a request about a single timer may take.
const interventionPatience = 2 * time.Second

// serveInterventions serves what an operator does about single timers on the admin listener.
func serveInterventions(mux *http.ServeMux, by gate, all Interventions) {
	answering := func(do func(w http.ResponseWriter, r *http.Request, id timer.ID) (any, error)) http.Handler {
		return by.answering(interventionPatience, interventionProblem, func(w http.ResponseWriter, r *http.Request) (any, error) {
			id, err := parseID(r.PathValue("id"))
			if err != nil {
				return nil, err
			}
			return do(w, r, id)
		})
	}
	handle := func(pattern string, need tokens.Role, do func(w http.ResponseWriter, r *http.Request, id timer.ID) (any, error)) {
		mux.Handle(pattern, by.lets(need, answering(do)))
	}
	mux.HandleFunc("GET /timers/{id}/export", exporting(by, answering(func(_ http.ResponseWriter, r *http.Request, id timer.ID) (any, error) {
		secrets, err := readSecrets(r)
		if err != nil {
			return nil, err
		}
		found, err := all.Lookup(r.Context(), id)
		return wire.ViewExport(&found, secrets), err
	})))
	handle("GET /timers/{id}/copies", tokens.List, func(_ http.ResponseWriter, r *http.Request, id timer.ID) (any, error) {
		if _, err := readQuery(r.URL.RawQuery); err != nil {
			return nil, err
		}
		copies, err := all.Copies(r.Context(), id)
		return wire.ViewCopies(copies), err
	})
	handle("POST /timers/{id}/fire", tokens.Write, func(w http.ResponseWriter, r *http.Request, id timer.ID) (any, error) {
		if _, err := readQuery(r.URL.RawQuery); err != nil {
			return nil, err
		}
		cond, err := conditionIn(r.Header)
		if err != nil {
			return nil, err
		}
		receipt, err := all.Fire(r.Context(), id, cond)
		if err != nil {
			return nil, err
		}
		return viewReceipt(w, &receipt), nil
	})
	handle("POST /timers/{id}/delay", tokens.Write, func(w http.ResponseWriter, r *http.Request, id timer.ID) (any, error) {
		values, err := readQuery(r.URL.RawQuery, byParameter)
		if err != nil {
			return nil, err
		}
		by, err := readDelay(values)
		if err != nil {
			return nil, err
		}
		cond, err := conditionIn(r.Header)
		if err != nil {
			return nil, err
		}
		receipt, err := all.Delay(r.Context(), id, cond, by)
		if err != nil {
			return nil, err
		}
		return viewReceipt(w, &receipt), nil
	})
}

// exporting passes on requests for exports. Secrets need a higher role, and a line in the log.
func exporting(by gate, export http.Handler) http.HandlerFunc {
	hidden, revealed := by.lets(tokens.List, export), by.revealing().lets(tokens.Admin, export)
	return func(w http.ResponseWriter, r *http.Request) {
		if secrets, err := readSecrets(r); secrets && err == nil {
			revealed.ServeHTTP(w, r)
			return
		}
		hidden.ServeHTTP(w, r)
	}
}

// secretsParameter asks for the values that answers hide.
const secretsParameter = "secrets"

func readSecrets(r *http.Request) (bool, error) {
	values, err := readQuery(r.URL.RawQuery, secretsParameter)
	if err != nil {
		return false, err
	}
	return readFlag(values, secretsParameter)
}

// byParameter says how long a delay is.
const byParameter = "by"

// readDelay reads how long a delay is, rounded up to the next millisecond.
func readDelay(values url.Values) (time.Duration, error) {
	text := values.Get(byParameter)
	if text == "" {
		return 0, refuseQuery("by-missing", "by is missing; give the length of the delay, such as by=30s, by=10m or by=1h30m")
	}
	by, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, refuseQuery("by-malformed", "by is no duration with its unit, such as 30s, 10m or 1h30m, up to 876000h")
	case by <= 0 || by > timer.MaxInterval:
		return 0, refuseQuery("by-range", "by is not from 1ms to 876000h (100 years); give a length in these bounds")
	}
	return (by + time.Millisecond - 1).Truncate(time.Millisecond), nil
}

// viewReceipt makes the answer to a change of a timer, with the headers of such an answer.
func viewReceipt(w http.ResponseWriter, receipt *timer.Receipt) any {
	if receipt.Version != 0 {
		w.Header().Set("ETag", string(wire.AppendETag(nil, receipt.Version)))
	}
	if receipt.InFlight {
		w.Header().Set(inFlightHeader, "true")
	}
	if receipt.Unreached > 0 {
		w.Header().Set(unreachedHeader, strconv.Itoa(receipt.Unreached))
	}
	if receipt.AllSites > 0 {
		w.Header().Set(sitesHeader, sitesOf(receipt))
	}
	return json.RawMessage(wire.RenderReceipt(receipt, nil))
}

// interventionProblem explains the errors of changes to single timers.
func interventionProblem(err error) error {
	if errors.Is(err, timer.ErrFiring) {
		return wire.NewProblem(http.StatusConflict, "firing", "a callback of the timer is under way, and nothing was done; look at the timer when the callback is over")
	}
	return withoutPointer(err)
}
