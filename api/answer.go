package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"chronos/api/wire"
)

// answering makes a handler of the admin listener that answers with the JSON of what do returns. The
// context of do's request ends after so long. An error of do is answered as explain and
// wire.ProblemOf say; a nil explain explains nothing. An error that the answer hides is logged.
func (g gate) answering(within time.Duration, explain func(error) error, do func(w http.ResponseWriter, r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		view, err := do(w, r.WithContext(ctx))
		if err != nil {
			if explain != nil {
				err = explain(err)
			}
			p, known := wire.ProblemOf(err)
			if !known {
				g.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
			}
			answerProblem(w, p)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(view) // an error means that the client has disconnected
	})
}
