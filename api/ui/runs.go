package ui

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"chronos/api/wire"
)

// job is a change to many timers or dead letters, in steps.
type job interface {
	// words are what the pages say of the job.
	words() jobWords
	// count counts some of the things that a change would change, from a cursor on.
	count(ctx context.Context, cursor string) (tally, error)
	// change changes some things from a cursor on, at most so many.
	change(ctx context.Context, cursor string, most int) (tally, error)
	// explain explains the errors of both.
	explain(err error) wire.Problem
}

// jobWords are words about a job.
type jobWords struct {
	verb, done string // "delete", "deleted"
	one, many  string // "timer", "timers"
	which      []fact // things the change is about
	filter     string // the same for the log
	warning    string
	tab, back  string
	danger     bool
}

// tally is the outcome of a step.
type tally struct {
	done      int
	refused   []refusal
	next      string // the cursor of the next step; "" at the end
	scanned   int
	reached   time.Time
	unreached []string
}

// refusal is a thing that was left as before.
type refusal struct{ ID, Path, Why string }

// Bounds of a run.
const (
	maxRefusals  = 100             // remembered
	countingTime = time.Second / 2 // of a page
	perStep      = 1000            // changed at most
)

// run is a change to many, from the first count to the end. Runs live in the operator's session.
type run struct {
	id  string
	job job

	// Guarded by session.mu.
	busy      bool
	counted   int
	counting  string // the cursor of the count
	complete  bool   // the count is over
	scanned   int
	reached   time.Time
	unreached []string
	confirmed int // the count that the operator has confirmed; 0 before
	done      int
	failed    int
	refusals  []refusal
	cursor    string // of the change
	steps     int    // that are over
	over      bool
	problem   string // with the last step
}

// runPage is a run as a page shows the run.
type runPage struct {
	Title          string
	Verb, DoneWord string
	One, Many      string
	Which          []fact
	Warning        string
	Danger         bool
	Path, Back     string
	Step           int
	Counted        int
	Count, Looked  int64
	Complete       bool
	Reached        *instant
	Unreached      []string
	Confirmed      int
	Failed, Left   int
	DoneCount      int64
	FailCount, Sum int64
	LeftCount      int64
	Share          int // of the change that is done, in percent
	Refusals       []refusal
	Over           bool
	Problem        string
}

// begin remembers a run, counts for a moment, and leads to the page of the run.
func (u *UI) begin(v *visit, j job) (answer, error) {
	r := &run{id: newHandle(), job: j}
	if err := r.countOn(v); err != nil {
		return answer{}, explain(err, j.explain)
	}
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	v.session.runs = append(v.session.runs, r)
	if excess := len(v.session.runs) - kept; excess > 0 {
		v.session.runs = v.session.runs[excess:]
	}
	return answer{to: "/ui/many/" + r.id}, nil
}

// countOn counts until the count is over, or the page has no more time.
func (r *run) countOn(v *visit) error {
	until := time.Now().Add(countingTime)
	for {
		var cursor string
		var over bool
		v.locked(func() { cursor, over = r.counting, r.complete || r.confirmed > 0 })
		if over {
			return nil
		}
		t, err := r.job.count(v.ctx, cursor)
		if err != nil {
			return err
		}
		v.locked(func() {
			r.counted += t.done
			r.scanned += t.scanned
			r.reached, r.counting = t.reached, t.next
			r.unreached = unique(r.unreached, t.unreached)
			r.complete = t.next == ""
		})
		if !time.Now().Before(until) {
			return nil
		}
	}
}

// locked calls do while no other request of the session reads or changes what the session has.
func (v *visit) locked(do func()) {
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	do()
}

// findRun is the run of the address.
func findRun(v *visit) (*run, error) {
	id := v.r.PathValue("run")
	for _, r := range v.session.runs {
		if r.id == id {
			return r, nil
		}
	}
	return nil, wire.NewProblem(http.StatusNotFound, "run-unknown", "this change is no longer remembered: each login remembers the last 20, and only the login that began the change; begin anew from the list")
}

