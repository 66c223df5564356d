package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// tell merges the outcomes into the other copies (rule "tell every copy the outcome"). Copies on
// shards that are no owners come first, so that nobody brings back a copy that has just been
// removed. The owners' copies follow; the leased copy comes last, with the settlement. A copy that
// could not be told finds the outcome later: a next pop or a retry is newer, and an end leaves a
// tombstone in the leased copy that names the missed copies. The other owners keep a tombstone of
// the same end for copies that ask (lasting). tell waits for the other copies as long as patience
// says.
func (l *lane) tell(ctx context.Context, batch []*claim, patience time.Duration) {
	var away, home []message
	for _, c := range batch {
		if !c.tells() {
			continue
		}
		c.told = true
		if c.relocate() {
			c.fit()
		}
		for _, p := range c.others {
			switch {
			case p.Shard.Away():
				c.untold(p)
			case p.Home:
				home = append(home, message{claim: c, to: p})
			default:
				away = append(away, message{claim: c, to: p})
			}
		}
	}
	if len(away)+len(home) == 0 {
		return
	}
	bounded, cancel := l.d.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	l.d.send(bounded, away)
	l.d.send(bounded, home)
	l.d.send(bounded, lasting(batch))
}

// message is an outcome for another copy.
type message struct {
	claim *claim
	to    shard.Place
	lasts bool // an end that leaves a tombstone
}

// send tells every shard its messages, all shards at the same time.
func (d *Dispatcher) send(ctx context.Context, messages []message) {
	if len(messages) == 0 {
		return
	}
	slices.SortStableFunc(messages, func(a, b message) int { return cmp.Compare(a.to.Shard.Index, b.to.Shard.Index) })
	var mu sync.Mutex // guards the claims
	var wg sync.WaitGroup
	for len(messages) > 0 {
		to := messages[0].to.Shard
		n := 1
		for n < len(messages) && messages[n].to.Shard == to {
			n++
		}
		share := messages[:n]
		if messages = messages[n:]; len(messages) == 0 {
			d.sendTo(ctx, to, share, &mu)
			break
		}
		wg.Go(func() { d.sendTo(ctx, to, share, &mu) })
	}
	wg.Wait()
}

func (d *Dispatcher) sendTo(ctx context.Context, to *shard.Shard, share []message, mu *sync.Mutex) {
	writes := make([]store.Write, len(share))
	for i, m := range share {
		writes[i] = m.claim.outcomeFor(m.to, m.lasts)
	}
	began := to.Answers.Begin()
	answers := d.store.Tell(ctx, to.Name, writes)
	to.Answers.Answered(began, answers[0].Err)
	mu.Lock()
	defer mu.Unlock()
	for i, m := range share {
		m.claim.heard(m.to, &answers[i])
	}
}

// heard takes a copy's answer to an outcome.
func (c *claim) heard(from shard.Place, answer *store.Written) {
	switch {
	case answer.Err != nil:
		c.untold(from)
	case answer.Status == store.WriteNone, answer.Status == store.WriteOlder, c.Record.State.Revised(answer.State):
		if from.Home {
			c.lacking = append(c.lacking, from)
		}
	case !from.Home:
		c.strays = append(c.strays, from)
	}
}

// untold notes a copy that still has to hear of the outcome, unless the shard is gone.
func (c *claim) untold(p shard.Place) {
	if p.Shard.Gone() {
		return
	}
	o := &c.settlement
	o.Untold = append(o.Untold, store.Away{Shard: p.Shard.Name, Rank: p.Rank})
	o.Keep = max(o.Keep, c.lane.d.config.TombLife)
}

// state is the state that the outcome is about.
func (c *claim) state() timer.State {
	if c.fenced.Counts() {
		return c.fenced.State
	}
	return c.Record.State
}

// leftOut is how many pops were left out that no successful callback has told of (rule "make up
// for overdue pops").
func (c *claim) leftOut() int {
	switch {
	case c.settlement.Reason == "":
		return 0 // the callback has told the receiver
	case c.fenced.Status == store.FenceExpired && c.settlement.Outcome == store.OutcomeNext && c.fenced.State.Attempt == 0:
		return c.fenced.LeftOut + 1 // the pop that has expired
	case c.fenced.Counts():
		return c.fenced.LeftOut
	}
	return c.Record.LeftOut
}

