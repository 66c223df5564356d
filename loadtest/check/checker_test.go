package check_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/loadtest/check"
)

const (
	key      = "0198c2b4a1d07f3e8a5b6c7d8e9f0a1b"
	id       = key + "-2-00000000000000ff"
	version  = "0198c2b4a1d00001"
	session  = "run-1"
	interval = time.Second
)

// start is when the create is sent in every test. The answer comes 3 ms later; the create takes effect in between.
var start = time.UnixMilli(1_760_000_000_000)

const answerTime = 3 * time.Millisecond

func create() check.Operation {
	return check.Operation{
		Session: session, Revision: 1, Op: check.Create, ID: id, OK: true,
		SentMs: start.UnixMilli(), AnsweredMs: start.Add(answerTime).UnixMilli(),
		IntervalMs: interval.Milliseconds(), Pops: 3, Body: "body 1",
	}
}

// after is an operation that follows the create; sent is the time since the create.
func after(op check.Kind, revision int, sent time.Duration) check.Operation {
	o := create()
	o.Op, o.Revision, o.Body = op, revision, fmt.Sprintf("body %d", revision)
	o.SentMs, o.AnsweredMs = start.Add(sent).UnixMilli(), start.Add(sent+answerTime).UnixMilli()
	return o
}

// pop is the callback of a pop of the create, 2 ms after the due time.
func pop(sequence int) *check.Callback { return popOf(1, 0, sequence) }

// popOf is the callback of a pop of a revision; sent is the time from the create to the revision.
func popOf(revision int, sent time.Duration, sequence int) *check.Callback {
	due := start.Add(sent + 2*time.Millisecond + time.Duration(sequence)*interval)
	return &check.Callback{
		Session: session, Revision: revision, TimerID: id,
		Key: key, Version: fmt.Sprintf("%s%d", version, revision), Sequence: sequence, Attempt: 1,
		Due: due, Arrived: due.Add(2 * time.Millisecond), Body: fmt.Appendf(nil, "body %d", revision), Accepted: true,
	}
}

// with changes a callback.
func with(cb *check.Callback, change func(*check.Callback)) *check.Callback {
	change(cb)
	return cb
}

// lateBy moves the arrival to d after the due time.
func lateBy(cb *check.Callback, d time.Duration) *check.Callback {
	cb.Arrived = cb.Due.Add(d)
	return cb
}

// play gives operations and callbacks to a checker in order, and returns the report at the end.
func play(t *testing.T, end time.Duration, steps ...any) check.Report {
	t.Helper()
	c := check.New(check.Config{Planned: true})
	for _, step := range steps {
		switch step := step.(type) {
		case check.Operation:
			if err := c.Tell(step); err != nil {
				t.Fatalf("Tell(%+v): %v", step, err)
			}
		case *check.Callback:
			c.Arrive(step, nil)
		default:
			t.Fatalf("step %T", step)
		}
	}
	return c.Report(start.Add(end), 1)
}

func violations(r check.Report) map[check.Violation]int64 {
	found := make(map[check.Violation]int64)
	for kind, n := range r.Violations {
		if n != 0 {
			found[kind] = n
		}
	}
	return found
}

const long = time.Minute

