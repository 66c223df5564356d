package simtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/redisstore/record"
	"chronos/scheduler/timer"
	"chronos/scheduler/webhook/webhooktest"
)

// siteLog is what happened in a run of two sites.
type siteLog struct {
	operations []siteOperation
	calls      []siteCall
	copies     [2]map[string][]record.Record // by site and key, at the end
	marks      []string                      // that are left
}

type siteOperationKind string

const (
	create  siteOperationKind = "create"
	replace siteOperationKind = "replace"
	remove  siteOperationKind = "delete"
)

type siteOutcome int

const (
	unsure siteOutcome = iota
	acknowledged
)

// siteOperation is a write of a client.
type siteOperation struct {
	kind              siteOperationKind
	key, url          string
	site              int
	timer             timer.Timer
	invoked, returned time.Duration
	outcome           siteOutcome
	receipt           timer.Receipt
}

func (op *siteOperation) String() string {
	return fmt.Sprintf("%s %s at %s, %v to %v, acknowledged %t by %d of %d sites, in flight %t", op.kind, op.key, twoSites[op.site], op.invoked, op.returned, op.outcome == acknowledged, op.receipt.Sites, op.receipt.AllSites, op.receipt.InFlight)
}

// everywhere reports whether all sites have the write.
func (op *siteOperation) everywhere() bool { return op.receipt.Sites == op.receipt.AllSites }

// siteCall is a callback.
type siteCall struct {
	key, url, webhookID, node string
	seq, attempt              int
	arrived, answered         time.Duration
	ok                        bool
}

func (c *siteCall) String() string {
	return fmt.Sprintf("callback %s attempt %d to %s by node %s at %v", c.webhookID, c.attempt, c.url, c.node, c.arrived)
}

func (c *siteCluster) record(call webhooktest.Call, answer webhooktest.Answer) {
	at := c.now()
	one := siteCall{key: call.ID.Key, url: urlAt(call.Target), webhookID: call.WebhookID, node: call.From, seq: call.Seq, attempt: call.Attempt, arrived: at, answered: at + answer.Delay}
	one.ok = !answer.Hang && !answer.Drop && (answer.Status == 0 || answer.Status == 200)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.calls = append(c.log.calls, one)
}

// dump reads all copies and marks.
func (c *siteCluster) dump() {
	for site := range twoSites {
		c.log.copies[site] = map[string][]record.Record{}
		for _, sh := range c.shards[site] {
			all, err := sh.snapshot()
			if err != nil {
				c.t.Fatal(err)
			}
			for key, fields := range all.hashes {
				if !strings.HasSuffix(key, ":timers") {
					continue
				}
				for name, text := range fields {
					if r, err := record.Parse(text); err != nil {
						c.t.Errorf("record of %s: %v", name, err)
					} else if !r.State.Ended {
						c.log.copies[site][name] = append(c.log.copies[site][name], r)
					}
				}
			}
			for key, members := range all.sorted {
				if strings.Contains(key, ":untold:") {
					for member := range members {
						c.log.marks = append(c.log.marks, sh.name+" "+key+" "+member)
					}
				}
			}
		}
	}
}

// Limits of the judge.
const (
	// settling is how long after a fault its effects last: a retry, the delay of the other site, a fill.
	settling = 25 * time.Second
	// siteLate is how late a callback may be without a fault, beside the time of two round trips between the sites: a write
	// that a site confirms late takes the home out of touch for a moment.
	siteLate = 300 * time.Millisecond
	// toldAfter is how long after the end of a split an old version may still come: 2 s for a callback that may have begun, and
	// the time until the sites hear each other.
	toldAfter = 8 * time.Second
	// filling is how long after the end of a loss the site may lack timers: 4 s until the other site sees the loss, FillDelay,
	// and 4 s for round trips.
	filling = 15 * time.Second
	// clocksApart is how far apart the clocks of two sites may be.
	clocksApart = 30 * time.Second
	// busy is how long the callback of an earlier pop, and a retry, may hold up a pop.
	busy = 4 * time.Second
	// overdueAtMost is how late a callback may be after all faults that held it up.
	overdueAtMost = 25 * time.Second
)

