package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"chronos/api/tokens"
	"chronos/api/transport"
	"chronos/api/wire"
	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Lister finds timers among all timers. A Lister is safe for concurrent use and returns soon after ctx
// has ended.
type Lister interface {
	// List returns a page of timers. Errors: store.ErrCursor, listing.ErrStale, listing.ErrBusy,
	// *timer.InvalidError for a destination that is none, timer.ErrUnavailable if no shard answers.
	List(ctx context.Context, q listing.Query) (listing.Page, error)
}

const (
	// listPatience is how long a listing may take.
	listPatience = 3 * time.Second
	// listedRoom is about how many bytes a timer takes in a list.
	listedRoom = 1 << 10
	// maxText is the longest text that a parameter of a listing may have, in bytes.
	maxText = 2048
)

// Parameters of a listing.
const (
	keyParameter         = "key"
	keyPrefixParameter   = "key-prefix"
	textParameter        = "text"
	stateParameter       = "state"
	destinationParameter = "destination"
	tagParameter         = "tag"
	dueAfterParameter    = "due-after"
	dueBeforeParameter   = "due-before"
	limitParameter       = "limit"
	cursorParameter      = "cursor"
)

// listingParameters are the parameters of a listing.
func listingParameters() []string {
	return []string{
		keyParameter, keyPrefixParameter, textParameter, stateParameter, destinationParameter, tagParameter,
		dueAfterParameter, dueBeforeParameter, limitParameter, cursorParameter,
	}
}

// collection answers a GET of all timers: a listing, or a resynchronisation if the query names a shard.
func (s *Server) collection(c *fiber.Ctx) error {
	if s.lister == nil || asksForReplicas(c.Request().URI()) {
		return s.resync(c)
	}
	q, err := readListing(string(c.Request().URI().QueryString()), prefixOf(c.Context()))
	if err != nil {
		return err
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), q.Limit*listedRoom); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), listPatience)
	defer cancel()
	page, err := s.lister.List(ctx, q)
	if err != nil {
		return listingProblem(err)
	}
	body, err := wire.RenderListing(&page)
	if err != nil {
		return err
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), len(body)); err != nil {
		return err
	}
	c.Set(fasthttp.HeaderCacheControl, "no-store")
	return answerJSON(c, body)
}

// asksForReplicas reports whether a GET of all timers is a resynchronisation.
func asksForReplicas(uri *fasthttp.URI) bool { return uri.QueryArgs().Has(nodeParameter) }

// refuseMixture refuses a resynchronisation with a parameter of a listing.
func refuseMixture(args *fasthttp.Args) error {
	for _, name := range listingParameters() {
		if args.Has(name) {
			return refuseQuery("listing-mixed", "node-for-replicas and "+name+" do not go together; leave out node-for-replicas to list timers, or "+name+" to resynchronise a shard")
		}
	}
	return nil
}

// serveCollection serves listings and resynchronisation on the admin listener; resync and all may be nil.
func serveCollection(mux *http.ServeMux, by gate, resync http.Handler, all Lister) {
	list := by.confining().lets(tokens.List, by.answering(listPatience, listingProblem, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		q, err := readListing(r.URL.RawQuery, prefixIn(r.Context()))
		if err != nil {
			return nil, err
		}
		page, err := all.List(r.Context(), q)
		return wire.ViewListing(&page), err
	}))
	switch {
	case resync == nil && all == nil:
		return
	case resync == nil:
		resync = list
	default:
		resync = by.lets(tokens.Admin, resync)
		mux.Handle("DELETE "+referencesPath, resync)
	}
	for _, path := range []string{collectionPath, itemPrefix + "{$}"} {
		mux.Handle("GET "+path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var uri fasthttp.URI
			uri.Update(reference(r.URL))
			if all == nil || asksForReplicas(&uri) {
				resync.ServeHTTP(w, r)
				return
			}
			list.ServeHTTP(w, r)
		}))
	}
}

// readListing reads which page of timers is asked for, and limits the page to a prefix; "" for none.
func readListing(query, prefix string) (q listing.Query, err error) {
	if err := refuseResyncParameters(query); err != nil {
		return q, err
	}
	values, err := readQuery(query, listingParameters()...)
	if err != nil {
		return q, err
	}
	if q, err = listingQuery(values, defaultPage); err != nil {
		return q, err
	}
	return q, confineListing(&q.Filter, prefix)
}

