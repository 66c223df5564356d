package scheduler

import (
	"context"
	"errors"
	"time"
)

// recall finds creates that were sent before. A create with an idempotency key reads all
// places before the first write: an owner that lost its data, or was away, would store a
// second timer, and that timer may be called before another owner refuses the create. A
// message of a stream is read only where the timer belonged before the shards changed,
// since the sweep may just have removed the copy that would refuse the write.
func (s *Scheduler) recall(ctx context.Context, open []*attempt) {
	var spots []Spot
	var of []*target
	for _, a := range open {
		for k := range a.targets {
			if t := &a.targets[k]; a.recalls(t) {
				spots, of = append(spots, Spot{Shard: t.shard.name, Key: a.id.Key}), append(of, t)
			}
		}
	}
	if len(spots) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, roundPatience)
	defer cancel()
	read := make(map[*target]*ReadResult, len(of))
	results := s.store.Read(bounded, spots)
	for i, t := range of {
		read[t] = &results[i]
	}
	for _, a := range open {
		a.remember(read)
	}
}

// recalls reports whether the target is read before the first write.
func (a *attempt) recalls(t *target) bool {
	if a.bodyHash == "" || t.shard.away() || a.sent() {
		return false
	}
	return t.stray || !a.anew && len(a.targets) > 1
}

// sent reports whether something was written.
func (a *attempt) sent() bool {
	for i := range a.targets {
		if a.targets[i].tried {
			return true
		}
	}
	return false
}

// remember takes the answers. The newest copy that knows of the create decides: the create
// is a repeat. An owner that did not answer is not waited for once more.
func (a *attempt) remember(read map[*target]*ReadResult) {
	var newest *target
	for k := range a.targets {
		t := &a.targets[k]
		r := read[t]
		if r == nil {
			continue
		}
		if r.Err != nil && !errors.Is(r.Err, ErrNotFound) {
			if t.home {
				t.progress, t.answer = untold, Written{Err: r.Err}
			}
			continue
		}
		if a.knownBy(&r.Record) && (newest == nil || r.Record.State.Compare(read[newest].Record.State) > 0) {
			newest = t
		}
	}
	if newest == nil {
		return
	}
	for k := range a.targets {
		t := &a.targets[k]
		t.progress, t.answer = told, Written{Status: WriteNone}
	}
	there := &read[newest].Record
	newest.answer = Written{
		Status: WriteExists, State: there.State, RF: there.ID.RF, Away: there.Away, BodyHash: there.BodyHash,
		Due: there.Start.Add(time.Duration(there.State.Seq) * there.Timer.Interval), Wait: read[newest].DueIn,
	}
}

// knownBy reports whether a copy refuses the create: the copy is live, or remembers a timer
// of the same key that is over.
func (a *attempt) knownBy(there *Record) bool {
	if there.State.Version == 0 {
		return false
	}
	return !there.State.Ended || there.BodyHash != "" && (!a.anew || there.BodyHash == a.bodyHash)
}