func TestCleanRunsPass(t *testing.T) {
	inFlight := after(check.End, 2, 990*time.Millisecond)
	inFlight.InFlight = true
	failed := after(check.Refresh, 2, 500*time.Millisecond)
	failed.OK = false
	elsewhere := create()
	elsewhere.Session, elsewhere.Pops = "run-2", 1
	elsewherePop := with(pop(1), func(cb *check.Callback) { cb.Session = "run-2" })
	runs := map[string][]any{
		"all pops":                 {create(), pop(1), pop(2), pop(3)},
		"told after the callbacks": {pop(1), create(), pop(2), pop(3)},
		"ended":                    {create(), pop(1), after(check.End, 2, 1500*time.Millisecond)},
		"refreshed": {
			create(), pop(1), after(check.Refresh, 2, 1500*time.Millisecond),
			popOf(2, 1500*time.Millisecond, 1), after(check.End, 3, 2600*time.Millisecond),
		},
		"ended just before a pop is called":       {create(), after(check.End, 2, time.Second)},
		"arrived before the answer to the end":    {create(), lateBy(pop(1), 0), after(check.End, 2, 1000*time.Millisecond)},
		"in flight, and came":                     {create(), inFlight, lateBy(pop(1), 900*time.Millisecond)},
		"in flight, and came before it was told":  {create(), lateBy(pop(1), 900*time.Millisecond), inFlight},
		"failed refresh: the old one goes on":     {create(), failed, pop(1), pop(2), pop(3)},
		"failed refresh: it took effect":          {create(), failed, popOf(2, 500*time.Millisecond, 1)},
		"failed refresh: neither was heard again": {create(), failed, elsewhere, elsewherePop},
		"refused once, then accepted": {
			create(), with(pop(1), func(cb *check.Callback) { cb.Accepted = false }),
			with(lateBy(pop(1), 500*time.Millisecond), func(cb *check.Callback) { cb.Attempt = 2 }), pop(2), pop(3),
		},
	}
	for name, steps := range runs {
		t.Run(name, func(t *testing.T) {
			r := play(t, long, steps...)
			if diff := cmp.Diff(map[check.Violation]int64{}, violations(r)); diff != "" || r.Passed != (r.Callbacks > 0) {
				t.Errorf("passed = %v, violations (-want +got):\n%s\n%v", r.Passed, diff, r.Examples)
			}
		})
	}
}

func TestEachViolationFails(t *testing.T) {
	end := after(check.End, 2, 1500*time.Millisecond)
	inFlight := end
	inFlight.InFlight = true
	runs := map[string]struct {
		want  check.Violation
		steps []any
	}{
		"early by its own due time": {check.Early, []any{create(), lateBy(pop(1), -1100*time.Microsecond), pop(2), pop(3)}},
		"early by what was asked, with a due time that says otherwise": {check.Early, []any{
			create(), with(pop(1), func(cb *check.Callback) {
				cb.Arrived = start.Add(interval - 2*time.Millisecond)
				cb.Due = start.Add(interval - time.Millisecond)
			}), pop(2), pop(3),
		}},
		"missing in the middle":      {check.Missing, []any{create(), pop(1), pop(3)}},
		"missing at the end":         {check.Missing, []any{create(), pop(1), pop(2)}},
		"missing before a refresh":   {check.Missing, []any{create(), pop(1), after(check.Refresh, 2, 3500*time.Millisecond), popOf(2, 3500*time.Millisecond, 1), popOf(2, 3500*time.Millisecond, 2), popOf(2, 3500*time.Millisecond, 3)}},
		"never accepted":             {check.Missing, []any{create(), pop(1), pop(2), with(pop(3), func(cb *check.Callback) { cb.Accepted = false })}},
		"late":                       {check.Late, []any{create(), pop(1), pop(2), lateBy(pop(3), 1001*time.Millisecond)}},
		"double":                     {check.Double, []any{create(), pop(1), pop(2), pop(2), pop(3)}},
		"double as a second attempt": {check.Double, []any{create(), pop(1), with(pop(1), func(cb *check.Callback) { cb.Attempt = 2 }), pop(2), pop(3)}},
		"double before it was told":  {check.Double, []any{pop(1), pop(1), create(), pop(2), pop(3)}},
		"altered body":               {check.Altered, []any{create(), pop(1), with(pop(2), func(cb *check.Callback) { cb.Body = []byte("body 2") }), pop(3)}},
		"altered key":                {check.Altered, []any{create(), pop(1), with(pop(2), func(cb *check.Callback) { cb.Key = "other" }), pop(3)}},
		"altered version":            {check.Altered, []any{create(), pop(1), with(pop(2), func(cb *check.Callback) { cb.Version = "0" }), pop(3)}},
		"altered due time, later":    {check.Altered, []any{create(), pop(1), pop(2), with(pop(3), func(cb *check.Callback) { cb.Due = cb.Due.Add(20 * time.Millisecond); cb.Arrived = cb.Due })}},
		"altered due time, sooner":   {check.Altered, []any{create(), pop(1), pop(2), with(pop(3), func(cb *check.Callback) { cb.Due = cb.Due.Add(-20 * time.Millisecond) })}},
		"after an end":               {check.AfterAnswer, []any{create(), pop(1), end, pop(2)}},
		"after an end, told later":   {check.AfterAnswer, []any{create(), pop(1), pop(2), end}},
		"after a refresh":            {check.AfterAnswer, []any{create(), after(check.Refresh, 2, 500*time.Millisecond), pop(1), popOf(2, 500*time.Millisecond, 1), popOf(2, 500*time.Millisecond, 2), popOf(2, 500*time.Millisecond, 3)}},
		"too long after in flight":   {check.AfterAnswer, []any{create(), pop(1), inFlight, with(pop(3), func(cb *check.Callback) { cb.Arrived = start.Add(3800 * time.Millisecond) })}},
		"after a second end":         {check.AfterAnswer, []any{create(), pop(1), inFlight, after(check.End, 3, 1600*time.Millisecond), pop(2)}},
		"unknown timer":              {check.Unasked, []any{create(), pop(1), pop(2), pop(3), with(pop(1), func(cb *check.Callback) { cb.Session = "other" })}},
		"unknown revision":           {check.Unasked, []any{create(), pop(1), pop(2), pop(3), with(pop(1), func(cb *check.Callback) { cb.Revision = 2 })}},
		"unknown path":               {check.Unasked, []any{create(), pop(1), pop(2), pop(3), with(pop(1), func(cb *check.Callback) { cb.Session, cb.Revision = "", 0 })}},
		"one pop too many":           {check.Unasked, []any{create(), pop(1), pop(2), pop(3), pop(4)}},
	}
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			r := play(t, long, run.steps...)
			want := map[check.Violation]int64{run.want: 1}
			if diff := cmp.Diff(want, violations(r)); diff != "" {
				t.Errorf("violations (-want +got):\n%s\n%v", diff, r.Examples)
			}
			if r.Passed || len(r.Examples[run.want]) != 1 {
				t.Errorf("passed = %v, examples = %v", r.Passed, r.Examples)
			}
		})
	}
}

