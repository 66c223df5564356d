package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// timersPage is a page of the list of timers.
type timersPage struct {
	Filter    filterForm
	Filtered  bool
	Rows      []timerRow
	Unreached []string
	Next      string // the address of the next page; "" at the end
	First     string // the address of the first page, on a later page; "" on the first
	Found     int64
	Looked    int64   // copies
	Hidden    []field // the filter
	Reached   *instant
	Short     bool // the page is short, and more timers may follow
	Change    bool // the operator may change many timers
	States    []string
}

type timerRow struct {
	ID, Version, Key string
	Broken           bool // the store has a key that no timer may have
	State            string
	Due              *instant
	Late             bool
	Callback         string
	Pop              string
	Every            string
	Attempts         int
	Tags             []string
	MoreTags         int
}

// filterForm is the filter as the operator wrote the filter.
type filterForm struct {
	Key, KeyPrefix, Text, State, Destination, Tag, DueAfter, DueBefore, Limit string
}

// named has the fields of the form by the names in the address.
func (f *filterForm) named() formFields {
	return formFields{
		{"key", &f.Key}, {"key-prefix", &f.KeyPrefix}, {"text", &f.Text}, {"state", &f.State}, {"destination", &f.Destination}, {"tag", &f.Tag},
		{"due-after", &f.DueAfter}, {"due-before", &f.DueBefore}, {"limit", &f.Limit},
	}
}

// readFilter reads a filter. Empty fields of the form count as absent.
func readFilter(values url.Values, limit int) (form filterForm, q listing.Query, err error) {
	q.Limit = limit
	for _, one := range form.named() {
		*one.at = strings.TrimSpace(values.Get(one.name))
	}
	f := &q.Filter
	f.Key, f.KeyPrefix, f.Text, f.State = form.Key, form.KeyPrefix, form.Text, listing.State(form.State)
	f.Destination, f.Tag = form.Destination, form.Tag
	if n := utf8.RuneCountInString(f.Text); n > 0 && n < listing.MinText {
		return form, q, badField("the text to search for has less than " + strconv.Itoa(listing.MinText) + " characters; give more of the text")
	}
	switch f.State {
	case "", listing.Waiting, listing.Leased, listing.Retrying:
	default:
		return form, q, badField("the state is none of waiting, leased and retrying; choose one of them, or none")
	}
	for _, bound := range []struct {
		text string
		at   *time.Time
	}{{form.DueAfter, &f.DueAfter}, {form.DueBefore, &f.DueBefore}} {
		if *bound.at, err = readInstant(bound.text); err != nil {
			return form, q, err
		}
	}
	if !f.DueAfter.IsZero() && !f.DueBefore.IsZero() && !f.DueAfter.Before(f.DueBefore) {
		return form, q, badField("due after is not earlier than due before; exchange the two times")
	}
	if form.Limit != "" {
		if q.Limit, err = strconv.Atoi(form.Limit); err != nil || q.Limit < 1 || q.Limit > maxRows {
			return form, q, badField("rows is a whole number from 1 to " + strconv.Itoa(maxRows))
		}
	}
	return form, q, nil
}

// readInstant reads a time as RFC 3339 has times, or as a field for times of a browser has them, in UTC.
func readInstant(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, badField("a time is written as 2027-01-31T12:00:00Z, or as 2027-01-31 12:00 for UTC; correct the time")
}

func (u *UI) timers(v *visit) (answer, error) {
	values := v.r.URL.Query()
	form, q, err := readFilter(values, maxRows)
	if err != nil {
		return answer{}, err
	}
	q.Cursor = values.Get("cursor")
	page, err := u.Lister.List(v.ctx, q)
	if err != nil {
		return answer{}, explain(err, listProblem)
	}
	view := timersPage{
		Filter: form, Filtered: !q.Filter.IsZero(), Unreached: page.Unreached, Found: int64(len(page.Timers)), Looked: int64(page.Scanned), Reached: at(page.Reached, v.now),
		Short: page.Next != "" && len(page.Timers) < q.Limit, Change: v.may(tokens.Admin),
		States: []string{string(listing.Waiting), string(listing.Leased), string(listing.Retrying)},
	}
	for i := range page.Timers[:min(len(page.Timers), maxRows)] {
		view.Rows = append(view.Rows, rowOf(&page.Timers[i], v.now))
	}
	address := form.named().query()
	view.Hidden = form.named().hidden()
	if q.Cursor != "" {
		view.First = "/ui/timers?" + address.Encode()
	}
	if page.Next != "" {
		address.Set("cursor", page.Next)
		view.Next = "/ui/timers?" + address.Encode()
	}
	return answer{page: "timers", title: "Timers", tab: "Timers", data: view}, nil
}

func rowOf(t *listing.Timer, now time.Time) timerRow {
	const mostTags = 3
	row := timerRow{
		ID: t.ID.String(), Version: t.Version.Written().String(), Key: t.ID.Key, State: string(t.State), Due: at(t.Due, now), Late: t.State != listing.Leased && t.Due.Before(now.Add(-time.Second)),
		Callback: shownURI(&t.Timer.Callback), Attempts: t.Attempts, Pop: number(int64(t.Sequence)),
	}
	if _, err := timer.ParseID(row.ID); err != nil {
		row.ID, row.Broken = "", true
	}
	if pops := t.Timer.Pops(); pops > 1 {
		row.Pop += " of " + number(int64(pops))
		row.Every = "every " + brief(t.Timer.Interval)
	}
	for i, tag := range t.Timer.Tags {
		if i == mostTags {
			row.MoreTags = len(t.Timer.Tags) - i
			break
		}
		row.Tags = append(row.Tags, tag.Type)
	}
	return row
}

// listProblem explains an error of a listing.
func listProblem(err error) wire.Problem {
	switch {
	case errors.Is(err, store.ErrCursor):
		return wire.NewProblem(http.StatusBadRequest, "cursor-malformed", "the address of this page of the list is damaged; begin at the first page")
	case errors.Is(err, listing.ErrStale):
		return wire.NewProblem(http.StatusConflict, "cursor-stale", "the topology has changed since the page before, and timers may have moved past this page; begin at the first page")
	case errors.Is(err, listing.ErrBusy):
		p := wire.NewProblem(http.StatusTooManyRequests, "listing-busy", "this node makes as many lists at once as it may; wait a second, and load the page again")
		p.RetryAfter = timer.RetryAfter
		return p
	}
	p, known := wire.ProblemOf(err)
	if known && p.Code == "store-unavailable" {
		p.Detail = "no shard has answered in time, so nothing is known of the timers; look at the cluster, and load the page again later"
	}
	return p
}
