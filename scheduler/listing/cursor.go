package listing

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Errors of a listing.
var (
	// ErrStale says that the shards have changed since the page of the cursor: timers may have moved past the
	// cursor, since clocks of shards differ.
	ErrStale = errors.New("cursor of another topology")
	// ErrBusy says that this node asks the shards for as many lists as it may.
	ErrBusy = errors.New("too many lists at once")
)

// cursor is where the next page begins.
type cursor struct {
	AtMs   int64  `json:"a"`
	Key    []byte `json:"k,omitempty"` // somebody may have put any key into a Redis
	View   string `json:"v"`           // of the placement of timers
	Filter string `json:"f"`           // a hash
	// Begun is a version above every write before a change to many timers began; 0 in a list's cursors.
	Begun timer.Version `json:"b,omitempty"`
}

// hashOf tells filters apart.
func hashOf(f *Filter) string {
	text, err := json.Marshal(f)
	if err != nil {
		return "" // the fields of a filter can all be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// cursorOf is the text of the cursor behind a place.
func cursorOf(place store.Place, view string, f *Filter, begun timer.Version) string {
	key := place.Key
	if len(key) > timer.MaxKeyLength { // no timer's key is between the place and this place
		key = key[:timer.MaxKeyLength] + "\xff"
	}
	text, err := json.Marshal(cursor{place.At.UnixMilli(), []byte(key), view, hashOf(f), begun})
	if err != nil {
		return "" // the fields of a cursor can all be marshalled
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// maxCursor is the greatest length of a cursor.
const maxCursor = 512

// readCursor is the place behind which a page begins, and when the change of the cursor began. Errors: store.ErrCursor for a cursor that no page of the
// filter has answered; ErrStale for another view.
func readCursor(text, view string, f *Filter) (store.Place, timer.Version, error) {
	var c cursor
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(text) > maxCursor || json.Unmarshal(raw, &c) != nil || c.Filter != hashOf(f) {
		return store.Place{}, 0, store.ErrCursor
	}
	if c.View != view {
		return store.Place{}, 0, ErrStale
	}
	return store.Place{At: time.UnixMilli(c.AtMs).UTC(), Key: string(c.Key)}, c.Begun, nil
}
