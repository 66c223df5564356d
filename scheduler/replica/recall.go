package replica

import (
	"context"
	"fmt"
	"slices"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// recall finds creates that were sent before. A create with an idempotency key asks all places
// before the first write. Otherwise an owner that lost its data, or was away, would store a second
// timer, and the second timer might fire before another owner refuses the create. For a message of
// a stream only the former owners are asked, since the sweep may just have removed the copy there
// that would refuse the write.
//
// The question goes with writes, over open connections, unlike a read.
func (k *Keeper) recall(ctx context.Context, open []*attempt) {
	var looks []store.Write
	var of []*target
	for _, a := range open {
		for t := range each(a.targets) {
			if a.recalls(t) {
				looks = append(looks, a.lookAt(t))
				of = append(of, t)
			}
		}
	}
	heard := make(map[*target]*store.Written, len(of))
	if len(looks) > 0 {
		bounded, cancel := k.config.Awake.WithTimeout(ctx, timing.RecallPatience)
		defer cancel()
		answers := k.store.Merge(bounded, looks)
		for i, t := range of {
			heard[t] = &answers[i]
			k.shards.Heard(answers[i].State.Written())
		}
	}
	for _, a := range open {
		if a.BodyHash != "" && !a.sent() {
			a.remember(heard)
		}
	}
}

// recalls reports whether the target is asked before the first write.
func (a *attempt) recalls(t *target) bool {
	if a.BodyHash == "" || t.Shard.Away() || a.sent() {
		return false
	}
	return !t.Home || !a.anew && len(a.targets) > 1
}

// sent reports whether a write was sent.
func (a *attempt) sent() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.tried })
}

// remember takes the answers. The newest copy that knows of the create decides: the create is a
// repetition. An owner that did not answer is not asked once more.
func (a *attempt) remember(heard map[*target]*store.Written) {
	var newest *target
	for t := range each(a.targets) {
		switch there := heard[t]; {
		case there == nil:
		case there.Err != nil && t.Home:
			t.failed(there.Err)
		case there.Err != nil || !a.knownBy(there):
		case newest == nil || there.State.Compare(heard[newest].State) > 0:
			newest = t
		}
	}
	if newest == nil {
		if !a.wouldKnow(heard) {
			a.refuse()
		}
		return
	}
	for t := range each(a.targets) {
		t.progress, t.answer = told, store.Written{Status: store.WriteNone}
	}
	newest.answer = *heard[newest]
	newest.answer.Status = store.WriteExists
}

// wouldKnow reports whether the shards that answered, or are about to be asked by the write itself, would
// know of an earlier create. While the shards change, an earlier timer may be with the owners by any list: the
// present owners know nothing until the sweep, the former owners nothing afterwards, and another node may know
// already that the coming owners count.
func (a *attempt) wouldKnow(heard map[*target]*store.Written) bool {
	owners := a.k.store.Rank(a.ID.Key)
	owners = owners[:min(a.ID.RF, len(owners))]
	for _, o := range a.k.store.Others(a.ID.Key, a.ID.RF) {
		if o.Rank > 0 {
			owners = append(owners, o.Shard)
			continue
		}
		if !a.someKnow(heard, owners) {
			return false
		}
		owners = []string{o.Shard} // the first of the next list
	}
	return a.someKnow(heard, owners)
}

// someKnow reports whether some of these owners would know of an earlier create. A shard that lacks writes may
// have missed the create that a silent shard acknowledged.
func (a *attempt) someKnow(heard map[*target]*store.Written, owners []string) bool {
	silent := false
	for t := range each(a.targets) {
		if !slices.Contains(owners, t.Shard.Name) {
			continue
		}
		there, asked := heard[t]
		answers := asked && there.Err == nil || !asked && t.Home && !t.Shard.Away()
		if answers && !t.Shard.Answers.Outage.LacksWrites() {
			return true
		}
		silent = silent || !answers
	}
	return !silent // all have answered, or none of the owners is left
}

// refuse ends a try before anything was written.
func (a *attempt) refuse() {
	for t := range each(a.targets) {
		t.progress = untold
		t.answer = store.Written{Err: fmt.Errorf("%w: no shard has answered that surely knows of an earlier create with this key", timer.ErrUnavailable)}
	}
}

// knownBy reports whether a copy refuses the create: the copy is live, or remembers an earlier
// timer of the key.
func (a *attempt) knownBy(there *store.Written) bool {
	if there.Status == store.WriteNone || there.State.Version == 0 {
		return false
	}
	return !there.State.Ended || there.BodyHash != "" && (!a.anew || there.BodyHash == a.BodyHash)
}
