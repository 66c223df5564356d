package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// LetterFilter selects dead letters. All members that are set must apply.
type LetterFilter struct {
	Key       string // of the timer
	KeyPrefix string
	Reason    string // a part of the reason
	Callback  string // a host, with or without the port, or the begin of the URL
	// Since is the first instant of a letter, Until the last.
	Since, Until time.Time
}

func (f *LetterFilter) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{
		"key": f.Key, "key-prefix": f.KeyPrefix, "reason": f.Reason, "callback": f.Callback, "since": instant(f.Since), "until": instant(f.Until),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// Letter is a pop that chronos gave up.
type Letter struct {
	ID        string    `json:"id"`
	Key       string    `json:"key,omitempty"` // of the timer
	At        time.Time `json:"at"`            // when chronos gave up the pop
	Reason    string    `json:"reason,omitempty"`
	Shard     string    `json:"shard"`
	Sequence  int       `json:"sequence,omitempty"` // of the pop
	Attempts  int       `json:"attempts,omitempty"`
	WebhookID string    `json:"webhook-id,omitempty"` // of the callbacks that failed
	Callback  string    `json:"callback,omitempty"`   // user and password are ***
	// Problem says why the letter can't be read, and so not be fired again.
	Problem string `json:"problem,omitempty"`
	// Timer is the timer as JSON, and Text the stored text of an unreadable letter. A list has neither.
	Timer json.RawMessage `json:"timer,omitempty"`
	Text  string          `json:"text,omitempty"`
}

// LetterPage is a part of the dead letters, the newest first.
type LetterPage struct {
	Letters []Letter `json:"letters"`
	Next    string   `json:"next,omitempty"` // the cursor of the next page; "" at the end
	// Total counts all letters, not only those that match; nil with a token that has a prefix.
	Total     *int64   `json:"total,omitempty"`
	Unreached []string `json:"unreached,omitempty"` // shards whose letters are missing
}

// Letters reads a page of dead letters: 100 with limit 0, else up to 1,000.
func (a *Admin) Letters(ctx context.Context, f LetterFilter, cursor string, limit int) (LetterPage, error) {
	query := f.query()
	addPage(query, cursor, limit)
	return ask[LetterPage](ctx, a, read("list dead letters", "/dead", query))
}

// Letter reads a dead letter, with its timer.
func (a *Admin) Letter(ctx context.Context, id string) (Letter, error) {
	path, err := named("show dead letter", "/dead/", id)
	if err != nil {
		return Letter{}, err
	}
	return ask[Letter](ctx, a, read("show dead letter", path, nil))
}

// FireLetter has a dead letter called back again.
func (a *Admin) FireLetter(ctx context.Context, id string) (Receipt, error) {
	path, err := named("fire dead letter", "/dead/", id)
	if err != nil {
		return Receipt{}, err
	}
	return a.c.store(ctx, &operation{name: "fire dead letter", method: http.MethodPost, path: path + "/fire"})
}

// DeleteLetter deletes a dead letter.
func (a *Admin) DeleteLetter(ctx context.Context, id string) error {
	path, err := named("delete dead letter", "/dead/", id)
	if err != nil {
		return err
	}
	_, err = a.c.do(ctx, &operation{name: "delete dead letter", method: http.MethodDelete, path: path}, http.StatusOK)
	return err
}

// LettersDone is what a call has done to many dead letters. Next goes on.
type LettersDone struct {
	Fired   int             `json:"fired,omitempty"`
	Deleted int             `json:"deleted,omitempty"`
	Refused []LetterRefusal `json:"refused,omitempty"`
	// Left is the number of all letters that remain.
	Left      int64    `json:"left"`
	Next      string   `json:"next,omitempty"`
	Unreached []string `json:"unreached,omitempty"`
}

// LetterRefusal is a dead letter that was left as it is.
type LetterRefusal struct {
	ID     string `json:"id"`
	Key    string `json:"key,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// FireLetters fires again some of the dead letters that match, or with all and an empty filter some of
// all letters.
func (a *Admin) FireLetters(ctx context.Context, f LetterFilter, all bool, cursor string) (LettersDone, error) {
	return a.changeLetters(ctx, operation{name: "fire dead letters", method: http.MethodPost, path: "/dead/fire"}, f, all, cursor)
}

// DeleteLetters deletes some of the dead letters that match, as FireLetters selects them.
func (a *Admin) DeleteLetters(ctx context.Context, f LetterFilter, all bool, cursor string) (LettersDone, error) {
	return a.changeLetters(ctx, operation{name: "delete dead letters", method: http.MethodDelete, path: "/dead"}, f, all, cursor)
}

func (a *Admin) changeLetters(ctx context.Context, op operation, f LetterFilter, all bool, cursor string) (LettersDone, error) {
	query := f.query()
	switch {
	case all:
		query.Set("all", "true")
	case len(query) == 0:
		return LettersDone{}, fmt.Errorf("%s: %w", op.name, errNoFilter)
	}
	addPage(query, cursor, 0)
	op.path = withQuery(op.path, query)
	return ask[LettersDone](ctx, a, op)
}

// LetterGroups are dead letters by destination and reason.
type LetterGroups struct {
	Groups    []LetterGroup `json:"groups"`
	LookedAt  int           `json:"looked_at"` // letters
	Complete  bool          `json:"complete"`  // all letters were looked at
	Unreached []string      `json:"unreached"` // shards whose letters are missing
}

// LetterGroup are the dead letters of a destination and a reason.
type LetterGroup struct {
	Destination *string    `json:"destination"` // nil for letters that can't be read
	Reason      string     `json:"reason"`
	Count       int        `json:"count"`
	Oldest      *time.Time `json:"oldest"`
	Newest      *time.Time `json:"newest"`
}

// LetterGroups sums up the newest dead letters.
func (a *Admin) LetterGroups(ctx context.Context) (LetterGroups, error) {
	return ask[LetterGroups](ctx, a, read("group dead letters", "/dead/groups", nil))
}