// A pop counts as missing only when its latest possible due time and the bound have passed.
func TestMissingOnlyAfterTheBound(t *testing.T) {
	bound := interval + answerTime + time.Millisecond + 5*time.Millisecond + time.Second
	for _, test := range []struct {
		name                string
		end                 time.Duration
		obligatory, missing int64
	}{
		{"just before", bound - time.Millisecond, 0, 0},
		{"at the bound", bound, 1, 1},
		{"second", bound + interval, 2, 2},
		{"no more than were asked for", long, 3, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := play(t, test.end, create())
			if r.Obligatory != test.obligatory || r.Violations[check.Missing] != test.missing {
				t.Errorf("obligatory %d, missing %d; want %d, %d",
					r.Obligatory, r.Violations[check.Missing], test.obligatory, test.missing)
			}
		})
	}
}

func TestSkippedPopsAreToldFromLostTimers(t *testing.T) {
	for _, test := range []struct {
		name             string
		steps            []any
		missing, skipped int64
	}{
		{"skipped", []any{create(), pop(3)}, 2, 2},
		{"lost", []any{create(), pop(1)}, 2, 0},
		{"skipped and lost", []any{create(), pop(2)}, 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := play(t, long, test.steps...)
			if r.Violations[check.Missing] != test.missing || r.Skipped != test.skipped || r.Passed {
				t.Errorf("missing %d, skipped %d, want %d, %d", r.Violations[check.Missing], r.Skipped, test.missing, test.skipped)
			}
		})
	}
}

func TestMalformedCallbackIsAltered(t *testing.T) {
	c := check.New(check.Config{Planned: true})
	c.Arrive(pop(1), fmt.Errorf("no header"))
	if r := c.Report(start, 1); r.Violations[check.Altered] != 1 || r.Passed {
		t.Errorf("report = %+v", r)
	}
}

func TestCallbacksThatWaitForTheirRequestAreBounded(t *testing.T) {
	steps := make([]any, 0, 100)
	for range 100 {
		steps = append(steps, pop(1))
	}
	if r := play(t, long, steps...); r.Violations[check.Unasked] != 100 || len(r.Examples[check.Unasked]) != 5 {
		t.Errorf("unasked = %d, examples = %v", r.Violations[check.Unasked], r.Examples)
	}
}

func TestRunThatSawNothingFails(t *testing.T) {
	if r := play(t, 0, create()); r.Passed {
		t.Errorf("passed with %d callbacks", r.Callbacks)
	}
}

