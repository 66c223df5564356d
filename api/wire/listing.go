package wire

import (
	"encoding/json"

	"chronos/scheduler/listing"
)

type (
	// ListingView is a page of timers.
	ListingView struct {
		Timers  []listedView `json:"timers"`
		Next    string       `json:"next,omitempty"` // the cursor of the next page; absent at the end
		Scanned int          `json:"scanned"`        // copies
		// Reached is until when all timers were looked at; absent at the end.
		Reached   *string  `json:"reached,omitempty"`
		Unreached []string `json:"unreached"` // shards whose timers may be missing
	}
	// listedView is a timer of a list. The opaque is left out, and so are the headers.
	listedView struct {
		ID                string          `json:"id"`
		Key               string          `json:"key"`
		State             string          `json:"state"`
		Due               string          `json:"due"`
		Sequence          int             `json:"sequence"`
		Attempts          int             `json:"attempts"`
		Interval          json.RawMessage `json:"interval,omitempty"`   // absent with an instant, unless the timer recurs
		RepeatFor         json.RawMessage `json:"repeat-for,omitempty"` // absent for a single pop
		Callback          listedCallback  `json:"callback"`
		Tags              []tagView       `json:"tags"`
		ReplicationFactor int             `json:"replication-factor"`
	}
	listedCallback struct {
		HTTP listedHTTP `json:"http"`
	}
	listedHTTP struct {
		URI string `json:"uri"`
	}
)

// ViewListing makes the view of a page of timers.
func ViewListing(page *listing.Page) ListingView {
	view := ListingView{
		Timers: make([]listedView, len(page.Timers)), Next: page.Next, Scanned: page.Scanned, Reached: instantOrNull(page.Reached), Unreached: listed(page.Unreached),
	}
	for i := range page.Timers {
		view.Timers[i] = viewListed(&page.Timers[i])
	}
	return view
}

func viewListed(l *listing.Timer) listedView {
	t := &l.Timer
	timing := viewTiming(t)
	view := listedView{
		ID: l.ID.String(), Key: l.ID.Key, State: string(l.State), Due: formatInstant(l.Due), Sequence: l.Sequence, Attempts: l.Attempts,
		Interval: timing.Interval, RepeatFor: timing.RepeatFor, Callback: listedCallback{listedHTTP{t.Callback.Redacted()}},
		Tags: make([]tagView, len(t.Tags)), ReplicationFactor: t.ReplicationFactor,
	}
	for i, tag := range t.Tags {
		view.Tags[i] = tagView(tag)
	}
	return view
}

// RenderListing is the body of the answer with a page of timers.
func RenderListing(page *listing.Page) ([]byte, error) { return marshal(ViewListing(page)) }
