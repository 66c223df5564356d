package processtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/scheduler/verify/history"
)

// siteFault is a time in which sites don't hear each other, or a site has lost its data.
type siteFault struct {
	site     string // that was killed or wiped; "" if the link was cut
	wiped    bool
	from, to time.Duration // until the link is back, or until the site is ready again
}

const (
	// siteLate is how late a callback may be without a fault, beyond a hold-up of the test itself.
	siteLate = time.Second
	// siteBehind is how much later than the delay of the other site a callback may be after a fault.
	siteBehind = 3 * time.Second
	// siteHeals is how long after a fault callbacks may be late or come twice.
	siteHeals = 8 * time.Second
	// siteHears is how long after a fault a callback of a version may start that was replaced without telling both sites:
	// nodes notice within a second, and promise no such callback 2 s later.
	siteHears = 3 * time.Second
	// siteInFlight is how long after an answer that says in flight a callback may start.
	siteInFlight = 2 * time.Second
	// siteTakesEffect is how long a write without an answer may take to be in force.
	siteTakesEffect = 3 * time.Second
)

// siteJudge judges a history of two sites. The package history knows the owners of a timer in one site, and derives
// all bounds from the faults of these owners; a site delay would be in nearly every bound. The bounds here come from the
// faults of whole sites, so a few rules suffice.
type siteJudge struct {
	h      *history.History
	faults []siteFault
	heldUp time.Duration // the longest hold-up of the test itself
	slack  time.Duration // for lateness, after the hold-up

	violations  []string
	obligatory  int
	skipped     int           // pops of recurring timers that a fault made give way to the next pop
	worst       time.Duration // lateness, without a fault
	worstFault  time.Duration // lateness amid faults
	twice       int           // callbacks that came again amid faults
	conditional int           // answers to writes on a condition
	outdated    int           // callbacks of versions that were replaced without telling both sites, or in flight
}

// siteWrite is a POST or PUT with its callbacks.
type siteWrite struct {
	*history.Operation
	calls []*history.Callback // by arrival
}

func judgeSites(j *siteJudge) {
	writes, timers := map[string]*siteWrite{}, map[string][]*history.Operation{}
	for i := range j.h.Operations {
		o := &j.h.Operations[i]
		if o.Timer != nil {
			writes[o.Timer.URL] = &siteWrite{Operation: o}
		}
		if key := keyOf(o); key != "" && o.Kind != history.Get {
			timers[key] = append(timers[key], o)
		}
	}
	calls := make([]*history.Callback, len(j.h.Callbacks))
	for i := range calls {
		calls[i] = &j.h.Callbacks[i]
	}
	slices.SortFunc(calls, func(a, b *history.Callback) int { return cmp.Compare(a.ArriveNs, b.ArriveNs) })
	for _, c := range calls {
		w := writes[c.URL]
		if w == nil || w.Timer.BodyHash != c.BodyHash || w.Outcome == history.Failed {
			j.violation("not asked for", "%v", c)
			continue
		}
		w.calls = append(w.calls, c)
	}
	for _, ops := range timers {
		slices.SortFunc(ops, func(a, b *history.Operation) int { return cmp.Compare(a.InvokeNs, b.InvokeNs) })
	}
	for _, w := range writes {
		j.labels(w)
		j.early(w)
		j.again(w)
		j.afterAnswer(w, timers[keyOf(w.Operation)])
		j.conditions(w, timers[keyOf(w.Operation)])
		if w.Outcome == history.OK {
			j.lost(w, j.until(w, timers[keyOf(w.Operation)]))
		}
	}
	slices.Sort(j.violations)
}

func (j *siteJudge) violation(rule, format string, args ...any) {
	j.violations = append(j.violations, rule+": "+fmt.Sprintf(format, args...))
}

func keyOf(o *history.Operation) string {
	if o.Answer != nil && o.Answer.Key != "" {
		return o.Answer.Key
	}
	return o.Key
}

// labels: the callbacks of a write have one version, and a pop has one webhook-id.
func (j *siteJudge) labels(w *siteWrite) {
	for _, c := range w.calls {
		if want := w.calls[0].Key + "." + w.calls[0].Version + "." + strconv.Itoa(c.Seq); c.WebhookID != want || c.Seq < 1 || c.Seq > w.Timer.Pops {
			j.violation("one webhook-id", "%v, want %s", c, want)
		}
	}
}

func (j *siteJudge) early(w *siteWrite) {
	for _, c := range w.calls {
		if due := time.Duration(w.InvokeNs) + ahead(w, c.Seq); time.Duration(c.ArriveNs) < due-time.Millisecond {
			j.violation("never early", "%v, %v before its time", c, due-time.Duration(c.ArriveNs))
		}
	}
}

// ahead is how long after the write a pop is due.
func ahead(w *siteWrite, pop int) time.Duration {
	return time.Duration(pop) * time.Duration(w.Timer.IntervalMs) * time.Millisecond
}

// again: a pop comes twice only if a fault may have kept a site from hearing of the first callback.
func (j *siteJudge) again(w *siteWrite) {
	first := map[int]*history.Callback{}
	for _, c := range w.calls {
		switch before := first[c.Seq]; {
		case before == nil:
			first[c.Seq] = c
		case j.amid(time.Duration(before.ArriveNs), time.Duration(before.ArriveNs)) || j.amid(time.Duration(c.ArriveNs), time.Duration(c.ArriveNs)):
			j.twice++
		default:
			j.violation("no duplicate without a fault", "%v, first at %v", c, time.Duration(before.ArriveNs))
		}
	}
}

// amid reports whether a fault may show at some time within [from, to].
func (j *siteJudge) amid(from, to time.Duration) bool {
	return slices.ContainsFunc(j.faults, func(f siteFault) bool {
		return from <= f.to+siteHeals+j.slack && to >= f.from-siteLate-j.slack
	})
}

