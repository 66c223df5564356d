package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Limits of one client request. A try that was refused as older is repeated above the stored
// version. A try that no shard answered is sent again unchanged.
const (
	maxWriteTries = 5
	resendPause   = 30 * time.Millisecond
)

// Write carries out one wish.
func (k *Keeper) Write(ctx context.Context, w Wish) (timer.Receipt, error) {
	one := k.WriteEach(ctx, []Wish{w})[0]
	return one.Receipt, one.Err
}

// Answer is the outcome of a wish.
type Answer struct {
	Receipt timer.Receipt
	Err     error
}

// WriteEach carries out wishes together, and answers every wish separately.
func (k *Keeper) WriteEach(ctx context.Context, wishes []Wish) []Answer {
	attempts := make([]attempt, len(wishes))
	for i, w := range wishes {
		attempts[i] = k.newAttempt(w)
	}
	k.writeAll(ctx, attempts)
	answers := make([]Answer, len(attempts))
	for i := range attempts {
		answers[i] = Answer{attempts[i].receipt, attempts[i].err}
	}
	return answers
}

// writeAll carries out the attempts, together in every try, until all are over.
func (k *Keeper) writeAll(ctx context.Context, attempts []attempt) {
	if err := k.store.Writable(); err != nil {
		for a := range each(attempts) {
			a.err = err
		}
		return
	}
	begun := k.config.SinceBoot()
	if k.shards.Several() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timing.AnswerLimit)
		defer cancel()
	}
	open := slices.AppendSeq(make([]*attempt, 0, len(attempts)), each(attempts))
	open = slices.DeleteFunc(open, (*attempt).tooNew)
	for n := 1; len(open) > 0; n++ {
		for _, a := range open {
			a.renew()
		}
		tried := k.config.SinceBoot()
		k.recall(ctx, open)
		k.try(ctx, open)
		now := k.config.SinceBoot()
		var pause time.Duration
		if open, pause = k.unsettled(open, n, timeLeft(ctx, now-begun), now-tried); len(open) > 0 && !awake.Sleep(ctx, pause) {
			break
		}
	}
	for _, a := range open {
		a.lose()
	}
	if took := k.config.SinceBoot() - begun; took > timing.AnswerLimit && k.shards.Several() {
		for a := range each(attempts) {
			if a.err == nil {
				a.err = fmt.Errorf("%w: it took %v to tell all copies", timer.ErrUnavailable, took.Round(time.Millisecond))
			}
		}
	}
}

// unsettled are the attempts to try again, and the pause before the next try. The n-th try took so
// long (took), and so much time is left (left).
func (k *Keeper) unsettled(open []*attempt, n int, left, took time.Duration) (still []*attempt, pause time.Duration) {
	still = open[:0]
	for _, a := range open {
		switch a.judge(); {
		case a.over:
		case a.err != nil && n < maxWriteTries:
			still, pause = append(still, a), resendPause
		case a.err == nil && left > max(lastTry, took+took/4):
			still, pause = append(still, a), max(pause, racePause(n))
		default:
			a.lose()
		}
	}
	return still, pause
}

// lose ends an attempt that the last try did not decide.
func (a *attempt) lose() {
	switch {
	case a.err != nil:
	case a.BodyHash != "":
		a.err = fmt.Errorf("%w: other writes to this timer kept coming first", timer.ErrUnavailable)
	default:
		a.err = timer.ErrOvertaken
	}
}

// try sends the writes of the attempts, round by round: to the owners, to further places where
// copies may be, and the names of the places that missed an end.
func (k *Keeper) try(ctx context.Context, open []*attempt) {
	for {
		var writes []store.Write
		for _, a := range open {
			before := len(writes)
			writes = a.plan(writes)
			a.writes = len(writes) - before
		}
		if len(writes) == 0 {
			return
		}
		answers := k.merge(ctx, writes)
		for _, a := range open {
			a.take(answers[:a.writes])
			answers = answers[a.writes:]
		}
	}
}

func (k *Keeper) merge(ctx context.Context, writes []store.Write) []store.Written {
	if k.shards.Several() {
		var cancel context.CancelFunc
		ctx, cancel = k.config.Awake.WithTimeout(ctx, timing.RoundPatience)
		defer cancel()
	}
	return k.store.Merge(ctx, writes)
}

