package ui

import (
	"net/http"

	"chronos/api/wire"
)

// kept is how many outcomes and how many changes to many a session remembers.
const kept = 20

// outcome is what a change did, for the page after the change.
type outcome struct {
	ID    string
	Title string
	Lines []string
	Links []link
	Tab   string
}

type link struct{ Text, Path string }

// done remembers an outcome, and leads to the outcome's page.
func (v *visit) done(o outcome) (answer, error) {
	o.ID = newHandle()
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	v.session.outcomes = append(v.session.outcomes, &o)
	if excess := len(v.session.outcomes) - kept; excess > 0 {
		v.session.outcomes = v.session.outcomes[excess:]
	}
	return answer{to: "/ui/done/" + o.ID}, nil
}

func (u *UI) outcome(v *visit) (answer, error) {
	id := v.r.PathValue("outcome")
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	for _, o := range v.session.outcomes {
		if o.ID == id {
			return answer{page: "outcome", title: o.Title, tab: o.Tab, data: o}, nil
		}
	}
	return answer{}, wire.NewProblem(http.StatusNotFound, "outcome-unknown", "the outcome of this change is no longer remembered: each login remembers the last 20; look at the timers or shards themselves")
}
