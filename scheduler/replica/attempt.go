package replica

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Wish is what a client asks for: a new version of a timer, or its end.
type Wish struct {
	ID       timer.ID
	Version  timer.Version
	Timer    *timer.Timer  // nil for its end
	Begun    time.Duration // since boot
	BodyHash string        // makes it a create that happens once
	anew     bool          // that one happens again with another BodyHash once the timer is over
	Fresh    bool          // there can be no such timer yet
	Humble   bool          // what is newer stays: it is never written again above that
}

// NewWish is a new version of the timer, nil for its end.
func (k *Keeper) NewWish(id timer.ID, t *timer.Timer) Wish {
	return Wish{ID: id, Version: k.shards.NextVersion(), Timer: t, Begun: k.config.SinceBoot()}
}

// target is one copy that a wish is for.
type target struct {
	shard.Place
	progress progress
	sent     sent // of what is under way
	tried    bool // it was sent the write
	named    bool // its tombstone was told who has not heard of the end
	looked   bool // it was asked whether it still has the write, since another copy refused it
	passed   bool // it had the write, and has something newer since, or nothing any more
	answer   store.Written
}

type progress int

const (
	toTell progress = iota
	asked
	told
	untold
)

// sent is what a target was asked last.
type sent int

const (
	sentWrite sent = iota
	sentNames      // of those that have not heard of an end
	sentLook       // whether the write is still there
)

// attempt is what has become of a wish so far.
type attempt struct {
	Wish
	k       *Keeper
	targets []target
	unheard []store.Away // of an end: the places that could not be told
	decided bool         // of a create that happens once: it is the first

	writes     int // of this round
	receipt    timer.Receipt
	err        error         // of the last try
	unanswered bool          // it was sent before, and may have been executed
	above      timer.Version // what the last try lost a race to; 0 if it did not
	over       bool
}

func (k *Keeper) newAttempt(w Wish) attempt {
	a := attempt{Wish: w, k: k, decided: w.BodyHash == ""}
	if w.Fresh {
		a.begin(k.shards.Homes(w.ID))
	} else {
		a.begin(k.shards.Places(w.ID))
	}
	return a
}

func (a *attempt) begin(places []shard.Place) {
	a.targets = make([]target, len(places))
	for i, p := range places {
		a.targets[i] = target{Place: p}
	}
}

// plan appends what is to be written next. Owners come first: other places are written to
// only once an owner has answered. All of a shard that is silent is left out, and a shard
// that is gone need not be told.
func (a *attempt) plan(writes []store.Write) []store.Write {
	a.targets = slices.DeleteFunc(a.targets, func(t target) bool { return t.progress != told && t.Vanished() })
	for t := range each(a.targets) {
		if t.progress == toTell && t.Shard.Away() {
			t.progress, t.answer = untold, store.Written{Err: fmt.Errorf("%w: shard %s is silent", timer.ErrUnavailable, t.Shard.Name)}
		}
	}
	owners := slices.ContainsFunc(a.targets, func(t target) bool { return t.progress == toTell && t.Home })
	for t := range each(a.targets) {
		if t.progress != toTell || !t.Home && (owners || !a.toldOwner()) {
			continue
		}
		writes = a.send(t, sentWrite, a.writeTo(t), writes)
		if !a.decided {
			return writes // one shard decides
		}
	}
	if a.waits() {
		return writes
	}
	return a.planLooks(a.planNames(writes))
}

func (a *attempt) send(t *target, what sent, w store.Write, writes []store.Write) []store.Write {
	t.progress, t.sent = asked, what
	t.tried = t.tried || what == sentWrite
	return append(writes, w)
}

// toldOwner reports whether an owner has answered.
func (a *attempt) toldOwner() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.Home && t.progress == told })
}

// stored reports whether the target took the write.
func (t *target) stored() bool { return t.progress == told && accepted(t.answer.Status) }

func (a *attempt) waits() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.progress == asked })
}

