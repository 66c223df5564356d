package scheduler

import (
	"fmt"
	"slices"
	"time"
)

// wish is what a client asks for: a new version of a timer, or its end.
type wish struct {
	id       ID
	version  Version
	timer    *Timer        // nil for its end
	begun    time.Duration // since boot
	bodyHash string        // makes it a create that happens once
	anew     bool          // that one happens again with another bodyHash once the timer is over
	fresh    bool          // there can be no such timer yet
	humble   bool          // what is newer stays: it is never written again above that
}

// target is one copy that a wish is for.
type target struct {
	place
	progress   progress
	replaced   bool // a substitute stands in for it
	stray      bool // neither home nor substitute: nothing is made there of nothing, but for an end that homes were told
	substitute bool // it was chosen in the stead of a home that could not be told
	tried      bool // it was sent the write
	warned     bool // it did not answer, and was sent the write again, with what is away
	unheard    bool // it did not answer a note
	looked     bool // it was asked whether it still has the write, since another copy refused it
	passed     bool // it had the write, and has something newer since, or nothing any more
	answer     Written
}

type progress int

const (
	toTell progress = iota
	asked
	told
	untold
)

// attempt is what has become of a wish so far.
type attempt struct {
	wish
	s       *Scheduler
	ranked  []string // all shards by rank
	targets []target
	away    []Away // substitutes, and what a hint led to and was not told; of an end, all that it was not told to
	decided bool   // of a create that happens once: it is the first

	writes     int // of this round
	receipt    Receipt
	err        error   // of the last try
	unanswered bool    // it was sent before, and may have been executed
	above      Version // what the last try lost a race to; 0 if it did not
	over       bool
}

func (s *Scheduler) newAttempt(w wish) attempt {
	a := attempt{wish: w, s: s, decided: w.bodyHash == ""}
	if w.fresh {
		a.begin(s.homes(w.id, 0))
	} else {
		a.begin(s.places(w.id, nil))
	}
	return a
}

func (a *attempt) begin(places []place) {
	a.targets = make([]target, len(places), len(places)+1)
	for i, p := range places {
		a.targets[i] = target{place: p, stray: !p.home}
	}
}

// plan appends what is to be written next. All of a shard that is silent is left
// out, and one that is gone need not be told.
func (a *attempt) plan(writes []Write) []Write {
	a.targets = slices.DeleteFunc(a.targets, func(t target) bool { return t.stray && t.progress != told && t.vanished() })
	for i := range a.targets {
		if t := &a.targets[i]; t.progress == toTell && t.shard.away() {
			t.progress, t.answer = untold, Written{Err: fmt.Errorf("%w: shard %s is silent", ErrUnavailable, t.shard.name)}
		}
	}
	a.provide()
	// Those at home know which of the others there are, and in whose stead; and an end
	// that tells none of them must leave nothing elsewhere that looks like a copy.
	homesFirst := slices.ContainsFunc(a.targets, func(t target) bool { return t.progress == toTell && !t.stray && !a.holds(&t) })
	for i := range a.targets {
		t := &a.targets[i]
		if t.progress != toTell || homesFirst && t.stray || a.holds(t) {
			continue
		}
		writes = a.send(t, writes)
		if !a.decided {
			return writes // one shard decides
		}
	}
	if !a.waits() {
		writes = a.planNotes(writes)
	}
	if !a.waits() {
		writes = a.planWarnings(a.planSubstitutes(writes))
	}
	return writes
}

func (a *attempt) send(t *target, writes []Write) []Write {
	t.progress, t.tried = asked, true
	return append(writes, a.writeTo(t))
}

// stored reports whether the target took the write.
func (t *target) stored() bool { return t.progress == told && accepted(t.answer.Status) }

func (a *attempt) waits() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.progress == asked })
}

// planNotes appends what those that were told do not know yet of copies away, in
// the order of the targets. Those that have a write which another copy refused are
// asked in the same way whether they still have that write.
func (a *attempt) planNotes(writes []Write) []Write {
	contested := a.contested()
	for i := range a.targets {
		t := &a.targets[i]
		looks := contested && !t.looked
		names := (!t.stray || a.timer == nil) && !t.unheard && !t.knowsAll(a.away)
		if !t.stored() || t.passed || !looks && !names {
			continue
		}
		t.looked = t.looked || looks
		w := a.writeTo(t)
		w.Kind, w.Timer = WriteNote, nil
		writes = append(writes, w)
		t.progress = asked
	}
	return writes
}

// knowsAll reports whether the target's record names all that are away.
func (t *target) knowsAll(away []Away) bool {
	for _, w := range away {
		if !slices.ContainsFunc(t.answer.Away, func(known Away) bool { return known.Shard == w.Shard }) {
			return false
		}
	}
	return true
}

