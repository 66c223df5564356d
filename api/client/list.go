package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Filter selects timers. All members that are set must apply; the zero value selects all timers.
type Filter struct {
	Key         string // or a whole id
	KeyPrefix   string
	Text        string // a part of the key or of the URI, 3 characters at least
	State       State
	Destination string // scheme, host and port of the callback
	Tag         string // the type of a tag
	// DueAfter is the first instant at which a timer may be due, DueBefore the first at which not.
	DueAfter, DueBefore time.Time
}

func (f *Filter) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{
		"key": f.Key, "key-prefix": f.KeyPrefix, "text": f.Text, "state": string(f.State), "destination": f.Destination, "tag": f.Tag,
		"due-after": instant(f.DueAfter), "due-before": instant(f.DueBefore),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func addPage(query url.Values, cursor string, limit int) {
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
}

// TimerPage is a part of a list of timers, in the order of their due times.
type TimerPage struct {
	// Timers may be fewer than the limit, or none, though more follow.
	Timers  []ListedTimer `json:"timers"`
	Next    string        `json:"next,omitempty"`    // the cursor of the next page; "" at the end
	Scanned int           `json:"scanned"`           // copies that were looked at
	Reached *time.Time    `json:"reached,omitempty"` // until when all timers were looked at; nil at the end
	// Unreached are the shards whose timers may be missing.
	Unreached []string `json:"unreached"`
}

// ListedTimer is a timer of a list, without its opaque data and headers. Interval and RepeatFor are in
// seconds, and empty where the timer has none.
type ListedTimer struct {
	ID                string         `json:"id"`
	Key               string         `json:"key"`
	State             State          `json:"state"`
	Due               time.Time      `json:"due"`
	Sequence          int            `json:"sequence"`
	Attempts          int            `json:"attempts"`
	Interval          json.Number    `json:"interval,omitempty"`
	RepeatFor         json.Number    `json:"repeat-for,omitempty"`
	Callback          ListedCallback `json:"callback"`
	Tags              []ListedTag    `json:"tags"`
	ReplicationFactor int            `json:"replication-factor"`
}

// ListedCallback is where a listed timer calls back.
type ListedCallback struct {
	HTTP struct {
		URI string `json:"uri"` // user and password are ***
	} `json:"http"`
}

// ListedTag is a tag of a listed timer.
type ListedTag struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
}

// List reads a page of timers: the first page without a cursor, 100 timers at most with limit 0, else up
// to 1,000.
func (a *Admin) List(ctx context.Context, f Filter, cursor string, limit int) (TimerPage, error) {
	query := f.query()
	addPage(query, cursor, limit)
	return ask[TimerPage](ctx, a, read("list timers", "/timers", query))
}

// Action is a change to many timers.
type Action string

// The actions.
const (
	BulkDelete Action = "delete"
	BulkFire   Action = "fire"
	BulkDelay  Action = "delay"
)

// Bulk is a change to many timers.
type Bulk struct {
	Action Action
	By     time.Duration // of BulkDelay
	Filter Filter
	All    bool // all timers; needed with an empty Filter, and refused with any other
	DryRun bool // only counts
	// Cursor is the Next of the result before.
	Cursor string
}

// BulkResult is what a call has done. One call changes some of the timers; Next goes on.
type BulkResult struct {
	Done    int           `json:"done"` // with DryRun, timers that would be changed
	Refused []BulkRefusal `json:"refused"`
	LeftOut int           `json:"left_out"` // timers that changed after the first call
	Next    string        `json:"next,omitempty"`
	Scanned int           `json:"scanned"`
	Reached *time.Time    `json:"reached,omitempty"`
	// Unreached are the shards whose timers may have had no turn.
	Unreached []string `json:"unreached"`
}

// BulkRefusal is a timer that was left as it is.
type BulkRefusal struct {
	ID     string `json:"id"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Bulk carries out one call of a change to many timers.
func (a *Admin) Bulk(ctx context.Context, b Bulk) (BulkResult, error) {
	name := string(b.Action) + " timers"
	query := b.Filter.query()
	switch {
	case b.All:
		query.Set("all", "true")
	case len(query) == 0:
		return BulkResult{}, fmt.Errorf("%s: %w", name, errNoFilter)
	}
	if b.DryRun {
		query.Set("dry-run", "true")
	}
	if b.Action == BulkDelay {
		query.Set("by", b.By.String())
	}
	addPage(query, b.Cursor, 0)
	path := withQuery("/timers/bulk/"+url.PathEscape(string(b.Action)), query)
	return ask[BulkResult](ctx, a, operation{name: name, method: http.MethodPost, path: path})
}
