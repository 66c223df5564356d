package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/replica"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// heldPatience leaves time to connect over a slow link, too. The lease may end
// meanwhile; the next claim's question finds the shard connected.
const heldPatience = 2 * time.Second

// ask looks at the other copies of what is about to be fenced (rule "compare before firing") and
// returns those claims that may go on. Where another copy is newer, the claim's copy becomes
// that state; where another copy is firing, the claim waits for the end of the callback. Only a
// shard that is silent is done without: one slow answer is not silence, and the
// question is put again, by those who wait longer.
func (l *lane) ask(ctx context.Context, batch []*claim, patience time.Duration) (free []*claim) {
	asks := questions(batch)
	if len(asks) == 0 {
		return batch
	}
	now := l.d.config.SinceBoot()
	for _, c := range batch {
		if c.began == 0 {
			c.asked, c.other = now, otherCopy{}
		}
	}
	l.question(ctx, asks, patience)
	var unanswered []*claim
	for _, c := range batch {
		switch {
		case c.began != 0:
			free = append(free, c)
		case c.other.newer != nil:
			l.d.freeSlot(c)
			l.adoptions.Put(adoption{c, c.other.newer})
		case c.other.firing > 0:
			l.d.freeSlot(c)
			c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: c.other.firing + time.Millisecond})
		case c.other.unanswered:
			unanswered = append(unanswered, c)
		default:
			free = append(free, c)
		}
	}
	if len(unanswered) > 0 {
		if patience == heldPatience {
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
	}
}

// question is what one shard is asked.
type question struct {
	shard       *shard.Shard
	claims      []*claim
	states      []store.KeyState
	differences []store.Difference
	err         error
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
			asks[i].claims = append(asks[i].claims, c)
			asks[i].states = append(asks[i].states, store.KeyState{Key: c.Lease.Key, State: c.Record.State})
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
	if c.Record.ID.RF != 1 || c.lane.shard.MissedFor() == 0 && c.lane.shard.Answers.LostFor(d.config.TombLife) == 0 {
		return c.others
	}
	ranked := d.store.Rank(c.Record.ID.Key)
	if len(ranked) < 2 {
		return c.others
	}
	return shard.WithPlace(slices.Clone(c.others), shard.Place{Shard: d.shards.Shard(ranked[1]), Rank: 1})
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
	newer      *shard.Shard // has a newer state than the claim's, the newest of all
	state      timer.State  // that one
	firing     time.Duration
	unanswered bool // by a shard that isn't silent
}

// weigh keeps for each claim the newest state that is newer than its own, and how
// long a callback elsewhere may still start.
func (q *question) weigh() {
	if q.err != nil && !errors.Is(q.err, timer.ErrRefused) && !q.shard.Away() {
		for _, c := range q.claims {
			c.other.unanswered = true
		}
	}
	for _, d := range q.differences {
		if d.Missing {
			continue
		}
		c := q.claims[d.Index]
		o := &c.other
		newest := c.Record.State
		if o.newer != nil {
			newest = o.state
		}
		if d.State.Compare(newest) > 0 {
			o.newer, o.state = q.shard, d.State
		}
		o.firing = max(o.firing, d.Firing)
	}
}

// adoption is a claim whose copy is to become what the timer's copy on another shard is.
type adoption struct {
	claim *claim
	from  *shard.Shard
}

// adopt makes copies what they are elsewhere. It has loops of its own: a shard that answers
// late may be read, and callbacks don't wait for that.
func (l *lane) adopt(ctx context.Context, batch []adoption) {
	by := make(map[*shard.Shard][]*claim, 1)
	for _, a := range batch {
		by[a.from] = append(by[a.from], a.claim)
	}
	var adopting sync.WaitGroup
	for from, claims := range by {
		adopting.Go(func() { l.adoptFrom(ctx, from, claims) })
	}
	adopting.Wait()
}

// adoptFrom does that by leased writes, which do nothing once the lease is gone.
func (l *lane) adoptFrom(ctx context.Context, from *shard.Shard, batch []*claim) {
	bounded, cancel := l.d.config.Awake.WithTimeout(ctx, replica.CopyPatience)
	defer cancel()
	spots := make([]store.Spot, len(batch))
	for i, c := range batch {
		spots[i] = store.Spot{Shard: from.Name, Key: c.Lease.Key}
	}
	var adopted []*claim
	var writes []store.Write
	for i, read := range l.d.store.Read(bounded, spots) {
		c := batch[i]
		if read.Record.State.Compare(c.Record.State) <= 0 {
			c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: hesitation}) // it couldn't be read, or is gone by now
			continue
		}
		w := l.d.copies.CopyOf(&read, c.own)
		w.Token = c.Lease.Token
		adopted, writes = append(adopted, c), append(writes, w)
	}
	if len(writes) == 0 {
		return
	}
	for i, written := range l.d.store.Tell(bounded, l.shard.Name, writes) {
		if written.Err != nil {
			adopted[i].settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: hesitation})
			continue
		}
		adopted[i].done()
	}
	l.shard.Log.Debug("copies were brought up to newer ones", "count", len(adopted), "from", from.Name)
}
