package dispatch

import (
	"context"
	"sync"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// hesitation is the delay before a copy is looked at again, if the shard of a better copy answers
// late, or a newer copy could not be read.
const hesitation = 250 * time.Millisecond

// adoption is a claim whose copy is to adopt the newer state of the copy on another shard.
type adoption struct {
	claim *claim
	from  *shard.Shard
}

// adopt brings copies up to newer states on other shards. Adoptions have loops of their own, so
// that no callback waits for a shard that answers late.
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

// adoptFrom writes under the leases of the copies: a write does nothing once the lease is gone.
func (l *lane) adoptFrom(ctx context.Context, from *shard.Shard, batch []*claim) {
	bounded, cancel := l.d.config.Awake.WithTimeout(ctx, timing.CopyPatience)
	defer cancel()
	spots := make([]store.Spot, len(batch))
	for i, c := range batch {
		spots[i] = store.Spot{Shard: from.Name, Key: c.Lease.Key}
	}
	var adopted []*claim
	var writes []store.Write
	for i, read := range l.d.store.Read(bounded, spots) {
		c := batch[i]
		if !c.Record.State.Lacks(read.Record.State) {
			c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: hesitation}) // the newer state couldn't be read, or is gone by now
			continue
		}
		adopted, writes = append(adopted, c), append(writes, l.d.copies.CopyOf(&read, c.own).Under(c.Lease.Token))
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
		l.shard.PokeIfSoon(written.Partition, written.Wait) // the timer may be due, with the revision that it has now
	}
	l.shard.Log.Debug("copies were brought up to newer ones", "count", len(adopted), "from", from.Name)
}
