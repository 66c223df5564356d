package ui

import (
	"context"
	"net/url"

	"chronos/api/wire"
	"chronos/scheduler/deadletter"
	"chronos/scheduler/store"
)

// manyLetters is a change to all dead letters that a filter picks.
type manyLetters struct {
	letters Letters
	form    letterForm
	filter  store.LetterFilter
	fires   bool // otherwise deletes
}

func (m *manyLetters) words() jobWords {
	w := jobWords{
		verb: "delete", done: "deleted", one: "dead letter", many: "dead letters", danger: true, tab: "Dead letters", back: "/ui/dead",
		warning: "The callbacks of deleted letters are never made. Deleted letters do not come back.",
	}
	if m.fires {
		w.verb, w.done, w.danger = "fire", "fired again", false
		w.warning = "A timer is made for each letter, and is due at once: at most 500 timers a second. The receivers should be back by now."
	}
	w.about(m.form.named(), "none: all dead letters")
	if query := m.form.named().query().Encode(); query != "" {
		w.back += "?" + query
	}
	return w
}

// count counts letters without a change.
func (m *manyLetters) count(ctx context.Context, cursor string) (tally, error) {
	page, err := m.letters.List(ctx, store.LetterQuery{Filter: m.filter, Cursor: cursor, Limit: perStep})
	if err != nil {
		return tally{}, err
	}
	return tally{done: len(page.Letters), scanned: len(page.Letters), next: page.Next, unreached: page.Unreached}, nil
}

// change changes as many letters as one call of the engine does. The filter ends at the time of the count,
// so that no letter is changed that was not counted.
func (m *manyLetters) change(ctx context.Context, cursor string, most int) (tally, error) {
	do := m.letters.DeleteAll
	if m.fires {
		do = m.letters.FireAll
	}
	done, err := do(ctx, store.LetterQuery{Filter: m.filter, Cursor: cursor, Limit: most})
	if err != nil {
		return tally{}, err
	}
	t := tally{done: done.Done, next: done.Next, unreached: done.Unreached}
	for _, r := range done.Refused {
		t.refused = append(t.refused, refusalOf(&r))
	}
	return t, nil
}

func refusalOf(r *deadletter.Refused) refusal {
	return refusal{r.Key, "/ui/dead/" + url.PathEscape(r.ID), sentence(wire.LetterProblem(r.Err).Detail)}
}

func (*manyLetters) explain(err error) wire.Problem { return wire.LetterProblem(err) }
