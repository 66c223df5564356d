package ui

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"chronos/api/wire"
	"chronos/scheduler/listing"
	"chronos/scheduler/timer"
)

// timerAction is a change of timers that a form asks for.
type timerAction struct {
	action listing.Action
	by     time.Duration // of a delay
}

func readTimerAction(v *visit) (a timerAction, err error) {
	a.action = listing.Action(v.r.PostForm.Get("action"))
	switch a.action {
	case listing.Delete, listing.Fire:
	case listing.Delay:
		a.by, err = delayOf(v.r.PostForm.Get("by"))
	default:
		err = unknownAction()
	}
	return a, err
}

func (a timerAction) words() jobWords {
	w := jobWords{one: "timer", many: "timers", tab: "Timers", back: "/ui/timers"}
	switch a.action {
	case listing.Delete:
		w.verb, w.done, w.danger, w.warning = "delete", "deleted", true, "Deleted timers do not come back."
	case listing.Fire:
		w.verb, w.done, w.warning = "fire", "fired", "The next pop of each timer is called back at once: at most 500 timers a second."
	case listing.Delay:
		w.verb, w.done, w.warning = "delay", "delayed", "The next pop of each timer, and the pops behind, come "+brief(a.by)+" later."
	}
	return w
}

// matching is a change to all timers that a filter picks.
type matching struct {
	timerAction
	lister Lister
	form   filterForm
	query  listing.Query
}

// matchTimers begins a change to all timers that match.
func (u *UI) matchTimers(v *visit) (answer, error) {
	action, err := readTimerAction(v)
	if err != nil {
		return answer{}, err
	}
	form, q, err := readFilter(v.r.PostForm, perStep)
	if err != nil {
		return answer{}, err
	}
	q.Limit = perStep
	form.Limit = ""
	if q.Filter.IsZero() && v.r.PostForm.Get("all") != "true" {
		return answer{}, badField("no filter is set, so all timers of the cluster are meant; tick the box that says so, or set a filter")
	}
	return u.begin(v, &matching{action, u.Lister, form, q})
}

func (m *matching) words() jobWords {
	w := m.timerAction.words()
	w.about(m.form.named(), "none: all timers of the cluster")
	if query := m.form.named().query().Encode(); query != "" {
		w.back += "?" + query
	}
	return w
}

func (m *matching) bulk(ctx context.Context, cursor string, most int, dry bool) (tally, error) {
	q := m.query
	q.Cursor, q.Limit = cursor, most
	done, err := m.lister.Bulk(ctx, listing.Bulk{Query: q, Action: m.action, By: m.by, DryRun: dry})
	if err != nil {
		return tally{}, err
	}
	t := tally{done: done.Done, next: done.Next, scanned: done.Scanned, reached: done.Reached, unreached: done.Unreached}
	for _, r := range done.Refused {
		t.refused = append(t.refused, refusal{r.ID, "/ui/timers/" + r.ID, sentence(problemOf(r.Err).Detail)})
	}
	return t, nil
}

func (m *matching) count(ctx context.Context, cursor string) (tally, error) {
	return m.bulk(ctx, cursor, perStep, true)
}

func (m *matching) change(ctx context.Context, cursor string, most int) (tally, error) {
	return m.bulk(ctx, cursor, most, false)
}

func (*matching) explain(err error) wire.Problem { return listProblem(err) }

// selection is a change to timers that the operator has selected, each only in the version that the list
// has shown.
type selection struct {
	timerAction
	timers Timers
	chosen []chosenTimer
}

type chosenTimer struct {
	id      timer.ID
	version timer.Version
}

// atOnce is how many selected timers are changed at the same time.
const atOnce = 8

// selectTimers begins a change to selected timers.
func (u *UI) selectTimers(v *visit) (answer, error) {
	action, err := readTimerAction(v)
	if err != nil {
		return answer{}, err
	}
	picked := v.r.PostForm["timer"]
	if len(picked) == 0 {
		return answer{}, badField("no timer is selected; go back, and tick the boxes of the timers")
	}
	if len(picked) > maxRows {
		return answer{}, badField("more than " + strconv.Itoa(maxRows) + " timers are selected; go back, and select fewer, or choose all that match")
	}
	s := &selection{timerAction: action, timers: u.Timers}
	for _, text := range picked {
		name, version, _ := strings.Cut(text, "@")
		id, err := timer.ParseID(name)
		if err != nil {
			return answer{}, err
		}
		shown, err := timer.ParseVersion(version)
		if err != nil {
			return answer{}, badField("the form lacks the version of a timer; go back, load the list again, and begin anew")
		}
		s.chosen = append(s.chosen, chosenTimer{id, shown})
	}
	return u.begin(v, s)
}

func (s *selection) words() jobWords {
	w := s.timerAction.words()
	var keys []string
	for _, c := range s.chosen {
		keys = append(keys, c.id.Key)
	}
	w.filter = joined(keys)
	w.which = []fact{{"selected", whole(w.filter)}}
	return w
}

func (s *selection) count(context.Context, string) (tally, error) {
	return tally{done: len(s.chosen), scanned: len(s.chosen)}, nil
}

// change changes all selected timers. A version that is not the shown version is refused.
func (s *selection) change(ctx context.Context, _ string, _ int) (tally, error) {
	errs := make([]error, len(s.chosen))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(atOnce, len(errs)) {
		workers.Go(func() {
			for i := range next {
				errs[i] = s.one(ctx, s.chosen[i])
			}
		})
	}
	for i := range errs {
		next <- i
	}
	close(next)
	workers.Wait()
	var t tally
	for i, err := range errs {
		if err == nil {
			t.done++
			continue
		}
		id := s.chosen[i].id.String()
		t.refused = append(t.refused, refusal{id, "/ui/timers/" + id, sentence(problemOf(err).Detail)})
	}
	return t, nil
}

func (s *selection) one(ctx context.Context, c chosenTimer) (err error) {
	cond := timer.Condition{OneOf: []timer.Version{c.version}}
	switch s.action {
	case listing.Delete:
		_, err = s.timers.DeleteIf(ctx, c.id, cond)
	case listing.Fire:
		_, err = s.timers.Fire(ctx, c.id, cond)
	case listing.Delay:
		_, err = s.timers.Delay(ctx, c.id, cond, s.by)
	default:
		err = wire.NewProblem(http.StatusBadRequest, "action-unknown", fmt.Sprintf("no action %q", s.action))
	}
	return err
}

func (*selection) explain(err error) wire.Problem { return problemOf(err) }
