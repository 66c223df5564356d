package replica

import (
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/timer"
)

// Delay is a new version of a timer that was read, which goes on with the pops: the next pop, or the retry
// that the timer waits for, comes later by so much, and so do the pops behind (rule "delay"). Errors:
// timer.ErrFiring; *timer.InvalidError, if the pop would come too late.
func (k *Keeper) Delay(read Read, by time.Duration) (Wish, error) {
	r := &read.newest.Record
	due := read.newest.next(k.shards) + by
	switch {
	case read.firing:
		return Wish{}, timer.ErrFiring
	case due > timer.MaxInterval:
		return Wish{}, timer.DelayRange()
	}
	t := r.Timer
	if !t.At.IsZero() {
		t.At = t.At.Add((due - read.newest.DueIn).Round(time.Millisecond))
	}
	w := k.NewWish(timer.ID{Key: r.ID.Key, RF: r.ID.RF}, &t)
	w.Begun, w.goesOn = read.answer, &goingOn{seq: r.State.Seq, leftOut: r.LeftOut, due: due}
	found := read.present
	found.Seq, found.Attempt = r.State.Seq, r.State.Attempt
	return k.If(w, found), nil
}

// next is how long until the copy's next pop is due, or the retry that the copy waits for. A copy that is
// leased is due, unless a node has the copy ahead of the due time.
func (f *finding) next(shards *shard.Registry) time.Duration {
	r := &f.Record
	early := f.LookIn < f.DueIn // the pop was hastened
	switch {
	case f.Leased && (early || r.State.Attempt > 0):
		return 0
	case f.Leased, r.State.Attempt == 0 && !early:
		return f.DueIn
	}
	return f.LookIn - shards.Spacing(r).Of(r.Rank)
}