// during reports whether a fault for which is true lasted, or had effects, at some time within [from, to].
func (s *siteSetting) during(from, to time.Duration, is func(f *siteFault) bool) bool {
	return slices.ContainsFunc(s.faults, func(f siteFault) bool { return f.at <= to && f.ends()+settling >= from && is(&f) })
}

func anySiteFault(*siteFault) bool { return true }

// judgeSites returns what is wrong with a run:
//
//   - A callback comes before its time, or for no write.
//   - A callback of an old version comes after the answer to a later write: at once after a clean answer, 2 s after an answer in
//     flight, and some seconds after a split if not all sites were told.
//   - A pop of an acknowledged timer is lost.
//   - A pop comes twice without a fault.
//   - A pop is late without a fault, or very late.
//   - The sites are not alike at the end, or marks are left.
func (c *siteCluster) judgeSites() (wrong []string) {
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	byURL, byKey := map[string]*siteOperation{}, map[string][]*siteOperation{}
	slices.SortFunc(c.log.operations, func(a, b siteOperation) int { return cmp.Compare(a.invoked, b.invoked) })
	for i := range c.log.operations {
		op := &c.log.operations[i]
		byURL[op.url] = op
		byKey[op.key] = append(byKey[op.key], op)
	}
	pops := map[*siteOperation]map[int][]*siteCall{}
	for i := range c.log.calls {
		call := &c.log.calls[i]
		op := byURL[call.url]
		if op == nil || op.kind == remove {
			fault("%s: no write asked for it", call)
			continue
		}
		if due := op.invoked + time.Duration(call.seq)*op.timer.Interval; call.arrived < due-time.Millisecond {
			fault("%s: %v early", call, due-call.arrived)
		}
		if pops[op] == nil {
			pops[op] = map[int][]*siteCall{}
		}
		pops[op][call.seq] = append(pops[op][call.seq], call)
		c.judgeOld(fault, op, byKey[op.key], call)
	}
	for _, ops := range byKey {
		for i, op := range ops {
			if op.kind != remove {
				c.judgePops(fault, op, ops, ops[i+1:], pops[op])
			}
		}
	}
	c.judgeEnd(fault, byKey)
	return wrong
}

// unordered reports whether the clocks of two sites, which did not hear each other, decide which of two writes is the later.
func unordered(a, b *siteOperation) bool {
	apart := max(a.invoked-b.invoked, b.invoked-a.invoked)
	return a != b && a.site != b.site && !a.everywhere() && !b.everywhere() && apart < clocksApart
}

// judgeOld judges a callback that comes after a later write was acknowledged.
func (c *siteCluster) judgeOld(fault func(string, ...any), op *siteOperation, ops []*siteOperation, call *siteCall) {
	for _, later := range ops {
		if later.invoked <= op.invoked || unordered(op, later) || later.outcome != acknowledged || call.arrived <= later.returned {
			continue
		}
		until := later.returned
		switch {
		case later.everywhere() && !later.receipt.InFlight:
		case later.everywhere():
			until += 2*time.Second + 50*time.Millisecond
		default:
			until += 2*time.Second + 50*time.Millisecond
			for i := range c.setting.faults {
				if f := &c.setting.faults[i]; f.at <= until+toldAfter { // a fault may follow before the site was told
					until = max(until, f.ends()+toldAfter)
				}
			}
			if c.setting.during(later.invoked, call.arrived, func(f *siteFault) bool { return f.kind.loses() || f.kind == oneWiped }) {
				return // the site that alone had the write was lost
			}
		}
		if call.arrived > until {
			fault("%s: old %v after %s", call, call.arrived-later.returned, later)
		}
	}
}

