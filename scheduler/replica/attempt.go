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

// Wish is a client's request: a new version of a timer, or the timer's end.
type Wish struct {
	ID       timer.ID
	Version  timer.Version
	Timer    *timer.Timer  // nil for the end
	Begun    time.Duration // since boot
	Site     string        // the home site; "" without sites
	BodyHash string        // of a create that happens once
	anew     bool          // once the timer is over, a create with another BodyHash is stored
	Fresh    bool          // no such timer can exist yet
	Humble   bool          // a newer version stays: the write is not sent again above the newer version
	Silent   Silent        // shards that the first try leaves out
	judged   *Present      // of a wish with a condition
	read     *finding      // of a PATCH: the newest copy, with the timer and the revision of the PATCH
	goesOn   *goingOn      // of a new version that goes on with the pops of the version before
}

// goingOn is where a version goes on with the pops of the version before.
type goingOn struct {
	seq, leftOut int           // of the next pop, and as in store.Record
	due          time.Duration // from the begin of the wish to the pop
}

// seq is the number of the first pop of the version that the wish makes.
func (w *Wish) seq() int {
	if w.goesOn != nil {
		return w.goesOn.seq
	}
	return 1
}

// State is the state of a copy that has just taken the wish.
func (w *Wish) State() timer.State {
	state := w.written()
	if state.Ended = w.Timer == nil; !state.Ended {
		state.Seq = w.seq()
	}
	return state
}

// written are the version and the revision that the wish makes.
func (w *Wish) written() timer.State {
	state := timer.State{Version: w.Version}
	if w.read != nil {
		state.Rev = w.read.Record.State.Rev
	}
	return state
}

// format is the format in which the wish is stored.
func (w *Wish) format() int {
	switch {
	case w.Timer == nil:
		return timer.FirstFormat
	case w.read != nil:
		return timer.LastFormat
	}
	return w.Timer.Format()
}

// NewWish is a new version of the timer, or the timer's end if t is nil.
func (k *Keeper) NewWish(id timer.ID, t *timer.Timer) Wish {
	return Wish{ID: id, Version: k.shards.NextVersion(), Timer: t, Begun: k.config.SinceBoot()}
}

// target is one copy that a wish is for.
type target struct {
	shard.Place
	progress progress
	sent     sent // the kind of the write under way
	tried    bool // the write was sent
	named    bool // the tombstone was sent the places that missed the end
	looked   bool // the copy was asked for the write again, since another copy refused the write
	passed   bool // the copy took the write, and has a newer state since, or nothing any more
	answer   store.Written
}

type progress int

const (
	toTell progress = iota
	asked
	told
	untold
)

// sent is the kind of the last question to a target.
type sent int

const (
	sentWrite sent = iota
	sentNames      // of the places that missed an end
	sentLook       // whether the write is still there
)

// attempt is how far a wish has come.
type attempt struct {
	Wish
	k       *Keeper
	targets []target
	unheard []store.Away // of a delete: the places that could not be told
	decided bool         // of a create that happens once, or a wish with a condition: a copy took the write as the first

	writes     int // of this round
	receipt    timer.Receipt
	err        error         // of the last try
	unanswered bool          // an earlier try got no answer, and may have been executed
	above      timer.Version // the newer version to which the last try lost a race; 0 if no race was lost
	over       bool
}

func (k *Keeper) newAttempt(w Wish) attempt {
	a := attempt{Wish: w, k: k, decided: !w.conditional()}
	if w.Fresh {
		a.begin(k.shards.Homes(w.ID))
	} else {
		a.begin(k.shards.Places(w.ID))
	}
	for t := range each(a.targets) {
		if err := w.Silent[t.Shard]; err != nil {
			t.failed(err)
		}
	}
	return a
}

// tooNew refuses a wish in a format that a live node can't read. Such a node would leave the timer alone, or, amid a
// callback, could not settle the callback, so that the pop would come twice.
func (a *attempt) tooNew() bool {
	if format := a.format(); format == timer.FirstFormat || a.k.shards.AllRead(format) {
		return false
	}
	a.err = timer.ErrNotUpgraded
	return true
}

// conditional reports whether the first owner decides about the write before another copy gets the write.
func (w *Wish) conditional() bool { return w.BodyHash != "" || w.judged != nil }

func (a *attempt) begin(places []shard.Place) {
	a.targets = make([]target, len(places))
	for i, p := range places {
		a.targets[i] = target{Place: p}
	}
}