// judge says how a try ended. An attempt that isn't over is tried again.
func (a *attempt) judge() {
	if a.undecided() {
		a.judgeFirst()
		return
	}
	v := a.tally()
	a.err, a.over = nil, true
	switch {
	case v.told == 0 && errors.Is(v.err, timer.ErrUnavailable):
		a.unanswered, a.over, a.err = true, false, v.err
		a.again(0)
	case v.told == 0 && a.unanswered:
		a.err = fmt.Errorf("%w: sent before without an answer, and now: %v", timer.ErrUnavailable, v.err) //nolint:errorlint // v.err may say that nothing was done, true of the last try alone
	case v.told == 0:
		a.err = v.err
	case a.Humble && (v.factor != 0 || v.above != 0):
		a.withdraw(false)
		a.err = timer.ErrSuperseded
	case v.factor != 0:
		a.withdraw(false)
		a.err = FactorChanged(v.factor)
	case v.exists != nil && !v.exists.State.Ended && v.exists.State.Version > a.Version && v.copies > 0:
		// The newer create may have come at the same time and find this create, too. Only the newer
		// makes room.
		a.err = fmt.Errorf("%w: another one of its key came at the same time", timer.ErrUnavailable)
	case v.exists != nil:
		a.withdraw(false) // from copies that did not hear of the first create
		a.replay(v.exists)
	case v.replaced():
		a.receipt = a.acknowledge(v)
	case a.read != nil && v.lacking:
		a.err = fmt.Errorf("%w: an owner has no copy of the timer, which may have ended", timer.ErrUnavailable)
	case v.above != 0 && a.judged != nil: // a version above the newer write's would pass over the condition
		a.err = timer.ErrOvertaken
	case v.above != 0:
		if a.BodyHash != "" {
			a.withdraw(true) // a later try would take this create for an earlier create
		}
		a.unanswered, a.over = false, false
		a.again(v.above)
	case a.Timer != nil && v.copies < min(a.k.config.MinCopies, a.ID.RF, len(a.k.store.Rank(a.ID.Key))):
		a.repair(v)
		a.err = fmt.Errorf("%w: %d copies could be stored, and CHRONOS_MIN_COPIES asks for %d: %w", timer.ErrUnavailable, v.copies, a.k.config.MinCopies, v.err)
	default:
		a.receipt = a.acknowledge(v)
	}
}

// repair has the owners that could not be told brought up later.
func (a *attempt) repair(v verdict) {
	if v.first == nil || v.unreached == 0 {
		return
	}
	id := timer.ID{Key: a.ID.Key, RF: cmp.Or(a.ID.RF, v.first.answer.RF)}
	var missed []*shard.Shard
	for t := range each(a.targets) {
		if t.progress == untold && t.Home && t.Rank < id.RF {
			missed = append(missed, t.Shard)
		}
	}
	if len(missed) > 0 {
		a.k.repairs.add(id, a.written(), missed)
	}
}

// verdict is the sum of all answers of a try.
type verdict struct {
	told, copies     int     // owners that answered; copies of the write
	unreached        int     // owners, and further places where a copy may be
	holding, passed  int     // copies that took the write: still have the write; have a newer state
	unheard          bool    // some place, an owner or not, could not be told
	lacking          bool    // an owner has nothing that a PATCH could change
	present, missing bool    // something was there; nothing was where a copy belongs
	firing           bool    // a callback of an earlier state may still start
	first            *target // the best copy that was told
	factor           int     // of a live timer there, if not the factor of the write
	exists           *store.Written
	above            timer.Version // the version of a newer write there
	barred           *target       // the best owner that has a newer write with a condition
	err              error
}

