package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/deadletter"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Letters are the dead letters that the admin listener shows, fires again and deletes.
// *deadletter.Letters implements Letters. The methods are safe for concurrent use and return soon
// after ctx has ended. Errors are the scheduler's errors.
type Letters interface {
	// List returns a page of letters.
	List(ctx context.Context, q store.LetterQuery) (store.LetterPage, error)
	// Letter returns the letter with the id.
	Letter(ctx context.Context, id string) (store.Letter, error)
	// Fire fires the letter again.
	Fire(ctx context.Context, id string) (timer.Receipt, error)
	// FireAll fires again some of the letters that match q.
	FireAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error)
	// Delete deletes the letter.
	Delete(ctx context.Context, id string) error
	// DeleteAll deletes some of the letters that match q.
	DeleteAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error)
}

const (
	lettersPatience = 12 * time.Second
	defaultPage     = 100
	maxPage         = 1000
)

// serveLetters serves the dead letters on the admin listener.
func serveLetters(mux *http.ServeMux, by gate, letters Letters) {
	handle := func(by gate, pattern string, need tokens.Role, do func(ctx context.Context, r *http.Request) (any, error)) {
		mux.Handle(pattern, by.lets(need, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), lettersPatience)
			defer cancel()
			view, err := do(ctx, r)
			if err != nil {
				answerProblem(w, wire.LetterProblem(err))
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			encoder := json.NewEncoder(w)
			encoder.SetEscapeHTML(false)
			_ = encoder.Encode(view) // an error means that the client has disconnected
		})))
	}
	handle(by.confining(), "GET /dead", tokens.Read, func(ctx context.Context, r *http.Request) (any, error) {
		return listLetters(ctx, r, letters)
	})
	handle(by.confining(), "GET /dead/{id}", tokens.Read, func(ctx context.Context, r *http.Request) (any, error) {
		l, err := letters.Letter(ctx, r.PathValue("id"))
		if err == nil && !strings.HasPrefix(l.Key, prefixIn(ctx)) {
			err = timer.ErrNotFound // as if the letter did not exist
		}
		return wire.ViewWholeLetter(&l), err
	})
	handle(by, "POST /dead/{id}/fire", tokens.Admin, func(ctx context.Context, r *http.Request) (any, error) {
		receipt, err := letters.Fire(ctx, r.PathValue("id"))
		return json.RawMessage(wire.RenderReceipt(&receipt, nil)), err
	})
	handle(by, "DELETE /dead/{id}", tokens.Admin, func(ctx context.Context, r *http.Request) (any, error) {
		return map[string]int{"deleted": 1}, letters.Delete(ctx, r.PathValue("id"))
	})
	handle(by, "POST /dead/fire", tokens.Admin, func(ctx context.Context, r *http.Request) (any, error) {
		return changeLetters(ctx, r, letters.FireAll, func(view *wire.LettersDone, n int) { view.Fired = n })
	})
	handle(by, "DELETE /dead", tokens.Admin, func(ctx context.Context, r *http.Request) (any, error) {
		return changeLetters(ctx, r, letters.DeleteAll, func(view *wire.LettersDone, n int) { view.Deleted = n })
	})
}

// listLetters returns a page of letters. A token with a prefix gets no total, which would count the
// letters of all.
func listLetters(ctx context.Context, r *http.Request, letters Letters) (any, error) {
	q, _, err := letterQuery(r, "limit")
	if err != nil {
		return nil, err
	}
	prefix := prefixIn(ctx)
	if err := confineLetters(&q.Filter, prefix); err != nil {
		return nil, err
	}
	page, err := letters.List(ctx, q)
	view := wire.ViewLetters(&page)
	if prefix != "" {
		view.Total = nil
	}
	return view, err
}

// changeLetters applies do to some of the letters that a request is about.
func changeLetters(ctx context.Context, r *http.Request,
	do func(context.Context, store.LetterQuery) (deadletter.Done, error), count func(*wire.LettersDone, int),
) (any, error) {
	q, all, err := letterQuery(r, "all")
	if err != nil {
		return nil, err
	}
	if all != q.Filter.IsZero() {
		return nil, badQuery("say which letters are meant: by key, key-prefix, reason, callback, since or until, or all=true for all of them, and not both")
	}
	q.Limit = maxPage
	done, err := do(ctx, q)
	if err != nil {
		return nil, err
	}
	view := wire.LettersDone{Left: done.Left, Next: done.Next, Unreached: done.Unreached}
	count(&view, done.Done)
	for _, refused := range done.Refused {
		p := wire.LetterProblem(refused.Err)
		view.Refused = append(view.Refused, wire.RefusedLetter{ID: refused.ID, Key: refused.Key, Code: p.Code, Detail: p.Detail})
	}
	return view, nil
}

func badQuery(detail string) error {
	return wire.NewProblem(http.StatusBadRequest, "query-malformed", detail)
}

// letterQuery reads which letters a request is about. Unknown names are refused: a misspelt filter
// would mean all letters.
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