func accepted(status WriteStatus) bool { return status == WriteStored || status == WriteSame }

func (a *attempt) writeTo(t *target) Write {
	config := &a.s.config
	w := Write{
		Kind: WriteGone, Shard: t.shard.name, Key: a.id.Key, State: State{Version: a.version}, RF: max(a.id.RF, 1), Rank: t.rank,
		Away: a.away, Life: t.tombLife(config), Keep: t.keepFor(config),
	}
	if a.timer == nil {
		if t.stray && (!a.toldHome() || a.s.drained(a.id.Key, w.Shard)) {
			w.Kind = WriteBury
		}
		return w
	}
	w.State.Seq = 1
	w.Kind, w.Timer, w.DueIn, w.BodyHash = WritePut, a.timer, a.timer.Interval, a.bodyHash
	skew := config.Skew.Of(a.timer.Interval, a.timer.ReplicationFactor)
	w.Offset = t.offset(skew)
	switch {
	case t.stray:
		w.Kind, w.Offset = WriteOver, place{}.offset(skew)
		if !a.s.takes(a.id.Key, w.Shard) {
			w.Kind = WriteOnto // the sweep may have been over it, or is yet to bring it up
		}
	case a.anew:
		w.Kind = WriteAnew
	case a.bodyHash != "":
		w.Kind = WriteOnce
	}
	return w
}

// take takes the answers to what was planned.
func (a *attempt) take(answers []Written) {
	i := 0
	for k := range a.targets {
		t := &a.targets[k]
		if t.progress != asked {
			continue
		}
		answer := answers[i]
		i++
		a.s.latest.heard(answer.State.Version, a.s.config.Wall)
		noting := t.answer.Status != WriteFailed
		switch {
		case noting:
			a.noted(t, &answer)
		case answer.Err != nil:
			t.progress, t.answer = untold, answer
			t.shard.silence.outage.failed()
		default:
			t.progress, t.answer = told, answer
			if (a.unanswered || t.warned) && answer.Status == WriteExists && answer.State.Version == a.version {
				t.answer.Status = WriteSame // it was sent before
			}
			a.decided = a.decided || accepted(t.answer.Status)
			a.follow(answer.Away)
			a.adoptStray(&a.targets[k])
		}
	}
	if a.settled() {
		for k := range a.targets { // there is nothing to tell the others
			if t := &a.targets[k]; t.progress == toTell {
				t.progress, t.answer.Status = told, WriteNone
			}
		}
	}
}

// noted takes the answer to a note.
func (a *attempt) noted(t *target, answer *Written) {
	t.progress = told // of the write
	switch {
	case answer.Err != nil:
		t.unheard = true
	case accepted(answer.Status):
		t.answer.Away = slices.Concat(t.answer.Away, a.away)
	default:
		t.passed = true
	}
}

// adoptStray has a copy noted that was found where only a hint or another copy's
// record led: a home that was told before it knows nothing of it.
func (a *attempt) adoptStray(t *target) {
	if a.timer == nil || !t.stray || !accepted(t.answer.Status) {
		return
	}
	t.stray = false
	at := Away{Shard: t.shard.name, Rank: t.rank}
	if !slices.Contains(a.away, at) {
		a.away = append(a.away, at)
	}
}

// settled reports whether a create that happens once has found that it isn't the
// first.
func (a *attempt) settled() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.progress == told && t.answer.Status == WriteExists })
}

// follow has the copies told too that a record names, and as what: a hint leads to
// the shard alone.
func (a *attempt) follow(away []Away) {
	for _, w := range away {
		sh := a.s.shard(w.Shard)
		i := slices.IndexFunc(a.targets, func(t target) bool { return t.shard == sh })
		switch {
		case sh == nil:
		case i < 0:
			a.targets = append(a.targets, target{place: place{shard: sh, rank: w.Rank}, stray: true})
		case a.targets[i].stray:
			a.targets[i].rank = w.Rank
		}
	}
}

// again has all copies told anew, as a newer version if above isn't 0.
func (a *attempt) again(above Version) {
	a.above = above
	a.decided = a.bodyHash == ""
	for i := range a.targets {
		t := &a.targets[i]
		t.progress, t.answer = toTell, Written{}
		t.replaced = t.replaced && above != 0 && (a.timer == nil || !t.home || a.substituted(t.rank))
		t.unheard, t.looked, t.passed = false, false, false
	}
}

// renew gives the write a version above what it lost a race to, and above all that the node
// has heard of: else newer requests keep coming first. So the version is drawn after the
// pause before a try.
func (a *attempt) renew() {
	if a.above == 0 {
		return
	}
	tag := a.s.nextTag()
	a.version, a.above = max(a.above.Above(tag), a.s.latest.next(a.s.clock(), tag)), 0
}
