package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// ask looks at the other copies of what is about to be fenced (rule "compare before firing") and
// returns those claims that may go on. Where another copy is newer, the claim's copy becomes
// that state. Where another copy is firing, the claim waits for the end of the callback, and
// it waits for a better copy of its version (rule "yield to the better copy"). A claim is left to
// upgraded nodes while another copy is in a later format and not older. Only a shard that
// is silent is done without: one slow answer is not silence, and the question is put again,
// by those who wait longer. A claim that needs a silent shard is left to another node that
// reaches the shard.
func (l *lane) ask(ctx context.Context, batch []*claim, patience time.Duration) (free []*claim) {
	now := l.d.config.SinceBoot()
	for _, c := range batch {
		if c.began == 0 {
			c.asked, c.other = now, otherCopy{}
		}
	}
	l.question(ctx, questions(batch), patience)
	var unanswered []*claim
	for _, c := range batch {
		switch {
		case c.began != 0:
			free = append(free, c)
		case c.other.newer != nil:
			l.d.freeSlot(c)
			l.adoptions.Put(adoption{c, c.other.newer})
		case c.other.wait > 0:
			l.d.putBack(c, c.other.wait)
		case c.other.later:
			l.d.putBack(c, laterPause)
		case c.other.unanswered:
			unanswered = append(unanswered, c)
		case c.leftToOthers():
			l.d.putBack(c, 0) // so that the other node's next poll comes before this node's second poll
		default:
			free = append(free, c)
		}
	}
	if len(unanswered) > 0 {
		if patience == timing.LateAskPatience {
			awake.Sleep(ctx, fencePause)
		}
		l.held.fences.Put(unanswered...)
	}
	return free
}

// question puts the questions, all at once, and has the claims know the answers.
func (l *lane) question(ctx context.Context, asks []question, patience time.Duration) {
	if len(asks) == 0 {
		return
	}
	var wg sync.WaitGroup
	for i := range asks[1:] {
		wg.Go(func() { asks[i+1].put(ctx, l.d, patience) })
	}
	asks[0].put(ctx, l.d, patience)
	wg.Wait()
	for i := range asks {
		asks[i].weigh()
		asks[i].promote(ctx, l.d)
	}
}

// question is what one shard is asked.
type question struct {
	shard       *shard.Shard
	claims      []*claim
	places      []shard.Place // on the shard, of the claims' timers
	states      []store.KeyState
	differences []store.Difference
	err         error
	outranked   []store.Write // of better copies that have another rank since the shards have changed
}

// questions are those that claims which haven't been fenced yet raise.
func questions(batch []*claim) (asks []question) {
	fenced := func(c *claim) bool { return c.began != 0 } // it is only the fence's answer that is missing
	return questionsOf(slices.DeleteFunc(slices.Clone(batch), fenced))
}

// questionsOf are those that claims raise.
func questionsOf(batch []*claim) (asks []question) {
	for _, c := range batch {
		for _, p := range c.witnesses() {
			if p.Shard.Away() {
				continue
			}
			i := 0
			for i < len(asks) && asks[i].shard != p.Shard {
				i++
			}
			if i == len(asks) {
				asks = append(asks, question{shard: p.Shard})
			}
			asks[i].claims, asks[i].places = append(asks[i].claims, c), append(asks[i].places, p)
			asks[i].states = append(asks[i].states, store.KeyState{Key: c.Lease.Key, State: c.Record.State, Better: c.better(p) && p.Shard.Usable() && p.Shard.Reach() < shard.Late})
		}
	}
	return asks
}

// witnesses are the places that are asked about the claim. A PUT that could not ask the
// first owner takes its timer for new, and leaves two copies where there may have been
// one: so the one copy of a timer asks the second owner, too, while its shard has been
// away lately, or lacks something.
func (c *claim) witnesses() []shard.Place {
	d := c.lane.d
	if c.Record.ID.RF != 1 || c.lane.shard.GapFor(d.config.TombLife) == 0 {
		return c.others
	}
	ranked := d.store.Rank(c.Record.ID.Key)
	if len(ranked) < 2 {
		return c.others
	}
	return shard.WithPlace(slices.Clone(c.others), shard.Place{Shard: d.shards.Shard(ranked[1]), Rank: 1})
}

