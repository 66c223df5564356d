package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"chronos/api/tokens"
	"chronos/api/transport"
	"chronos/api/wire"
	"chronos/scheduler/deliveries"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Deliveries is the log of deliveries; *deliveries.Log implements Deliveries, and nil is a log that is
// off. The methods are safe for concurrent use and return soon after ctx has ended.
type Deliveries interface {
	// Of lists the attempts at the pops of a timer.
	Of(ctx context.Context, id timer.ID, q deliveries.Query) (deliveries.Page, error)
	// All lists the attempts at the pops of all timers.
	All(ctx context.Context, q deliveries.Query) (deliveries.Page, error)
	// Last is the last known attempt at a pop of a timer.
	Last(ctx context.Context, id timer.ID) (deliveries.Attempt, bool)
}

const (
	deliveriesPatience = 5 * time.Second
	// deliveryRoom is about how many bytes an attempt takes in an answer.
	deliveryRoom = 512
)

// timerDeliveries lists the attempts at the pops of a timer, also after the end of the timer.
func (s *Server) timerDeliveries(c *fiber.Ctx) error {
	id, err := readID(c)
	if err != nil {
		return err
	}
	q, err := readDeliveries(string(c.Context().QueryArgs().QueryString()), "limit", "cursor")
	if err != nil {
		return err
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), q.Limit*deliveryRoom); err != nil {
		return err
	}
	ctx, cancel := operation()
	defer cancel()
	page, err := s.deliveries.Of(ctx, id, q)
	if err != nil {
		return deliveryProblem(err)
	}
	if len(page.Attempts) == 0 && page.Next == "" && q.Cursor == "" {
		if _, err := s.timers.Lookup(ctx, id); err != nil {
			return err
		}
	}
	body, err := wire.RenderDeliveries(&page)
	if err != nil {
		return err
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), len(body)); err != nil {
		return err
	}
	return answerJSON(c, body)
}

// withLast adds the last attempt to the answer about a timer that has ended.
func (s *Server) withLast(ctx context.Context, c *fiber.Ctx, id timer.ID, err error) error {
	if !errors.Is(err, timer.ErrNotFound) || c.Method() == http.MethodHead {
		return err
	}
	last, known := s.deliveries.Last(ctx, id)
	if !known {
		return err
	}
	p, _ := wire.ProblemOf(err)
	p.Last = &wire.LastDelivery{Result: last.Result, At: last.At}
	return p
}

// serveDeliveries serves the attempts of all timers on the admin listener.
func serveDeliveries(mux *http.ServeMux, by gate, log Deliveries) {
	if log == nil {
		log = (*deliveries.Log)(nil)
	}
	mux.Handle("GET "+deliveriesPath, by.lets(tokens.Read, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), deliveriesPatience)
		defer cancel()
		body, err := allDeliveries(ctx, log, r.URL.RawQuery)
		if err != nil {
			p, _ := wire.ProblemOf(deliveryProblem(err))
			answerProblem(w, p)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(append(body, '\n')) // an error means that the client has disconnected
	})))
}

func allDeliveries(ctx context.Context, log Deliveries, query string) ([]byte, error) {
	q, err := readDeliveries(query, "destination", "result", "since", "limit", "cursor")
	if err != nil {
		return nil, err
	}
	page, err := log.All(ctx, q)
	if err != nil {
		return nil, err
	}
	return wire.RenderDeliveries(&page)
}

// readDeliveries reads a query with the known parameters. Unknown names are refused: a misspelt filter
// would mean all attempts.
func readDeliveries(query string, known ...string) (q deliveries.Query, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, refuseQuery("query-malformed", "the query is malformed; percent-encode its values")
	}
	for name, given := range values {
		if !slices.Contains(known, name) || len(given) != 1 || given[0] == "" {
			return q, refuseQuery("query-malformed", "the query has an unknown parameter, or one that is empty or there twice; known are limit and cursor, and on the admin listener destination, result and since")
		}
	}
	q.Destination, q.Result, q.Cursor = values.Get("destination"), values.Get("result"), values.Get("cursor")
	if q.Limit, err = strconv.Atoi(cmp.Or(values.Get("limit"), strconv.Itoa(defaultPage))); err != nil || q.Limit < 1 || q.Limit > maxPage {
		return q, refuseQuery("query-malformed", "limit is no whole number from 1 to 1000; correct it, or leave it out for 100")
	}
	if text := values.Get("since"); text != "" {
		if q.Since, err = readSince(text); err != nil {
			return q, refuseQuery("query-malformed", "since is no instant as RFC 3339 has it, such as 2027-01-01T00:00:00Z, and no duration up to now, such as 90m")
		}
	}
	return q, nil
}

// readSince reads an instant, or how long ago the instant was.
func readSince(text string) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	return time.Parse(time.RFC3339, text)
}

// deliveryProblem explains the errors of the log.
func deliveryProblem(err error) error {
	switch {
	case errors.Is(err, deliveries.ErrOff):
		return wire.NewProblem(http.StatusNotFound, "deliveries-off",
			"this node keeps no log of deliveries; set CHRONOS_DELIVERIES to the number of attempts that each partition keeps, such as 1000")
	case errors.Is(err, deliveries.ErrStale):
		return wire.NewProblem(http.StatusBadRequest, "cursor-stale", "all attempts behind the cursor have left the log meanwhile; leave the cursor out to begin anew")
	case errors.Is(err, store.ErrCursor):
		return wire.NewProblem(http.StatusBadRequest, "cursor-malformed", "the cursor is none that was answered as next to the same query; leave it out to begin anew")
	}
	return err
}