func TestWithoutPlanTheFirstCallbackStandsForWhatWasAsked(t *testing.T) {
	anywhere := func(cb *check.Callback) { cb.Session, cb.Revision = "", 0 }
	for _, test := range []struct {
		name string
		cb   *check.Callback
		want map[check.Violation]int64
	}{
		{"clean", pop(2), map[check.Violation]int64{}},
		{"other version, other body", popOf(2, 0, 1), map[check.Violation]int64{}},
		{"double", pop(1), map[check.Violation]int64{check.Double: 1}},
		{"early", lateBy(pop(2), -5*time.Millisecond), map[check.Violation]int64{check.Early: 1}},
		{"altered", with(pop(2), func(cb *check.Callback) { cb.Body = nil }), map[check.Violation]int64{check.Altered: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := check.New(check.Config{})
			c.Arrive(with(pop(1), anywhere), nil)
			c.Arrive(with(test.cb, anywhere), nil)
			r := c.Report(start.Add(long), 0)
			if diff := cmp.Diff(test.want, violations(r)); diff != "" || r.Passed != (len(test.want) == 0) {
				t.Errorf("passed %v, violations (-want +got):\n%s", r.Passed, diff)
			}
		})
	}
}

func TestTellRefuses(t *testing.T) {
	broken := func(change func(*check.Operation)) check.Operation {
		o := after(check.Refresh, 2, time.Second)
		change(&o)
		return o
	}
	for name, op := range map[string]check.Operation{
		"no session":          broken(func(o *check.Operation) { o.Session = "" }),
		"revision 0":          broken(func(o *check.Operation) { o.Revision = 0 }),
		"a revision left out": broken(func(o *check.Operation) { o.Revision = 3 }),
		"told twice":          create(),
		"no id":               broken(func(o *check.Operation) { o.ID = "" }),
		"another timer's id":  broken(func(o *check.Operation) { o.ID = "other" }),
		"answered too soon":   broken(func(o *check.Operation) { o.AnsweredMs = o.SentMs - 1 }),
		"no pops":             broken(func(o *check.Operation) { o.Pops = 0 }),
		"unknown operation":   broken(func(o *check.Operation) { o.Op = "merge" }),
	} {
		t.Run(name, func(t *testing.T) {
			c := check.New(check.Config{Planned: true})
			if err := c.Tell(create()); err != nil {
				t.Fatal(err)
			}
			if err := c.Tell(op); err == nil {
				t.Errorf("Tell(%+v) = nil", op)
			}
			if r := c.Report(start, 0); r.Operations != 1 {
				t.Errorf("operations = %d, want 1", r.Operations)
			}
		})
	}
}

func TestTimersAreBounded(t *testing.T) {
	c := check.New(check.Config{Planned: true, MaxSessions: 1})
	if err := c.Tell(create()); err != nil {
		t.Fatal(err)
	}
	other := create()
	other.Session = "run-2"
	if err := c.Tell(other); err == nil || !strings.Contains(err.Error(), check.ErrFull.Error()) {
		t.Errorf("Tell = %v, want %v", err, check.ErrFull)
	}
	c.Arrive(with(pop(1), func(cb *check.Callback) { cb.Session = "run-3" }), nil)
	if r := c.Report(start, 0); r.Unfollowed != 1 || r.Passed {
		t.Errorf("report = %+v", r)
	}
}

func TestLive(t *testing.T) {
	c := check.New(check.Config{Planned: true})
	live := func() (all []string) {
		c.Live(func(session, id string, revision int) { all = append(all, fmt.Sprint(session, " ", id, " ", revision)) })
		return all
	}
	failed := after(check.End, 3, 2*time.Second)
	failed.OK = false
	for _, step := range []struct {
		op   check.Operation
		want []string
	}{
		{create(), []string{session + " " + id + " 1"}},
		{after(check.Refresh, 2, time.Second), []string{session + " " + id + " 2"}},
		{failed, []string{session + " " + id + " 3"}},
		{after(check.End, 4, 3*time.Second), nil},
	} {
		if err := c.Tell(step.op); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, live()); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.op.Op, diff)
		}
	}
}

func TestReportText(t *testing.T) {
	r := play(t, long, create(), pop(1), pop(2), pop(2), pop(3))
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"callbacks 4 for 3 pops (3 had to come", "p50 2.0", "double 1\n    timer " + id, "missing 0\n", "FAILED\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("report lacks %q:\n%s", want, b.String())
		}
	}
}
