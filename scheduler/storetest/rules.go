package storetest

import (
	"cmp"
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// entry is one copy of a timer. Instants are ms of the shard's clock.
type entry struct {
	state      timer.State
	timer      timer.Timer // zero for a tombstone
	rf, rank   int
	startMs    int64
	intervalMs int64
	firingMs   int64 // end of the firing mark; in the past or 0 for no mark
	failure    store.Failure
	leftOut    int // pops of which no callback has told
	bodyHash   string
	site       string // the home
	away       []store.Away
	lookMs     int64 // when some node must next look at the copy
	lease      *lease
}

type lease struct {
	token string
	// fired says that the lease's fence has passed. earlierMs is then the end of the mark that the fence of an
	// earlier state had set; 0 for no mark.
	fired     bool
	earlierMs int64
	revised   bool // a PATCH came after the fence
	expired   bool // the fence has found that the pop may be called back no longer
}

// popMs is when pop n of this copy's rank 0 is due.
func (e *entry) popMs(n int) int64 { return e.startMs + int64(n)*e.intervalMs }

func (e *entry) held(token string) bool { return e != nil && e.lease != nil && e.lease.token == token }

// markMs is the end of the firing mark, 0 if the mark is over.
func (e *entry) markMs(now int64) int64 {
	if e.firingMs > now {
		return e.firingMs
	}
	return 0
}

// specified reports whether writes of the kind tell all about a timer.
func specified(kind store.WriteKind) bool {
	switch kind {
	case store.WritePut, store.WriteOnce, store.WriteAnew, store.WriteLive, store.WriteAmend, store.WriteOnto:
		return true
	default:
		return false
	}
}

func ends(w *store.Write) bool {
	switch w.Kind {
	case store.WriteGone, store.WriteBury, store.WriteDone:
		return true
	default:
		return w.Kind == store.WriteAnew && w.Timer == nil
	}
}

// madeBefore reports whether a create that must happen only once has happened before.
func madeBefore(w *store.Write, old *entry) bool {
	switch w.Kind {
	case store.WriteOnce:
		return !old.state.Ended || old.bodyHash != ""
	case store.WriteAnew:
		return !old.state.Ended || old.bodyHash == w.BodyHash
	default:
		return false
	}
}

// merge is rules "order of states" and "merge keeps the firing mark": become this state if the state is newer than
// the copy's. A newer state ends the lease and keeps the firing mark.
func (s *shard) merge(now time.Time, w *store.Write) store.Written {
	old := s.entries[w.Key]
	if old == nil {
		if w.Token != "" || w.IfNewest != nil && w.IfNewest.Seq > 0 || w.Kind == store.WriteOnto || w.Kind == store.WriteAmend || w.Kind == store.WriteBury || !specified(w.Kind) && !ends(w) {
			return store.Written{Status: store.WriteNone}
		}
		answer := s.become(now, w, nil)
		answer.New = true
		return answer
	}
	order := stateOf(w).Compare(old.state)
	if patches(w, old) {
		order = 0
	}
	switch {
	case w.Token != "" && !old.held(w.Token):
		return old.written(store.WriteLost, now)
	case w.IfNewest != nil && exceeds(w, old.state):
		return old.written(store.WriteNewer, now)
	case w.IfNewest != nil && w.Kind == store.WriteAmend && old.state.Version < w.State.Version,
		w.IfNewest != nil && w.IfNewest.Seq > 0 && old.state.Version < w.IfNewest.Version:
		return old.written(store.WriteOlder, now)
	case w.Kind == store.WriteLeave, w.Kind == store.WriteRank:
		return s.settleDown(now, w, old)
	case w.Kind == store.WriteHasten:
		return old.hasten(now, w)
	case madeBefore(w, old):
		return old.written(store.WriteExists, now)
	case w.Kind == store.WritePut && !old.state.Ended && old.rf != max(w.RF, 1):
		return old.written(store.WriteFactor, now)
	case w.Kind == store.WriteLook && old.state.Version == w.State.Version:
		return old.written(store.WriteSame, now)
	case order <= 0 && specified(w.Kind) && stateOf(w).Revised(old.state):
		old.revise(now, w)
		return old.written(store.WriteStored, now)
	case order < 0, order == 0 && specified(w.Kind) && old.state.Revised(stateOf(w)):
		return old.written(store.WriteNewer, now)
	case w.Kind == store.WriteOnto && old.state.Ended:
		answer := old.written(store.WriteNone, now)
		answer.Due, answer.Wait = time.Time{}, 0 // nothing is due
		return answer
	case w.Kind == store.WriteLook, w.Kind == store.WriteDrop && old.state.Version != w.State.Version:
		return old.written(store.WriteOlder, now)
	case w.Kind == store.WriteDrop:
		delete(s.entries, w.Key)
		return old.written(store.WriteStored, now)
	case order == 0 && specified(w.Kind) && w.Kind != store.WriteAmend && !says(w, old):
		return old.written(store.WriteConflict, now)
	case order == 0:
		if w.Kind == store.WriteGone {
			old.away = union(old.away, w.Away)
		}
		return old.written(store.WriteSame, now)
	case (w.Kind == store.WriteNext || w.Kind == store.WriteAgain) && old.state.Version != w.State.Version:
		return old.written(store.WriteOlder, now)
	case w.Kind == store.WriteNext || w.Kind == store.WriteAgain:
		old.advance(now, w)
		return old.written(store.WriteStored, now)
	}
	return s.become(now, w, old)
}

// exceeds is rule "conditions": reports whether a copy is newer than the write's condition allows. What the write
// itself has made is there if the write was sent before.
func exceeds(w *store.Write, old timer.State) bool {
	if w.Kind != store.WriteHasten && old.Version == w.State.Version && (w.State.Rev == 0 || w.State.Rev == old.Rev) {
		return false
	}
	if old.Version != w.IfNewest.Version {
		return old.Version > w.IfNewest.Version
	}
	at := w.IfNewest
	return old.Rev > at.Rev || at.Seq > 0 && (old.Ended || old.Seq != at.Seq || old.Attempt != at.Attempt)
}

// patches reports whether a write is a PATCH of the version that is there: about the revision alone, whatever the state.
func patches(w *store.Write, old *entry) bool {
	patch := w.Kind == store.WriteAmend || w.Kind == store.WriteOnto && w.State.Rev != 0
	return patch && w.State.Version == old.state.Version && !old.state.Ended
}

// revise is rule "a patch is a revision": the copy gets the revision, and what a PATCH may change.
func (e *entry) revise(now time.Time, w *store.Write) {
	e.state.Rev = w.State.Rev
	e.specify(w.Timer)
	switch {
	case e.lease == nil:
	case e.lease.fired:
		e.lease.revised = true
	default:
		leaseEndMs := e.lookMs
		e.lease, e.lookMs = nil, now.UnixMilli()
		if e.state.Attempt == 0 {
			var offset int64
			if w.State.Attempt == 0 || w.Kind == store.WriteOnto {
				offset = w.Offset.Milliseconds()
			}
			if w.Kind == store.WriteOnto {
				offset *= int64(2*e.rank + 1)
			}
			if turnMs := e.popMs(e.state.Seq) + offset; leaseEndMs > turnMs { // the pop was not hastened
				e.lookMs = turnMs
			}
		}
	}
}

// specify takes over what a PATCH may change.
func (e *entry) specify(from *timer.Timer) {
	e.timer.Callback, e.timer.ExpiresAfter, e.timer.RepeatFor, e.timer.At = from.Callback, from.ExpiresAfter, from.RepeatFor, from.At
	e.timer.Tags = slices.Clone(from.Tags)
}

// settleDown is the sweep's write to a copy that is neither leased nor firing.
func (s *shard) settleDown(now time.Time, w *store.Write, old *entry) store.Written {
	order := w.State.Compare(old.state)
	switch {
	case old.lease != nil, old.markMs(now.UnixMilli()) > 0:
		return old.written(store.WriteLeased, now)
	case order < 0:
		return old.written(store.WriteNewer, now)
	case order > 0:
		return old.written(store.WriteOlder, now)
	case w.Kind == store.WriteLeave:
		delete(s.entries, w.Key)
	default:
		old.rank = w.Rank
		switch {
		case old.state.Ended:
		case old.state.Attempt == 0:
			old.lookMs = old.startMs + int64(w.State.Seq)*ceilMs(w.Timer.Interval) + w.Offset.Milliseconds()
		case w.Retry != 0:
			old.lookMs = now.UnixMilli() + ceilMs(w.Retry)
		}
	}
	return old.written(store.WriteStored, now)
}

// hasten is rule "fire now".
func (e *entry) hasten(now time.Time, w *store.Write) store.Written {
	order := w.State.Compare(e.state)
	switch {
	case e.lease != nil:
		return e.written(store.WriteLeased, now)
	case order < 0:
		return e.written(store.WriteNewer, now)
	case order > 0:
		return e.written(store.WriteOlder, now)
	}
	e.lookMs = min(e.lookMs, now.UnixMilli()+ceilMs(w.Retry))
	return e.written(store.WriteStored, now)
}

func stateOf(w *store.Write) timer.State {
	state := w.State
	state.Ended = ends(w) || w.Kind == store.WriteDrop && state.Ended
	return state
}

func union(a, b []store.Away) []store.Away {
	all := slices.Clone(a)
	for _, w := range b {
		if !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

// become puts the write's state in place of old.
func (s *shard) become(now time.Time, w *store.Write, old *entry) store.Written {
	nowMs := now.UnixMilli()
	next := newEntry(now, w, old)
	predecessor := old != nil && !old.state.Ended && old.state.Version == w.State.Version && old.state.Seq == w.State.Seq && old.state.Rev == w.State.Rev
	switch {
	case w.Kind != store.WriteDone || !predecessor:
		s.entries[w.Key] = next
	case next.markMs(nowMs) > 0 || next.bodyHash != "" && w.Keep > 0: // only a mark or a hash is kept
		next.lookMs = max(next.markMs(nowMs), next.keptMs(nowMs, w))
		s.entries[w.Key] = next
	default:
		delete(s.entries, w.Key)
	}
	return next.written(store.WriteStored, now)
}

// advance is the outcome of a pop on another copy: this copy goes on, on its own grid.
func (e *entry) advance(now time.Time, w *store.Write) {
	rev := e.state.Rev
	e.state, e.lease, e.failure, e.leftOut = stateOf(w), nil, failureOf(now, w), w.LeftOut
	e.state.Rev = rev
	if w.Kind == store.WriteAgain {
		e.lookMs = now.UnixMilli() + ceilMs(w.Retry)
		return
	}
	e.lookMs = lookAtPop(e.popMs(w.State.Seq), now.UnixMilli(), w.Offset)
}

// failureOf is the write's failure, with the time now if the failure has no time.
func failureOf(now time.Time, w *store.Write) store.Failure {
	f := w.Failure
	if !f.IsZero() && f.At.IsZero() {
		f.At = time.UnixMilli(now.UnixMilli()).UTC()
	}
	return f
}

// newEntry is the copy that the write makes in place of old.
func newEntry(now time.Time, w *store.Write, old *entry) *entry {
	e := &entry{
		state: stateOf(w), rf: max(w.RF, 1), rank: w.Rank, bodyHash: w.BodyHash, failure: failureOf(now, w), leftOut: w.LeftOut, site: w.Site,
	}
	if old != nil {
		if w.Kind == store.WriteOnto {
			e.rank = old.rank
		}
		e.firingMs, e.bodyHash = old.firingMs, cmp.Or(e.bodyHash, old.bodyHash)
	}
	if e.state.Ended {
		e.state.Rev, e.failure, e.leftOut, e.away = 0, store.Failure{}, 0, slices.Clone(w.Away)
		if old != nil {
			e.away = union(e.away, old.away)
			e.state.Seq, e.rf, e.startMs, e.intervalMs = old.state.Seq, old.rf, old.startMs, old.intervalMs
		}
		e.lookMs = max(now.UnixMilli()+ceilMs(w.Life), e.keptMs(now.UnixMilli(), w), e.firingMs)
		return e
	}
	e.timer, e.intervalMs = *w.Timer, ceilMs(w.Timer.Interval)
	e.timer.Tags = slices.Clone(w.Timer.Tags)
	if old != nil && old.state.Revised(e.state) {
		e.state.Rev = old.state.Rev
		e.specify(&old.timer)
	}
	// Rounded up: a start before the write would make the timer early.
	dueMs := (now.UnixMicro()+999)/1000 + ceilMs(w.DueIn)
	if !w.Timer.At.IsZero() {
		dueMs = w.Timer.At.UnixMilli() + int64(w.State.Seq-1)*e.intervalMs
	}
	e.startMs = dueMs - int64(w.State.Seq)*e.intervalMs
	e.lookMs = dueMs + w.Offset.Milliseconds()
	if w.Kind == store.WriteOnto {
		e.lookMs = dueMs + w.Offset.Milliseconds()*int64(2*e.rank+1)
	}
	if (w.Kind == store.WriteLive || w.Kind == store.WriteAmend) && w.State.Attempt > 0 {
		e.lookMs = now.UnixMilli() + ceilMs(w.Retry)
	}
	return e
}

// keptMs is until when a body hash is kept after its timer.
func (e *entry) keptMs(nowMs int64, w *store.Write) int64 {
	if e.bodyHash == "" {
		return nowMs
	}
	return nowMs + ceilMs(w.Keep)
}

// says reports whether the write would change nothing in the copy's contents.
func says(w *store.Write, e *entry) bool {
	t, o := w.Timer, e.timer
	return e.state.Ended || max(w.RF, 1) == e.rf && t.Interval == o.Interval && t.At.Equal(o.At) && t.RepeatFor == o.RepeatFor && t.ExpiresAfter == o.ExpiresAfter &&
		t.Callback == o.Callback && slices.Equal(t.Tags, o.Tags)
}

// ask compares one state with the copy; ok says that the states are the same and the copy idle.
func (s *shard) ask(now time.Time, st store.KeyState) (d store.Difference, ok bool) {
	e, nowMs := s.entries[st.Key], now.UnixMilli()
	if e == nil {
		return store.Difference{Missing: true}, false
	}
	d.State = e.state
	if end := e.markMs(nowMs); end > 0 {
		d.Firing = ms(end - nowMs)
	}
	d.LookIn = ms(max(e.lookMs-nowMs, 0))
	counts := !e.state.Ended && (st.Better || st.RankFrom > 0 && e.rank >= st.RankFrom)
	return d, d.Firing == 0 && st.State.Compare(e.state) == 0 && (e.state.Ended || st.State.Rev == e.state.Rev) && !counts
}