// hold finds the run of the address for a step that takes time. Nobody else makes a step meanwhile.
func hold(v *visit) (*run, func(), error) {
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	r, err := findRun(v)
	if err != nil {
		return nil, nil, err
	}
	if r.busy {
		return nil, nil, wire.NewProblem(http.StatusConflict, "step-under-way", "another window makes a step of this change right now; wait a moment, and load the page of the change again")
	}
	r.busy = true
	return r, func() {
		v.session.mu.Lock()
		defer v.session.mu.Unlock()
		r.busy = false
	}, nil
}

func (u *UI) run(v *visit) (answer, error) {
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	r, err := findRun(v)
	if err != nil {
		return answer{}, err
	}
	w := r.job.words()
	page := runPage{
		Title: strings.ToUpper(w.verb[:1]) + w.verb[1:] + " " + w.many, Verb: w.verb, DoneWord: w.done, One: w.one, Many: w.many, Which: w.which, Warning: w.warning, Danger: w.danger,
		Path: "/ui/many/" + r.id, Back: w.back, Step: r.steps, Counted: r.counted, Count: int64(r.counted), Complete: r.complete, Looked: int64(r.scanned), Reached: at(r.reached, v.now), Unreached: r.unreached,
		Confirmed: r.confirmed, Failed: r.failed, DoneCount: int64(r.done), FailCount: int64(r.failed), Sum: int64(r.confirmed), Left: max(r.confirmed-r.done-r.failed, 0), Refusals: r.refusals, Over: r.over, Problem: r.problem,
	}
	page.LeftCount = int64(page.Left)
	if r.confirmed > 0 {
		page.Share = min((r.done+r.failed)*100/r.confirmed, 100)
	}
	if r.over {
		page.Share = 100
	}
	return answer{page: "many", title: page.Title, tab: w.tab, data: page}, nil
}

// countRun counts on.
func (u *UI) countRun(v *visit) (answer, error) {
	r, release, err := hold(v)
	if err != nil {
		return answer{}, err
	}
	defer release()
	if err := r.countOn(v); err != nil {
		return answer{}, explain(err, r.job.explain)
	}
	return answer{to: "/ui/many/" + r.id}, nil
}

// stepRun carries out a step of a run, after the operator has typed the count.
func (u *UI) stepRun(v *visit) (answer, error) {
	r, release, err := hold(v)
	if err != nil {
		return answer{}, err
	}
	defer release()
	var cursor string
	var most int
	v.locked(func() { cursor, most, err = r.confirm(v) })
	if err != nil || most == 0 {
		return answer{to: "/ui/many/" + r.id}, err
	}
	w := r.job.words()
	v.note("change", w.verb+" "+w.many)
	v.note("which", w.filter)
	t, err := r.job.change(v.ctx, cursor, most)
	v.locked(func() {
		if err != nil {
			p := r.job.explain(err)
			r.problem = sentence(p.Detail)
			v.note("problem", p.Code)
			return
		}
		r.add(&t)
		v.noted = append(v.noted, "done", t.done, "refused", len(t.refused))
	})
	return answer{to: "/ui/many/" + r.id}, nil
}

// confirm takes the operator's word for the next step, and returns where the step begins and how many
// things it may change. If the form was sent twice, that is none.
func (r *run) confirm(v *visit) (cursor string, most int, err error) {
	form := v.r.PostForm
	switch {
	case r.over, r.confirmed > 0 && form.Get("step") != strconv.Itoa(r.steps):
		return "", 0, nil
	case r.confirmed == 0:
		typed, err := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(form.Get("count")), ",", ""))
		if err != nil || typed != r.counted || typed == 0 {
			return "", 0, badField("the number typed is not the number of " + r.job.words().many + " counted; go back, and type the number that the page shows")
		}
		r.confirmed = typed
	}
	return r.cursor, min(perStep, r.confirmed-r.done-r.failed), nil
}

// add adds a step to the run.
func (r *run) add(t *tally) {
	r.problem = ""
	r.steps++
	r.done, r.failed, r.cursor, r.reached = r.done+t.done, r.failed+len(t.refused), t.next, t.reached
	r.refusals = append(r.refusals, t.refused[:min(len(t.refused), maxRefusals-len(r.refusals))]...)
	r.unreached = unique(r.unreached, t.unreached)
	r.over = t.next == "" || r.done+r.failed >= r.confirmed
}
