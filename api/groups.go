package api

import (
	"context"
	"net/http"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/deadletter"
)

// LetterGroups sums up dead letters; *deadletter.Letters implements LetterGroups. The method is safe for
// concurrent use and returns soon after ctx has ended.
type LetterGroups interface {
	// Groups returns the newest dead letters by destination and reason.
	Groups(ctx context.Context) (deadletter.Groups, error)
}

// serveGroups serves the groups of dead letters on the admin listener.
func serveGroups(mux *http.ServeMux, by gate, letters LetterGroups) {
	mux.Handle("GET /dead/groups", by.lets(tokens.List, by.answering(lettersPatience, nil, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		if _, err := readQuery(r.URL.RawQuery); err != nil {
			return nil, err
		}
		groups, err := letters.Groups(r.Context())
		return wire.ViewGroups(&groups), err
	})))
}