// leftToOthers reports whether another node reaches a shard of the timer that this node does not
// reach (rule "do without silent shards"). The other node polls these partitions, since this
// node lacks a shard.
func (c *claim) leftToOthers() bool {
	return c.overdue() < timing.LeftToOthers &&
		slices.ContainsFunc(c.witnesses(), func(p shard.Place) bool { return c.lane.shard.OtherReaches(p.Shard) })
}

func (q *question) put(ctx context.Context, d *Dispatcher, patience time.Duration) {
	bounded, cancel := d.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	if patience > shard.SilenceLook {
		q.shard.Answers.Cut(bounded, cancel) // nobody waits for it then
	}
	began := q.shard.Answers.Begin()
	q.differences, q.err = d.store.Ask(bounded, q.shard.Name, q.states)
	q.shard.Answers.Answered(began, q.err)
}

// otherCopy is what the other copies say of a claim.
type otherCopy struct {
	newer      *shard.Shard  // has a newer state than the claim's, the newest of all
	state      timer.State   // that one
	wait       time.Duration // for a callback of another copy, or for a better copy
	unanswered bool          // by a shard that isn't silent
	later      bool          // by a copy that only a later chronos can read, and which may be newer
}

// laterPause is how long a claim is put back whose other copy only upgraded nodes can read.
const laterPause = time.Second

// weigh keeps for each claim the newest state that is newer than its own, and how
// long the claim is to wait for other copies.
func (q *question) weigh() {
	if q.err != nil && !errors.Is(q.err, timer.ErrRefused) && !q.shard.Away() {
		for _, c := range q.claims {
			c.other.unanswered = true
		}
	}
	for i := range q.differences {
		d := &q.differences[i]
		c := q.claims[d.Index]
		o := &c.other
		newest := c.Record.State
		if o.newer != nil {
			newest = o.state
		}
		switch {
		case d.Missing:
		case d.Later:
			o.later = o.later || d.State.Version > c.Record.State.Version ||
				d.State.Version == c.Record.State.Version && c.overdue() < timing.LeftToOthers
		case q.states[d.Index].Better && d.LookIn >= 0 && d.State.Version == c.Record.State.Version && !d.State.Ended:
			o.wait = max(o.wait, q.yield(c, d))
		case d.State.Compare(newest) > 0:
			o.newer, o.state = q.shard, d.State
		}
		if d.Firing > 0 {
			o.wait = max(o.wait, d.Firing+time.Millisecond)
		}
	}
}

// yield is how long the claim waits for a better copy of its version. A copy that nobody has
// claimed yet is claimed now.
func (q *question) yield(c *claim, d *store.Difference) time.Duration {
	p := q.places[d.Index]
	behind := time.Duration(max(1, c.own.Rank-p.Rank)) * c.skew()
	wait := d.LookIn + behind
	switch {
	case d.LookIn > 0 && d.State == c.Record.State && c.lane.d.shards.Changing(c.Lease.Key):
		q.outranked = append(q.outranked, store.Rank(p.Copy(c.Record.ID), &c.Record, 0, -time.Millisecond))
		wait = behind
	case d.LookIn == 0:
		q.shard.PokeIfSoon(c.Lease.Partition, 0)
	case q.shard.Answers.Tardy.Load():
		wait = min(wait, hesitation) // the shard may be slow by then, and what waits there be put off
	}
	return wait
}

// promote gives better copies that wait as the backups that they were before the shards
// changed the rank that they have now: the sweep has not come to them yet. They are due as
// the claims are. A copy that is leased by now stays as it is.
func (q *question) promote(ctx context.Context, d *Dispatcher) {
	if len(q.outranked) == 0 {
		return
	}
	bounded, cancel := d.config.Awake.WithTimeout(ctx, timing.TellPatience)
	defer cancel()
	for _, told := range d.store.Tell(bounded, q.shard.Name, q.outranked) {
		if told.Err == nil { // what could not be told waits, as before
			q.shard.PokeIfSoon(told.Partition, 0)
		}
	}
}