// judgePops judges the pops of a write, up to the next write.
func (c *siteCluster) judgePops(fault func(string, ...any), op *siteOperation, all, later []*siteOperation, pops map[int][]*siteCall) {
	until := time.Duration(1<<62 - 1)
	for _, next := range later {
		until = min(until, next.invoked)
	}
	asked, late := op.timer.Pops(), siteLate+c.setting.timing.poll*5/4+4*c.setting.far
	for seq := 1; seq <= asked; seq++ {
		calls := pops[seq]
		due := op.returned + time.Duration(seq)*op.timer.Interval
		if due+overdueAtMost > c.now() {
			continue
		}
		c.judgeTwice(fault, calls)
		came := due + busy
		if len(calls) > 0 {
			came = max(due, calls[0].arrived)
		}
		hurt := c.setting.during(op.invoked, came, anySiteFault)
		switch {
		case op.outcome != acknowledged, slices.ContainsFunc(all, func(other *siteOperation) bool { return unordered(op, other) }):
		case len(calls) == 0 && until < due+overdueAtMost:
		case len(calls) == 0 && hurt && seq < asked: // a later pop may have come instead
		case len(calls) == 0 && !op.everywhere() && c.setting.during(op.invoked, came, func(f *siteFault) bool { return f.kind.loses() || f.kind == oneWiped }):
		case len(calls) == 0 && c.bothLost(op.invoked, came):
		case len(calls) == 0:
			fault("pop %d, due by %v, is lost: %s", seq, due, op)
		case calls[0].arrived > due+late && !hurt && until > calls[0].arrived:
			if seq == 1 || pops[seq-1] == nil || pops[seq-1][len(pops[seq-1])-1].answered+late < calls[0].arrived {
				fault("%s: %v late without a fault: %s", calls[0], calls[0].arrived-due, op)
			}
		case calls[0].arrived > c.healed(due)+overdueAtMost:
			fault("%s: %v late: %s", calls[0], calls[0].arrived-due, op)
		}
	}
}

// bothLost reports whether one site lost data while the other site, which had lost data, was not filled yet.
func (c *siteCluster) bothLost(from, to time.Duration) bool {
	return slices.ContainsFunc(c.setting.faults, func(a siteFault) bool {
		loses := func(f *siteFault) bool { return f.kind.loses() || f.kind == oneWiped }
		return loses(&a) && a.at <= to &&
			slices.ContainsFunc(c.setting.faults, func(b siteFault) bool {
				return loses(&b) && b.site != a.site && b.at >= a.at && b.at < c.setting.filled(&a) && b.ends() >= from
			})
	})
}

// filled is when a site that has lost data is filled: a fault amid the fill has the fill begin again.
func (s *siteSetting) filled(lost *siteFault) time.Duration {
	by := lost.ends() + filling
	for i := range s.faults {
		if f := &s.faults[i]; f.at >= lost.at && f.at < by {
			by = max(by, f.ends()+filling)
		}
	}
	return by
}

// healed is the end of the faults that were under way at an instant.
func (c *siteCluster) healed(at time.Duration) time.Duration {
	for i := range c.setting.faults {
		if f := &c.setting.faults[i]; f.at <= at+overdueAtMost && f.ends() > at {
			at = f.ends()
		}
	}
	return at
}

func (c *siteCluster) judgeTwice(fault func(string, ...any), calls []*siteCall) {
	var first *siteCall
	for _, call := range calls {
		if first != nil && !c.setting.during(first.arrived, call.arrived, anySiteFault) {
			fault("%s: had been answered at %v, by node %s", call, first.answered, first.node)
		}
		if first != nil && call.webhookID != first.webhookID {
			fault("%s: another webhook-id than %s", call, first.webhookID)
		}
		if call.ok && first == nil {
			first = call
		}
	}
}