// planNames has the tombstones that a delete has left name the places that could not be
// told: the end is not forgotten before these have heard.
func (a *attempt) planNames(writes []store.Write) []store.Write {
	if a.Timer != nil {
		return writes
	}
	a.unheard = a.unheard[:0:0]
	for t := range each(a.targets) {
		if t.progress == untold {
			a.unheard = append(a.unheard, store.Away{Shard: t.Shard.Name, Rank: t.Rank})
		}
	}
	if len(a.unheard) == 0 {
		return writes
	}
	for t := range each(a.targets) {
		if t.stored() && !t.named {
			t.named = true
			writes = a.send(t, sentNames, a.writeTo(t), writes)
		}
	}
	return writes
}

// planLooks asks those that have a write which another copy refused whether they still
// have that write.
func (a *attempt) planLooks(writes []store.Write) []store.Write {
	if !a.contested() {
		return writes
	}
	for t := range each(a.targets) {
		if t.stored() && !t.passed && !t.looked {
			t.looked = true
			writes = a.send(t, sentLook, a.lookAt(t), writes)
		}
	}
	return writes
}

// lookAt is the question which version a copy has.
func (a *attempt) lookAt(t *target) store.Write { return store.Look(t.Copy(a.ID), a.Version) }

func accepted(status store.WriteStatus) bool {
	return status == store.WriteStored || status == store.WriteSame
}

func (a *attempt) writeTo(t *target) store.Write {
	config, to := a.k.config, t.Copy(a.ID)
	if a.Timer == nil {
		end := t.Tombstone(config, timer.State{Version: a.Version}, "")
		end.Away = a.unheard
		if !t.Home && a.k.shards.Drained(a.ID.Key, to.Shard) {
			return store.EndExisting(to, end)
		}
		return store.End(to, end)
	}
	due := a.Timer.Interval - (config.SinceBoot() - a.Begun) // a later try has the grid that was asked for
	create := store.Creation{Version: a.Version, Timer: a.Timer, DueIn: due, BodyHash: a.BodyHash}
	skew := config.Skew.Of(a.Timer.Interval, a.Timer.ReplicationFactor)
	switch {
	case !t.Home:
		return store.Update(to, create, shard.Place{}.Offset(skew))
	case a.anew:
		return store.Admit(to, create, t.Offset(skew))
	case a.BodyHash != "":
		return store.CreateOnce(to, create, t.Offset(skew))
	}
	return store.Put(to, create, t.Offset(skew))
}

// take takes the answers to what was planned.
func (a *attempt) take(answers []store.Written) {
	i := 0
	for t := range each(a.targets) {
		if t.progress != asked {
			continue
		}
		answer := &answers[i]
		i++
		a.k.shards.Heard(answer.State.Version)
		switch {
		case t.sent == sentNames:
			t.progress = told // of the write; without the names the repair tells those that have not heard
		case t.sent == sentLook:
			t.progress, t.passed = told, answer.Err == nil && !accepted(answer.Status)
		case answer.Err != nil:
			t.progress, t.answer = untold, *answer
			if !errors.Is(answer.Err, timer.ErrUpgrading) {
				t.Shard.Answers.Outage.Failed()
			}
		default:
			t.progress, t.answer = told, *answer
			if a.unanswered && answer.Status == store.WriteExists && answer.State.Version == a.Version {
				t.answer.Status = store.WriteSame // it was sent before
			}
			a.decided = a.decided || accepted(t.answer.Status)
		}
	}
	if a.settled() {
		for t := range each(a.targets) { // there is nothing to tell the others
			if t.progress == toTell {
				t.progress, t.answer.Status = told, store.WriteNone
			}
		}
	}
}

// settled reports whether a create that happens once has found that it isn't the
// first.
func (a *attempt) settled() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.progress == told && t.answer.Status == store.WriteExists })
}

// again has all copies told anew, as a newer version if above isn't 0.
func (a *attempt) again(above timer.Version) {
	a.above = above
	a.decided, a.unheard = a.BodyHash == "", nil
	for t := range each(a.targets) {
		t.progress, t.answer = toTell, store.Written{}
		t.named, t.looked, t.passed = false, false, false
	}
}

// renew gives the write a version above what it lost a race to, and above all that the node
// has heard of: else newer requests keep coming first. So the version is drawn after the
// pause before a try.
func (a *attempt) renew() {
	if a.above == 0 {
		return
	}
	a.Version, a.above = max(a.above.Above(a.k.shards.NextTag()), a.k.shards.NextVersion()), 0
}