func (a *attempt) tally() (v verdict) {
	executed := a.unanswered
	rf := a.ID.RF
	for t := range each(a.targets) {
		executed = executed || accepted(t.answer.Status)
		rf = max(rf, t.answer.RF)
	}
	factor, found := a.factor(), a.found()
	for t := range each(a.targets) {
		if t.progress == untold {
			v.err, v.unheard = t.answer.Err, true
			if !t.Home || a.owns(t, factor) || !found && t.Rank < timer.DefaultReplicationFactor {
				v.unreached++
			}
		}
	}
	for t := range each(a.targets) {
		w := &t.answer
		if t.progress != told {
			continue
		}
		if a.owns(t, factor) {
			v.told++
		}
		v.firing = v.firing || w.Firing > 0
		v.lacking = v.lacking || t.Home && w.Status == store.WriteNone
		v.present = v.present || !w.New && w.Status != store.WriteNone
		v.missing = v.missing || w.New && t.Home && t.Rank < rf
		switch {
		case !t.Home && (w.Status == store.WriteNone || w.State.Version == a.Version):
		case accepted(w.Status), w.Status == store.WriteNewer && (executed || a.Humble) && w.State.Version == a.Version:
			// The newer state has the write's version: the write was stored, and the timer fires.
			v.copies++
			if t.passed {
				v.passed++
			} else {
				v.holding++
			}
			if v.first == nil || t.Rank < v.first.Rank {
				v.first = t
			}
		case a.ends(t) && !v.unheard:
			v.copies++
		case w.Status == store.WriteFactor:
			v.factor = w.RF
		case w.Status == store.WriteExists:
			v.exists = w
		default:
			v.above = max(v.above, w.State.Version)
			if t.Home && w.State.Version.Conditional() && (v.barred == nil || t.Rank < v.barred.Rank) {
				v.barred = t
			}
		}
	}
	return v
}

// acknowledge is the answer to a wish that was carried out (rule "what an answer may say").
func (a *attempt) acknowledge(v verdict) timer.Receipt {
	a.repair(v)
	r := timer.Receipt{
		ID: a.ID, Version: a.written().Written(), Copies: v.copies, Unreached: v.unreached,
		InFlight: v.firing || v.unheard || v.present && v.missing,
	}
	if a.ID.RF == 0 && v.first != nil {
		r.ID.RF = v.first.answer.RF
	}
	if a.Timer == nil || v.first == nil {
		return r
	}
	r.ID.Hint = 0
	for t := range each(a.targets) {
		if t.progress == told && t.Home {
			r.ID.Hint |= t.Shard.Mask
		}
	}
	first := &v.first.answer
	r.Due = first.Due
	if !first.State.Ended {
		v.first.Shard.PokeIfSoon(first.Partition, first.Wait)
	}
	return r
}

// replay is the answer to a repeated create.
func (a *attempt) replay(there *store.Written) {
	if there.BodyHash != a.BodyHash {
		a.err = timer.ErrKeyReused
		return
	}
	id := timer.ID{Key: a.ID.Key, RF: there.RF}
	homes := a.k.shards.Places(id)
	for _, p := range homes {
		id.Hint |= p.Shard.Mask
	}
	a.receipt = timer.Receipt{
		ID: id, Version: there.State.Written(), Due: there.Due, Copies: len(homes), Replayed: !a.unanswered || there.State.Version != a.Version,
		Over: there.State.Ended,
	}
	if a.receipt.Over {
		a.receipt.Copies = 0
	}
}

// withdraw takes the write back. With all, every copy that took the write for certain goes. Without
// all, the copies that the write made go, and so do copies on places without an answer, since
// elsewhere the write was refused. A copy that can't be taken back is older than the next write.
func (a *attempt) withdraw(all bool) {
	var writes []store.Write
	for t := range each(a.targets) {
		stored := t.progress == told && t.Home && (t.answer.New || all && accepted(t.answer.Status))
		if stored || !all && t.progress == untold && t.tried && !t.Shard.Away() {
			writes = append(writes, store.Drop(t.Copy(a.ID), timer.State{Version: a.Version, Seq: a.seq()}))
		}
	}
	if len(writes) == 0 {
		return
	}
	ctx, cancel := a.k.config.Awake.WithTimeout(context.Background(), timing.RoundPatience)
	defer cancel()
	a.k.store.Merge(ctx, writes)
}

// FactorChanged refuses a write with another replication factor than the timer's own.
func FactorChanged(own int) error {
	return timer.Invalid("/reliability/replication-factor", "replication-factor-changed",
		"the replication factor of a timer can't be changed; it is %d: leave it out and use the id that was answered, or delete the timer and create another", own)
}
