package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/destinations"
)

// Destinations are the destinations of callbacks that the admin listener shows, pauses and resumes.
// *scheduler.Scheduler implements Destinations. The methods are safe for concurrent use.
type Destinations interface {
	// Destinations lists the destinations with a limit or a pause, and the busiest of the rest.
	Destinations() []destinations.View
	// Pause pauses a destination until an instant. Errors: *timer.InvalidError,
	// destinations.ErrFull, timer.ErrOvertaken, timer.ErrUnavailable.
	Pause(ctx context.Context, destination string, until time.Time) (destinations.Pausing, error)
	// Resume ends the pause of a destination. Errors as Pause.
	Resume(ctx context.Context, destination string) (destinations.Pausing, error)
}

const (
	pausePatience = 5 * time.Second
	maxPauseBody  = 4 << 10
)

// serveDestinations serves the destinations on the admin listener.
func serveDestinations(mux *http.ServeMux, by gate, all Destinations) {
	handle := func(pattern string, need tokens.Role, do func(w http.ResponseWriter, r *http.Request) (any, error)) {
		mux.Handle(pattern, by.lets(need, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			view, err := do(w, r)
			if err != nil {
				answerProblem(w, wire.PauseProblem(err))
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			_ = json.NewEncoder(w).Encode(view) // an error means that the client has disconnected
		})))
	}
	handle("GET /destinations", tokens.Read, func(http.ResponseWriter, *http.Request) (any, error) {
		views := []wire.DestinationView{}
		for _, d := range all.Destinations() {
			views = append(views, wire.ViewDestination(&d))
		}
		return map[string]any{"destinations": views}, nil
	})
	decide := func(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, body []byte) (destinations.Pausing, error)) (any, error) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPauseBody))
		if err != nil {
			return nil, badBody(err)
		}
		ctx, cancel := context.WithTimeout(r.Context(), pausePatience)
		defer cancel()
		pausing, err := do(ctx, body)
		if err != nil {
			return nil, err
		}
		notePausing(r.Context(), &pausing)
		return wire.ViewPausing(&pausing), nil
	}
	handle("POST /destinations/pause", tokens.Write, func(w http.ResponseWriter, r *http.Request) (any, error) {
		return decide(w, r, func(ctx context.Context, body []byte) (destinations.Pausing, error) {
			destination, until, err := wire.DecodePause(body)
			if err != nil {
				return destinations.Pausing{}, err
			}
			return all.Pause(ctx, destination, until)
		})
	})
	handle("POST /destinations/resume", tokens.Write, func(w http.ResponseWriter, r *http.Request) (any, error) {
		return decide(w, r, func(ctx context.Context, body []byte) (destinations.Pausing, error) {
			destination, err := wire.DecodeResume(body)
			if err != nil {
				return destinations.Pausing{}, err
			}
			return all.Resume(ctx, destination)
		})
	})
}

// badBody explains why a body could not be read.
func badBody(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return wire.NewProblem(http.StatusRequestEntityTooLarge, "body-too-large", "the body is over "+strconv.Itoa(maxPauseBody)+" bytes; send destination and until alone")
	}
	return wire.NewProblem(http.StatusBadRequest, "body-unreadable", "the body could not be read to its end; send the request again")
}
