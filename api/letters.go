package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/api/tokens"
	"chronos/scheduler/deadletter"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Letters are the dead letters that the admin listener shows, and has fired again
// and deleted; *deadletter.Letters are they. Its methods are safe for concurrent use
// and return soon after ctx has ended. Errors are those of the scheduler.
type Letters interface {
	// List is a page of them.
	List(ctx context.Context, q store.LetterQuery) (store.LetterPage, error)
	// Letter is one of them.
	Letter(ctx context.Context, id string) (store.Letter, error)
	// Fire fires one again.
	Fire(ctx context.Context, id string) (timer.Receipt, error)
	// FireAll fires again some of those that q asks for.
	FireAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error)
	// Delete deletes one.
	Delete(ctx context.Context, id string) error
	// DeleteAll deletes some of those that q asks for.
	DeleteAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error)
}

// LettersView is a page of dead letters, the newest first.
type LettersView struct {
	Letters []LetterView `json:"letters"`
	// Next is the cursor of the next page, "" at the end: a page may be short, or
	// empty, though there are more.
	Next      string   `json:"next,omitempty"`
	Total     int64    `json:"total"`               // that there are, whatever was asked for
	Unreached []string `json:"unreached,omitempty"` // shards whose letters are missing in all this
}

// LetterView is one dead letter.
type LetterView struct {
	ID        string `json:"id"`
	Key       string `json:"key,omitempty"` // of the timer
	At        string `json:"at"`            // when it was given up
	Reason    string `json:"reason,omitempty"`
	Shard     string `json:"shard"`
	Sequence  int    `json:"sequence,omitempty"` // of the pop
	Attempts  int    `json:"attempts,omitempty"`
	WebhookID string `json:"webhook-id,omitempty"` // of the callbacks that failed
	Callback  string `json:"callback,omitempty"`   // user and password are ***
	// Problem says why it can't be read, and so not be fired again; "" if it can.
	Problem string `json:"problem,omitempty"`
	// Timer is what the client asked for, and Text what is stored of a letter that
	// can't be read. A list has neither.
	Timer *LetterTimer `json:"timer,omitempty"`
	Text  string       `json:"text,omitempty"`
}

// LetterTimer is the timer of a dead letter, as GET /timers/<id> has it.
type LetterTimer struct {
	Timing      timingView      `json:"timing"`
	Callback    callbackView    `json:"callback"`
	Reliability reliabilityView `json:"reliability"`
	Statistics  *statisticsView `json:"statistics,omitempty"`
}

// LettersDone is what came of some dead letters.
type LettersDone struct {
	Fired   int             `json:"fired,omitempty"`
	Deleted int             `json:"deleted,omitempty"`
	Refused []RefusedLetter `json:"refused,omitempty"`
	// Left are the letters that there are still, whatever was asked for.
	Left int64 `json:"left"`
	// Next is the cursor for the same request about those that follow, "" if all have
	// had their turn.
	Next      string   `json:"next,omitempty"`
	Unreached []string `json:"unreached,omitempty"`
}

