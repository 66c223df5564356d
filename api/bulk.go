package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/listing"
)

// Changer changes many timers. A Changer is safe for concurrent use and returns soon after ctx has ended.
type Changer interface {
	// Bulk changes some of the timers that match a query, or counts the timers. Errors as
	// Lister.List.
	Bulk(ctx context.Context, b listing.Bulk) (listing.Done, error)
}

// bulkPatience is how long a change to many timers may take: less than the listener's time for an answer.
const bulkPatience = 25 * time.Second

// Parameters of a change to many timers, beside the parameters of a listing.
const (
	allParameter    = "all"
	dryRunParameter = "dry-run"
)

// serveBulk serves changes to many timers on the admin listener.
func serveBulk(mux *http.ServeMux, by gate, all Changer) {
	handle := func(pattern string, action listing.Action, more ...string) {
		mux.Handle(pattern, by.lets(tokens.Admin, by.answering(bulkPatience, listingProblem, func(_ http.ResponseWriter, r *http.Request) (any, error) {
			b, err := readBulk(r, more...)
			if err != nil {
				return nil, err
			}
			b.Action = action
			done, err := all.Bulk(r.Context(), b)
			if err != nil {
				return nil, err
			}
			noteBulk(r.Context(), &done)
			return wire.ViewBulk(&done, by.refusal), nil
		})))
	}
	handle("POST /timers/bulk/delete", listing.Delete)
	handle("POST /timers/bulk/fire", listing.Fire)
	handle("POST /timers/bulk/delay", listing.Delay, byParameter)
}

// refusal explains why a timer was left as it is. An error that the answer hides is logged.
func (g gate) refusal(err error) wire.Problem {
	p, known := wire.ProblemOf(interventionProblem(err))
	if !known {
		g.log.Error("change of a timer failed", "error", err)
	}
	return p
}

// readBulk reads which timers a request changes.
func readBulk(r *http.Request, more ...string) (b listing.Bulk, err error) {
	values, err := readQuery(r.URL.RawQuery, slices.Concat(listingParameters(), []string{allParameter, dryRunParameter}, more)...)
	if err != nil {
		return b, err
	}
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if len(r.Header.Values(name)) > 0 {
			return b, unsupportedCondition()
		}
	}
	if b.Query, err = listingQuery(values, listing.MaxLimit); err != nil {
		return b, err
	}
	all, err := readFlag(values, allParameter)
	if err != nil {
		return b, err
	}
	if b.DryRun, err = readFlag(values, dryRunParameter); err != nil {
		return b, err
	}
	switch filtered := !b.Filter.IsZero(); {
	case !all && !filtered:
		return b, refuseQuery("filter-missing", "say which timers are meant: by key, key-prefix, text, state, destination, tag, due-after or due-before, or all=true for all timers")
	case all && filtered:
		return b, refuseQuery("filter-and-all", "all=true stands beside a filter, so that the request may mean all timers or some; leave out the one or the other")
	}
	if slices.Contains(more, byParameter) {
		b.By, err = readDelay(values)
	}
	return b, err
}

// readFlag reads a parameter that is true or false; false if the parameter is absent.
func readFlag(values url.Values, name string) (bool, error) {
	switch values.Get(name) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	}
	return false, refuseQuery("flag-malformed", name+" is true or false; correct it, or leave it out for false")
}