// judgeEnd compares the sites at the end.
func (c *siteCluster) judgeEnd(fault func(string, ...any), byKey map[string][]*siteOperation) {
	if len(c.log.marks) > 0 {
		fault("marks are left: %s", strings.Join(c.log.marks[:min(len(c.log.marks), 5)], ", "))
	}
	for site := range twoSites {
		for key, copies := range c.log.copies[site] {
			others := c.log.copies[1-site][key]
			if want := min(2, c.setting.shards); len(copies) != want {
				fault("%s has %d copies in %s, want %d", key, len(copies), twoSites[site], want)
			}
			switch {
			case len(others) == 0:
				fault("%s has no copy in %s: %s", key, twoSites[1-site], byKey[key][len(byKey[key])-1])
			case others[0].State.Compare(copies[0].State) != 0:
				fault("%s is %+v in %s, and %+v in %s", key, copies[0].State, twoSites[site], others[0].State, twoSites[1-site])
			}
			if last := byKey[key][len(byKey[key])-1]; last.outcome == acknowledged && last.kind == remove && last.everywhere() {
				fault("%s is alive in %s after %s", key, twoSites[site], last)
			}
		}
	}
	for key, ops := range byKey {
		last := ops[len(ops)-1]
		if last.outcome == acknowledged && last.kind != remove && last.timer.Interval > time.Hour && len(c.log.copies[0][key])+len(c.log.copies[1][key]) == 0 &&
			!slices.ContainsFunc(ops, func(o *siteOperation) bool { return unordered(last, o) }) && !c.bothLost(last.invoked, c.now()) && (last.everywhere() || !c.setting.during(last.invoked, c.now(), func(f *siteFault) bool { return f.kind.loses() })) {
			fault("no copy of %s: %v", key, ops)
		}
	}
}

// TestAFaultAmidTheFillProlongsTheFill: data of both sites may be lost until the fill that was disturbed is over.
func TestAFaultAmidTheFillProlongsTheFill(t *testing.T) {
	t.Parallel()
	s := siteSetting{faults: []siteFault{
		{kind: siteWiped, at: 100 * time.Second, last: 5 * time.Second},
		{kind: sitesCut, at: 110 * time.Second, last: 60 * time.Second},
		{kind: siteWiped, site: 1, at: 300 * time.Second, last: 5 * time.Second},
	}}
	if got, want := s.filled(&s.faults[0]), 170*time.Second+filling; got != want {
		t.Errorf("filled by %v, want %v", got, want)
	}
	if got, want := s.filled(&s.faults[2]), 305*time.Second+filling; got != want {
		t.Errorf("the last loss: filled by %v, want %v", got, want)
	}
	c := &siteCluster{setting: s}
	if c.bothLost(0, 400*time.Second) {
		t.Error("the second site lost data after the first was filled, and counts as lost with the first")
	}
	c.setting.faults[2].at = 180 * time.Second
	if !c.bothLost(0, 400*time.Second) {
		t.Error("the second site lost data before the first was filled, and does not count as lost with the first")
	}
}

// TestAnUnorderedDeleteMayWin: which of two writes of a cut is the later one is for the clocks; any other delete is over.
func TestAnUnorderedDeleteMayWin(t *testing.T) {
	t.Parallel()
	in := func(site int, kind siteOperationKind, at time.Duration, sites int) *siteOperation {
		return &siteOperation{
			site: site, kind: kind, key: "k", invoked: at, returned: at, outcome: acknowledged,
			receipt: timer.Receipt{Sites: sites, AllSites: 2}, timer: timer.Timer{Interval: 10 * time.Hour},
		}
	}
	for name, want := range map[string]struct {
		before *siteOperation
		faults int
	}{
		"a delete at the other site, in the cut":           {in(0, remove, 95*time.Second, 1), 0},
		"a delete at the same site":                        {in(1, remove, 95*time.Second, 1), 1},
		"a delete at the other site, of which both heard":  {in(0, remove, 95*time.Second, 2), 1},
		"a delete at the other site, long before the last": {in(0, remove, 10*time.Second, 1), 1},
	} {
		c, found := &siteCluster{start: time.Now()}, 0
		c.judgeEnd(func(string, ...any) { found++ }, map[string][]*siteOperation{"k": {want.before, in(1, replace, 100*time.Second, 1)}})
		if found != want.faults {
			t.Errorf("%s: %d faults, want %d", name, found, want.faults)
		}
	}
}
