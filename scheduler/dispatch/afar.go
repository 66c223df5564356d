package dispatch

import (
	"context"

	"chronos/scheduler/site"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// compareAfar compares claims with the copies of other sites, before the claims wait for their time (rule "in touch"). The claims
// hold no slot meanwhile.
func (l *lane) compareAfar(ctx context.Context, batch []*claim) {
	now, questions := l.d.config.SinceBoot(), make([]site.Question, len(batch))
	for i, c := range batch {
		questions[i] = site.Question{Shard: l.shard.Name, Record: &c.Record, Overdue: c.overdue()}
	}
	for i, v := range l.d.sites.Ask(ctx, questions) {
		c := batch[i]
		switch {
		case v.Adopted:
			c.done()
			l.shard.PokeIfSoon(c.Lease.Partition, 0)
		case v.Over:
			c.settle(store.Settlement{Outcome: store.OutcomeDone})
		case v.Wait > 0:
			c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: v.Wait})
		default:
			c.afar = now
			l.d.turnAt(c.look, c)
		}
	}
}

// inTouch reports whether the claim's callback may begin as far as other sites are concerned, and notes since when that was
// known: by a comparison with the other sites a moment ago, or because the home is in touch. Without other sites nothing is noted.
func (c *claim) inTouch() bool {
	if c.lane.d.sites.None() {
		return true
	}
	since, free := c.lane.d.sites.Free(&c.Record, c.overdue())
	if free {
		c.afar = since
		return true
	}
	return c.afar != 0 && c.lane.d.config.SinceBoot()-c.afar < timing.TouchLife
}

// marks reports whether the other sites have to hear of the outcome of the claim: nobody compares with them before the
// timer's home calls back, and the home may not know of a write elsewhere (rule "outcomes go to the other sites").
func (c *claim) marks() bool {
	sites := c.lane.d.sites
	if sites.None() || c.settlement.Outcome == store.OutcomeRelease || c.Record.State.Ended || !c.fenced.Counts() {
		return false
	}
	if !sites.AtHome(&c.Record) {
		return true
	}
	return c.after().Ended && !sites.Sure(&c.Record)
}

// markAfar marks the timers whose outcomes other sites have to hear of. A callback whose outcome can't be marked may come again
// from another site.
func (l *lane) markAfar(ctx context.Context, batch []*claim) {
	if l.d.sites.None() {
		return
	}
	var keys []string
	for _, c := range batch {
		if c.marks() {
			keys = append(keys, c.Lease.Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	bounded, cancel := l.d.config.Awake.WithTimeout(ctx, timing.TellPatience)
	defer cancel()
	if err := l.d.sites.MarkOutcomes(bounded, l.shard.Name, keys); err != nil {
		l.shard.Log.Debug("outcomes could not be marked for the other sites", "count", len(keys), "err", err)
	}
}

// tellAfar hands on the settled outcome for the other sites.
func (c *claim) tellAfar() {
	sites := c.lane.d.sites
	if sites.None() || c.settlement.Outcome == store.OutcomeRelease || c.Record.State.Ended || !c.fenced.Counts() {
		return
	}
	out := site.Outcome{Record: &c.Record, After: c.after(), Failure: c.failure(), LeftOut: c.leftOut()}
	if c.settlement.Outcome == store.OutcomeAgain {
		out.Retry = max(c.settlement.Delay, 1)
	}
	sites.Told([]site.Outcome{out})
}