// afterAnswer: once a PUT or DELETE was answered, no callback of a version before starts; in flight, for 2 s more. If
// a site has not been told, callbacks may start until the sites have heard each other for 2 s.
func (j *siteJudge) afterAnswer(w *siteWrite, ops []*history.Operation) {
	for _, op := range ops {
		if op.Outcome != history.OK || op.InvokeNs <= doneBy(w.Operation) || j.forgotten(op) {
			continue
		}
		answered := time.Duration(op.ReturnNs)
		last := answered
		switch {
		case op.Answer.Untold > 0:
			last = j.heard(answered) + siteHears + j.slack
		case op.Answer.InFlight:
			last += siteInFlight
		}
		for _, c := range w.calls {
			if arrived := time.Duration(c.ArriveNs); arrived > last+100*time.Millisecond+j.heldUp {
				j.violation("no old version after the answer", "%v, %v after the answer to a %s through %s at %v (in flight %v, %d untold)",
					c, arrived-answered, op.Kind, op.Node, answered, op.Answer.InFlight, op.Answer.Untold)
			} else if arrived > answered {
				j.outdated++
			}
		}
	}
}

// conditions: a condition is not said to be unmet before the first pop of the version that the condition asks for, if the
// version was not replaced.
func (j *siteJudge) conditions(w *siteWrite, ops []*history.Operation) {
	if w.Outcome != history.OK || w.Answer.Version == "" || j.forgotten(w.Operation) {
		return
	}
	for _, op := range ops {
		if op.If != w.Answer.Version || op.Outcome == history.Unknown {
			continue
		}
		j.conditional++
		if op.Status == http.StatusPreconditionFailed && op.ReturnNs < w.InvokeNs+int64(ahead(w, 1)) && j.until(w, ops) >= time.Duration(op.InvokeNs) {
			j.violation("conditions", "a %s of version %s of %s through %s at %v was refused, and the version was there", op.Kind, op.If, w.Answer.Key, op.Node, time.Duration(op.ReturnNs))
		}
	}
}

// doneBy is when a write has taken effect, if ever.
func doneBy(o *history.Operation) int64 {
	if o.Outcome == history.OK {
		return o.ReturnNs
	}
	return max(o.ReturnNs, o.InvokeNs+int64(siteTakesEffect))
}

// heard is when the sites hear each other, after an answer.
func (j *siteJudge) heard(answered time.Duration) time.Duration {
	heard := answered
	for _, f := range j.faults {
		if answered >= f.from-siteLate && answered <= f.to+siteHears {
			heard = max(heard, f.to)
		}
	}
	return heard
}

// forgotten reports whether only a site that was wiped a moment later has heard of a write.
func (j *siteJudge) forgotten(o *history.Operation) bool {
	return o.Answer.Untold > 0 && slices.ContainsFunc(j.faults, func(f siteFault) bool {
		return f.wiped && strings.HasPrefix(o.Node, f.site+"-") && time.Duration(o.InvokeNs) <= f.from && time.Duration(o.ReturnNs) >= f.from-siteHears
	})
}

// until is when the obligations of a write end: another write may have replaced the write.
func (j *siteJudge) until(w *siteWrite, ops []*history.Operation) time.Duration {
	until := j.h.End.AtNs
	for _, op := range ops {
		if op != w.Operation && op.Outcome != history.Failed && doneBy(op) >= w.InvokeNs {
			until = min(until, op.InvokeNs)
		}
	}
	return time.Duration(until)
}

// lost: every pop of an acknowledged write comes, and comes in time.
func (j *siteJudge) lost(w *siteWrite, until time.Duration) {
	if j.forgotten(w.Operation) {
		return
	}
	first, last := map[int]*history.Callback{}, 0
	for _, c := range w.calls {
		if last = max(last, c.Seq); first[c.Seq] == nil {
			first[c.Seq] = c
		}
	}
	begins := time.Duration(w.ReturnNs)
	if w.Answer.InFlight {
		begins = max(begins, begins+siteInFlight-ahead(w, 1))
	}
	for n := 1; n <= w.Timer.Pops; n++ {
		due := begins + ahead(w, n)
		by, fault := j.bound(w, due)
		if by > until {
			return
		}
		j.obligatory++
		switch c := first[n]; {
		case c == nil && n < last && fault:
			j.skipped++
		case c == nil:
			j.violation("nothing lost", "timer %s (%s through %s at %v, %d untold) pop %d of %d: due by %v, did not come",
				w.Answer.Key, w.Kind, w.Node, time.Duration(w.ReturnNs), w.Answer.Untold, n, w.Timer.Pops, due)
		default:
			j.lateness(c, due, by, fault)
		}
	}
}

// bound is when a pop must have come, and whether a fault may have delayed the pop.
func (j *siteJudge) bound(w *siteWrite, due time.Duration) (by time.Duration, fault bool) {
	if by = due + siteLate + j.slack; !j.amid(due, by) {
		return by, false
	}
	skew := min(max(ahead(w, 1)/time.Duration(j.h.Header.RF), 250*time.Millisecond), 2*time.Second)
	return due + max(time.Duration(j.h.Header.RF)*skew, 3*time.Second) + siteBehind + j.slack, true
}

func (j *siteJudge) lateness(c *history.Callback, due, by time.Duration, fault bool) {
	arrived := time.Duration(c.ArriveNs)
	if fault {
		j.worstFault = max(j.worstFault, arrived-due)
	} else {
		j.worst = max(j.worst, arrived-due)
	}
	if arrived > by {
		j.violation("in time", "%v, %v late, %v at most", c, arrived-due, by-due)
	}
}