// RefusedLetter is one that could not be fired, or not be removed.
type RefusedLetter struct {
	ID     string `json:"id"`
	Key    string `json:"key,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

const (
	lettersPatience = 12 * time.Second
	defaultPage     = 100
	maxPage         = 1000
)

// serveLetters has the admin listener answer for the dead letters.
func serveLetters(mux *http.ServeMux, by gate, letters Letters) {
	handle := func(pattern string, need tokens.Role, do func(ctx context.Context, r *http.Request) (any, error)) {
		mux.Handle(pattern, by.lets(need, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), lettersPatience)
			defer cancel()
			view, err := do(ctx, r)
			if err != nil {
				letterProblem(err).writeTo(w)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			encoder := json.NewEncoder(w)
			encoder.SetEscapeHTML(false)
			_ = encoder.Encode(view) // the client has gone if it fails
		})))
	}
	handle("GET /dead", tokens.Read, func(ctx context.Context, r *http.Request) (any, error) {
		q, _, err := letterQuery(r, "limit")
		if err != nil {
			return nil, err
		}
		page, err := letters.List(ctx, q)
		return viewLetters(&page), err
	})
	handle("GET /dead/{id}", tokens.Read, func(ctx context.Context, r *http.Request) (any, error) {
		l, err := letters.Letter(ctx, r.PathValue("id"))
		return viewWholeLetter(&l), err
	})
	handle("POST /dead/{id}/fire", tokens.Admin, func(ctx context.Context, r *http.Request) (any, error) {
		receipt, err := letters.Fire(ctx, r.PathValue("id"))
		return json.RawMessage(append(appendReceipt(nil, &receipt), '}')), err
	})
	handle("DELETE /dead/{id}", tokens.Admin, func(ctx context.Context, r *http.Request) (any, error) {
		return map[string]int{"deleted": 1}, letters.Delete(ctx, r.PathValue("id"))
	})
	handle("POST /dead/fire", tokens.Admin, func(ctx context.Context, r *http.Request) (any, error) {
		return changeLetters(ctx, r, letters.FireAll, func(view *LettersDone, n int) { view.Fired = n })
	})
	handle("DELETE /dead", tokens.Admin, func(ctx context.Context, r *http.Request) (any, error) {
		return changeLetters(ctx, r, letters.DeleteAll, func(view *LettersDone, n int) { view.Deleted = n })
	})
}

// changeLetters does something with some of the letters that a request is about.
func changeLetters(ctx context.Context, r *http.Request,
	do func(context.Context, store.LetterQuery) (deadletter.Done, error), count func(*LettersDone, int),
) (any, error) {
	q, all, err := letterQuery(r, "all")
	if err != nil {
		return nil, err
	}
	if all != q.Filter.IsZero() {
		return nil, badQuery("say which letters are meant: by key, key-prefix, reason, callback, since or until, or all=true for all of them, and not both")
	}
	done, err := do(ctx, q)
	if err != nil {
		return nil, err
	}
	view := LettersDone{Left: done.Left, Next: done.Next, Unreached: done.Unreached}
	count(&view, done.Done)
	for _, refused := range done.Refused {
		p := letterProblem(refused.Err)
		view.Refused = append(view.Refused, RefusedLetter{ID: refused.ID, Key: refused.Key, Code: p.Code, Detail: p.Detail})
	}
	return view, nil
}

func badQuery(detail string) error {
	return &problemError{newProblem(http.StatusBadRequest, "query-malformed", detail)}
}

// letterQuery reads which letters a request is about. What it doesn't know is
// refused: a filter with a slip in its name would mean all letters.
func letterQuery(r *http.Request, more string) (q store.LetterQuery, all bool, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, false, badQuery("the query is malformed; percent-encode what stands in it")
	}
	known := []string{"key", "key-prefix", "reason", "callback", "since", "until", "cursor", more}
	for name, given := range values {
		if !slices.Contains(known, name) || len(given) != 1 || given[0] == "" {
			return q, false, badQuery("the query knows " + strings.Join(known, ", ") + ", each once and not empty")
		}
	}
	f := &q.Filter
	f.Key, f.KeyPrefix, f.Reason, f.Callback = values.Get("key"), values.Get("key-prefix"), values.Get("reason"), values.Get("callback")
	q.Cursor, q.Limit = values.Get("cursor"), defaultPage
	for name, at := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if text := values.Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return q, false, badQuery(name + " is an instant as RFC 3339 has it, such as 2027-01-01T00:00:00Z")
			}
		}
	}
	if text := values.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxPage {
			return q, false, badQuery("limit is a whole number from 1 to " + strconv.Itoa(maxPage))
		}
	}
	if text := values.Get("all"); text != "" && text != "true" {
		return q, false, badQuery("all is true, or left out")
	}
	return q, values.Get("all") == "true", nil
}

func viewLetters(page *store.LetterPage) LettersView {
	view := LettersView{Letters: make([]LetterView, len(page.Letters)), Next: page.Next, Total: page.Total, Unreached: page.Unreached}
	for i := range page.Letters {
		view.Letters[i] = viewLetter(&page.Letters[i])
	}
	return view
}

func viewLetter(l *store.Letter) LetterView {
	view := LetterView{ID: l.ID, Key: l.Key, At: formatInstant(l.At), Reason: l.Reason, Shard: l.Shard}
	if l.Err != nil {
		view.Problem = l.Err.Error()
		return view
	}
	state := l.Record.State
	view.Sequence, view.Attempts, view.Callback = state.Seq, state.Attempt, l.Record.Timer.Callback.Redacted()
	view.WebhookID = l.Key + "." + state.Version.String() + "." + strconv.Itoa(state.Seq)
	return view
}

// userOf finds user and password of URLs in a text.
var userOf = regexp.MustCompile(`(?i)(https?:\\?/\\?/)[^/?#"\s]*@`)

func viewWholeLetter(l *store.Letter) LetterView {
	view := viewLetter(l)
	if l.Err != nil {
		view.Text = userOf.ReplaceAllString(l.Text, "$1"+timer.RedactedUser+"@")
		return view
	}
	t := &l.Record.Timer
	view.Timer = &LetterTimer{
		Timing: viewTiming(t), Reliability: reliabilityView{t.ReplicationFactor}, Statistics: viewTags(t.Tags),
		Callback: callbackView{httpView{URI: t.Callback.Redacted(), Opaque: t.Callback.Opaque}},
	}
	return view
}

// letterProblem says how a client is told of err.
func letterProblem(err error) problem {
	var refused *timer.InvalidError
	switch {
	case errors.Is(err, timer.ErrNotFound):
		return newProblem(http.StatusNotFound, "letter-not-found", "there is no such dead letter; it was fired again, deleted, or is over CHRONOS_DEAD_RETENTION old: list them")
	case errors.Is(err, store.ErrCursor):
		return newProblem(http.StatusBadRequest, "cursor-malformed", "the cursor is none that was answered as next; leave it out to begin anew")
	case errors.Is(err, timer.ErrSuperseded):
		return newProblem(http.StatusConflict, "letter-superseded", "a timer with this key was set, replaced or deleted since this one was given up, and is there or was until 2 minutes ago; delete the letter, or try again when that timer is over")
	case errors.Is(err, store.ErrUnreadable):
		return newProblem(http.StatusConflict, "letter-unreadable", printable(err.Error())+"; look at its text, and delete it")
	case errors.As(err, &refused):
		return newProblem(http.StatusConflict, refused.Code, "a timer like this is refused now: "+refused.Detail)
	}
	p, known := problemOf(err)
	if known && p.Code == "store-unavailable" {
		p.Detail = "not all Redis instances that it takes could be reached in time; try again later: a letter that was fired meanwhile is fired as the same timer, with the same webhook-id"
	}
	return p
}
