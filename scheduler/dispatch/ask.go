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

// ask compares claims with the other copies before the fence (rule "compare before firing") and
// returns the claims that may go on. A claim adopts a newer state. A claim waits for the end of
// another copy's callback, and for a better copy of the same version (rule "yield to the better
// copy"). A claim is left to upgraded nodes while another copy is in a later format and not older.
// The node does without silent shards only: one slow answer is not silence, so an unanswered
// question is put again, with more patience. A claim that needs a silent shard is left to another
// node that reaches the shard.
func (l *lane) ask(ctx context.Context, batch []*claim, patience time.Duration) (free []*claim) {
	now := l.d.config.SinceBoot()
	for _, c := range batch {
		if c.began == 0 {
			c.relocate() // by the places of before a change, each of two copies may take the other for the better copy
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
			l.d.putBack(c, -timing.LeftToOthers) // due as before: the other node looks for overdue timers alone
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

// question puts all questions at the same time, and notes the answers in the claims.
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

// question is the question to one shard about several claims.
type question struct {
	shard       *shard.Shard
	claims      []*claim
	places      []shard.Place // on the shard, of the claims' timers
	states      []store.KeyState
	differences []store.Difference
	err         error
	promotions  []promotion
}

// promotion has a better copy come due that waits though the turn of its rank has passed.
type promotion struct {
	write store.Write
	of    *claim        // which waits for the better copy
	lease time.Duration // how long the claim waits if the better copy is leased
}

// questions are the questions about the claims for which no fence was asked for yet.
func questions(batch []*claim) (asks []question) {
	fenced := func(c *claim) bool { return c.began != 0 } // only the answer of the fence is missing
	return questionsOf(slices.DeleteFunc(slices.Clone(batch), fenced))
}

// questionsOf are the questions about all claims of a batch, one question a shard.
func questionsOf(batch []*claim) (asks []question) {
	for _, c := range batch {
		for _, p := range c.witnesses() {
			if p.Shard.AwayFor(c.Record.Timer.Callback.Timeout) {
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
			asks[i].states = append(asks[i].states, store.KeyState{Key: c.Lease.Key, State: c.Record.State, Better: c.better(p) && !p.Shard.Failed() && p.Shard.Reach() < shard.Late})
		}
	}
	return asks
}

// witnesses are the places that are asked about the claim. A PUT that could not ask the first
// owner takes the timer as new, and may leave a second copy of a one-copy timer. The claim of a
// one-copy timer therefore asks the second owner, too, if the claim's shard was away lately or
// lacks something.
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
// reach, and may be calling back (rule "do without silent shards"). The other node polls these partitions, since this node
// lacks a shard.
func (c *claim) leftToOthers() bool {
	return c.overdue() < timing.LeftToOthers+c.beyond() &&
		slices.ContainsFunc(c.witnesses(), func(p shard.Place) bool { return c.lane.shard.OtherReaches(p.Shard) })
}

func (q *question) put(ctx context.Context, d *Dispatcher, patience time.Duration) {
	bounded, cancel := d.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	if patience > shard.SilenceLook {
		q.shard.Answers.Cut(bounded, cancel) // nobody waits for the shard once the shard is silent
	}
	began := q.shard.Answers.Begin()
	q.differences, q.err = d.store.Ask(bounded, q.shard.Name, q.states)
	q.shard.Answers.Answered(began, q.err)
}

// otherCopy sums up the answers of the other copies about a claim.
type otherCopy struct {
	newer      *shard.Shard  // with the newest state, if newer than the claim's state
	state      timer.State   // the newest state
	wait       time.Duration // for a callback of another copy, or for a better copy
	unanswered bool          // by a shard that isn't silent
	later      bool          // only a later chronos can read a copy, and the copy may be newer
}

// laterPause is how long a claim is put back if only upgraded nodes can read another copy.
const laterPause = time.Second

// weigh notes in each claim the newest state that is newer than the claim's state, and how long
// the claim waits for other copies.
func (q *question) weigh() {
	if q.err != nil && !errors.Is(q.err, timer.ErrRefused) {
		for _, c := range q.claims {
			c.other.unanswered = !q.shard.AwayFor(c.Record.Timer.Callback.Timeout)
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
		case q.states[d.Index].Better && !c.isPassedBy(d.State) && d.LookIn >= 0 && d.State.Version == c.Record.State.Version && !d.State.Ended:
			o.wait = max(o.wait, q.yield(c, d))
		case newest.Lacks(d.State):
			o.newer, o.state = q.shard, d.State
		}
		if d.Firing > 0 {
			o.wait = max(o.wait, d.Firing+time.Millisecond)
		}
	}
}

// isPassedBy reports whether another copy waits for a later pop, so that this copy has missed an
// outcome. The outcome of a pop that has had an attempt is still to come, or is a retry.
func (c *claim) isPassedBy(s timer.State) bool { return s.Seq > c.Record.State.Seq && s.Attempt == 0 }

// yield is how long the claim waits for a better copy of the same version. A due copy that nobody
// has claimed yet is claimed now. The turn of the better copy's rank has passed by now, so a better
// copy that is not due waits for a lease, for a retry, or out of turn.
func (q *question) yield(c *claim, d *store.Difference) time.Duration {
	p := q.places[d.Index]
	behind := time.Duration(max(1, c.own.Rank-p.Rank)) * c.skew()
	wait := d.LookIn + behind
	if promoted, ok := c.promote(p, d); ok {
		q.promotions = append(q.promotions, promotion{promoted, c, wait})
		wait = behind
	}
	switch {
	case d.LookIn == 0:
		q.shard.PokeIfSoon(c.Lease.Partition, 0)
	case q.shard.Answers.Tardy.Load():
		wait = min(wait, hesitation) // the shard may be slow by then, and the better copy put off
	}
	return wait
}

// promote is the write that has a better copy come due, if the better copy waits out of turn: a copy in an
// earlier state has missed the callback of a pop that was hastened, and a copy in the same state has missed that the
// pop was hastened, or waits by a former rank.
func (c *claim) promote(p shard.Place, d *store.Difference) (promoted store.Write, ok bool) {
	if d.LookIn <= 0 || d.Firing > 0 {
		return store.Write{}, false
	}
	order := d.State.Compare(c.Record.State)
	switch {
	case d.State.Attempt == 0 && (order < 0 || order == 0 && c.hastened()):
		return store.Hasten(p.Copy(c.Record.ID), d.State, 0), true
	case order == 0 && (d.State.Attempt == 0 || !c.own.Home || c.Record.Rank < c.own.Rank):
		return store.Rank(p.Copy(c.Record.ID), &c.Record, 0, -time.Millisecond), true
	}
	return store.Write{}, false
}

// promote has better copies come due that wait out of turn: by the rank of before a change of the
// shards, or for another copy that waits, too. A leased copy stays as it is.
func (q *question) promote(ctx context.Context, d *Dispatcher) {
	if len(q.promotions) == 0 {
		return
	}
	bounded, cancel := d.config.Awake.WithTimeout(ctx, timing.TellPatience)
	defer cancel()
	writes := make([]store.Write, len(q.promotions))
	for i := range q.promotions {
		writes[i] = q.promotions[i].write
	}
	for i, told := range d.store.Tell(bounded, q.shard.Name, writes) {
		switch p := &q.promotions[i]; {
		case told.Err != nil: // the better copy waits, as before
		case told.Status == store.WriteLeased:
			p.of.other.wait = max(p.of.other.wait, p.lease)
		default:
			q.shard.PokeIfSoon(told.Partition, 0)
		}
	}
}