// refuseResyncParameters tells a client that resynchronises what the query lacks.
func refuseResyncParameters(query string) error {
	values, _ := url.ParseQuery(strings.ReplaceAll(query, ";", "&")) // readQuery refuses a malformed query
	for _, name := range []string{viewParameter, fromParameter, afterParameter} {
		if values.Has(name) {
			return refuseQuery(nodeParameter, name+" is a parameter of a resynchronisation, and node-for-replicas is missing; give the name of a shard, or leave "+name+" out to list timers")
		}
	}
	return nil
}

// listingQuery makes a query of checked values.
func listingQuery(values url.Values, limit int) (q listing.Query, err error) {
	f := &q.Filter
	f.KeyPrefix, f.Text, f.Destination, f.Tag = values.Get(keyPrefixParameter), values.Get(textParameter), values.Get(destinationParameter), values.Get(tagParameter)
	f.State, q.Cursor = listing.State(values.Get(stateParameter)), values.Get(cursorParameter)
	for _, name := range listingParameters() {
		if len(values.Get(name)) > maxText {
			return q, refuseQuery("parameter-long", name+" is longer than "+strconv.Itoa(maxText)+" bytes; shorten the value, or leave the parameter out")
		}
	}
	if text := values.Get(keyParameter); text != "" {
		id, err := parseID(text) // a whole id will do
		if err != nil {
			return q, err
		}
		f.Key = id.Key
	}
	if q.Limit, err = readWhole(values, limitParameter, "limit-range", limit, listing.MaxLimit); err != nil {
		return q, err
	}
	if f.DueAfter, err = readInstant(values, dueAfterParameter, "due-malformed"); err != nil {
		return q, err
	}
	if f.DueBefore, err = readInstant(values, dueBeforeParameter, "due-malformed"); err != nil {
		return q, err
	}
	return q, checkFilter(f)
}

func checkFilter(f *listing.Filter) error {
	states := []listing.State{"", listing.Waiting, listing.Leased, listing.Retrying}
	switch {
	case !f.DueAfter.IsZero() && !f.DueBefore.IsZero() && !f.DueAfter.Before(f.DueBefore):
		return refuseQuery("due-reversed", "due-before is not later than due-after; exchange the two, or leave one out")
	case !slices.Contains(states, f.State):
		return refuseQuery("state-unknown", "state is none of waiting, leased and retrying; give one of these, or leave it out for all")
	case f.Destination != "" && !isDestination(f.Destination):
		return refuseQuery("destination-malformed", "destination is not scheme, host and port of callbacks; give http or https, such as https://api.example.com or http://10.0.0.7:8080, without user, path and query")
	case f.Text != "" && utf8.RuneCountInString(f.Text) < listing.MinText:
		return refuseQuery("text-short", "text is shorter than "+strconv.Itoa(listing.MinText)+" characters; give a longer part of the key or of the URI")
	}
	return nil
}

// isDestination reports whether a text looks like a destination. The engine fills in the port.
func isDestination(text string) bool {
	scheme, host, is := strings.Cut(text, "://")
	plain := func(r rune) bool { return r > ' ' && r < 0x7f && !strings.ContainsRune(`@?#\/`, r) }
	return is && host != "" && len(text) <= store.MaxDestination && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) &&
		!strings.ContainsFunc(host, func(r rune) bool { return !plain(r) })
}

// listingProblem explains the errors of a listing.
func listingProblem(err error) error {
	switch {
	case errors.Is(err, store.ErrCursor):
		return refuseQuery("cursor-malformed", "the cursor is none that was answered as next to the same query; leave it out to begin anew")
	case errors.Is(err, listing.ErrStale):
		return refuseQuery("cursor-stale", "the topology has changed since the cursor was answered; leave the cursor out to begin anew")
	case errors.Is(err, listing.ErrBusy):
		p := wire.NewProblem(http.StatusTooManyRequests, "listing-busy", "this node carries out as many listings at once as it may; send the request again later")
		p.RetryAfter = timer.RetryAfter
		return p
	}
	p, known := wire.ProblemOf(withoutPointer(err))
	if !known {
		return err
	}
	if p.Code == "store-unavailable" {
		p.Detail = "no Redis instance answered in time, so no timers are shown; send the request again later"
	}
	return p
}