// after is the state that the outcome leaves.
func (c *claim) after() timer.State {
	state := c.state()
	switch c.settlement.Outcome {
	case store.OutcomeNext:
		state.Seq, state.Attempt = state.Seq+1, 0
	case store.OutcomeDone, store.OutcomeDead, store.OutcomeLetter:
		state.Ended = true
	case store.OutcomeAgain, store.OutcomeRelease:
	}
	return state
}

// outcomeFor is the write that tells the outcome to the copy at p. An end that lasts leaves a
// tombstone.
func (c *claim) outcomeFor(p shard.Place, lasts bool) store.Write {
	to, state, offset := p.Copy(c.Record.ID), c.after(), p.Offset(c.spacing())
	switch {
	case state.Ended:
		return c.endFor(p, lasts)
	case c.settlement.Outcome == store.OutcomeNext:
		return store.Next(to, state, offset, c.failure()).LeavingOut(c.leftOut())
	}
	return store.Again(to, state, c.settlement.Delay+offset, c.failure()).LeavingOut(c.leftOut())
}

func (c *claim) endFor(p shard.Place, lasts bool) store.Write {
	config, to := c.lane.d.config, p.Copy(c.Record.ID)
	end := p.Tombstone(config, c.after(), c.Record.BodyHash)
	switch {
	case !p.Home:
		end.Life = min(end.Life, timing.OvertakenLife)
		if c.lane.d.shards.Drained(to.Key, to.Shard) {
			return store.EndExisting(to, end)
		}
	case c.buried:
		end.Life = min(end.Life, timing.YoungLife)
		return store.End(to, end)
	case lasts:
		return store.End(to, end)
	}
	return store.Done(to, end)
}

// failure is why the attempt failed, for an outcome that leaves a pop.
func (c *claim) failure() store.Failure {
	if c.settlement.Reason == "" {
		return store.Failure{}
	}
	return store.Failure{Node: c.lane.d.config.Node, Reason: c.settlement.Reason}
}

// restore writes the state after the outcome to owners whose copies were missing or too old. By
// then the leased copy has accepted the outcome, since a late outcome must not bring back a timer
// that is over. restore reports whether all places that were told have a pop to come.
func (c *claim) restore(ctx context.Context) (all bool) {
	if !c.fenced.Counts() || c.settlement.Outcome == store.OutcomeRelease || c.after().Ended {
		return false
	}
	if len(c.lacking) == 0 {
		return true
	}
	all = true
	s, o := c.lane.d, &c.settlement
	bounded, cancel := context.WithDeadline(ctx, c.settled.Add(timing.CopyPatience))
	defer cancel()
	r, due := c.Record, -c.sinceDue() // of the pop that was fired
	r.State, r.Failure, r.LeftOut = c.after(), c.failure(), c.leftOut()
	for _, p := range c.lacking {
		if !c.belongs(p) {
			all = false // the shards have changed since, so maybe no owner has a copy
			continue
		}
		at := store.Times{DueIn: due, Offset: p.Offset(c.spacing())}
		at.Retry = o.Delay + at.Offset
		if o.Outcome == store.OutcomeNext {
			at.DueIn += r.Timer.Interval
			at.Offset += max(-at.DueIn, 0) // an overdue pop is looked at as if due now
		}
		told := s.store.Tell(bounded, p.Shard.Name, []store.Write{store.Copy(p.Copy(r.ID), &r, at)})[0].Err == nil
		if told {
			s.metrics.restored.Inc()
		}
		all = told && all
	}
	return all
}

// belongs reports whether a copy belongs at p now.
func (c *claim) belongs(p shard.Place) bool {
	return c.lane.d.shards.IsHome(p.Shard.Name, &store.Head{Key: c.Lease.Key, RF: c.Record.ID.RF})
}

// leave removes leftovers, since the owners' copies go on. The sweep leaves timers alone that are
// about to fire, so a timer with a short interval moves with its outcome.
func (c *claim) leave(ctx context.Context) {
	if !c.own.Home {
		c.strays = append(c.strays, c.own)
	}
	if len(c.strays) == 0 {
		return
	}
	bounded, cancel := c.lane.d.config.Awake.WithTimeout(ctx, timing.TellPatience)
	defer cancel()
	for _, p := range c.strays {
		if p.Shard.Gone() || c.belongs(p) {
			continue // the shards have changed: a copy belongs there, or may belong on a new shard of the name
		}
		c.lane.d.store.Tell(bounded, p.Shard.Name, []store.Write{store.Leave(p.Copy(c.Record.ID), c.after())})
	}
}