// plan appends the next writes. Owners come first: further places get the write once an owner has
// answered. A silent shard is left out, and a shard that is gone need not be told.
func (a *attempt) plan(writes []store.Write) []store.Write {
	a.targets = slices.DeleteFunc(a.targets, func(t target) bool { return t.progress != told && t.Vanished() })
	for t := range each(a.targets) {
		if t.progress == toTell && t.Shard.Away() {
			t.leaveOut()
		}
	}
	if a.undecided() {
		return a.planFirst(writes)
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

// planNames adds the places that could not be told to the tombstones of a delete: no tombstone goes
// before the named places have heard.
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

// planLooks asks copies that took the write whether the write is still there, if another copy
// refused the write.
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

// lookAt asks for the version of a copy.
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
	if a.read != nil {
		return a.amend(t)
	}
	create := store.Creation{Version: a.Version, Timer: a.Timer, DueIn: a.Timer.Interval, BodyHash: a.BodyHash, Site: a.Site}
	if on := a.goesOn; on != nil {
		create.Seq, create.LeftOut, create.DueIn = on.seq, on.leftOut, on.due
	}
	create.DueIn -= config.SinceBoot() - a.Begun // a later try keeps the due times of the request
	spacing := a.k.shards.SpacingOf(a.ID.Key, a.Site, a.Timer.Interval, a.Timer.ReplicationFactor)
	switch {
	case !t.Home:
		return store.Update(to, create, shard.Place{}.Offset(spacing))
	case a.anew:
		return store.Admit(to, create, t.Offset(spacing))
	case a.BodyHash != "":
		return store.CreateOnce(to, create, t.Offset(spacing))
	}
	return store.Put(to, create, t.Offset(spacing))
}

// take takes the answers to the planned writes.
func (a *attempt) take(answers []store.Written) {
	i := 0
	for t := range each(a.targets) {
		if t.progress != asked {
			continue
		}
		answer := &answers[i]
		i++
		a.k.shards.Heard(answer.State.Written())
		switch {
		case t.sent == sentNames:
			t.progress = told // of the write; if the names did not arrive, the repair tells the places that missed the end
		case t.sent == sentLook:
			t.progress, t.passed = told, answer.Err == nil && !accepted(answer.Status)
		case answer.Err != nil:
			t.failed(answer.Err)
		default:
			t.progress, t.answer = told, *answer
			if a.unanswered && answer.Status == store.WriteExists && answer.State.Version == a.Version {
				t.answer.Status = store.WriteSame // an earlier try stored the write
			}
			a.decided = a.decided || accepted(t.answer.Status) || a.judged != nil && a.read == nil && answer.Status == store.WriteNewer && answer.State.Version == a.Version
		}
	}
	if a.settled() {
		for t := range each(a.targets) { // the remaining copies need no write
			if t.progress == toTell {
				t.progress, t.answer.Status = told, store.WriteNone
			}
		}
	}
}

func (t *target) untold(err error) { t.progress, t.answer = untold, store.Written{Err: err} }

// leaveOut sends no write to a target that is away. A shard that was given up needs no write.
func (t *target) leaveOut() {
	t.untold(fmt.Errorf("%w: shard %s is silent", timer.ErrUnavailable, t.Shard.Name))
	if t.Shard.Reach() == shard.Down {
		t.Shard.Answers.Outage.FailedWrite()
	}
}

// failed notes that the target did not take the write.
func (t *target) failed(err error) {
	t.untold(err)
	if !errors.Is(err, timer.ErrUpgrading) {
		t.Shard.Answers.Outage.FailedWrite()
	}
}

// settled reports whether a create that happens once has found an earlier create.
func (a *attempt) settled() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.progress == told && t.answer.Status == store.WriteExists })
}

// again plans the write for all copies once more, with a newer version if above isn't 0.
func (a *attempt) again(above timer.Version) {
	a.above = above
	a.decided, a.unheard = !a.conditional(), nil
	for t := range each(a.targets) {
		t.progress, t.answer = toTell, store.Written{}
		t.named, t.looked, t.passed = false, false, false
	}
}

// renew gives the write a version above the newer write, and above all versions that the node
// knows: else newer requests keep coming first. The pause before a try comes first, so that the
// version is fresh.
func (a *attempt) renew() {
	if a.above == 0 {
		return
	}
	a.Version, a.above = max(a.above.Above(a.k.shards.NextTag()), a.k.shards.NextVersion()), 0
}
