package storetest

import (
	"errors"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// batchCases are calls with more timers than a store may want to handle at once, and the way of a timer with every
// call sent twice.
func batchCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"many timers in each call": checkMany,
		"every call sent twice":    checkTwice,
	}
}

func checkMany(r *rig) {
	all := append(r.neighbors(600), keys(600)...)
	n := len(all)
	writes, ids := make([]store.Write, n), r.spots(all)
	for i, key := range all {
		writes[i] = write(key, i+1, recurring(brief, 99))
	}
	for i, w := range r.mergeBy(r.a, writes...) {
		if w.Status != store.WriteStored || w.State.Version != version(i+1) {
			r.Fatalf("merge %d: %+v", i, w)
		}
	}
	for i, got := range r.b.Read(r.Context(), ids) {
		if got.Err != nil || got.Record.ID.Key != all[i] || got.Record.State.Version != version(i+1) {
			r.Fatalf("read %d: %+v", i, got)
		}
	}
	r.Pass(3 * brief)
	byShard := map[string][]store.Claimed{}
	for _, c := range r.claimAll(r.a, request()) {
		byShard[c.Lease.Shard] = append(byShard[c.Lease.Shard], c)
	}
	settled := 0
	for shard, claims := range byShard {
		r.fireAndSettle(shard, claims)
		settled += len(claims)
	}
	if settled != n {
		r.Errorf("%d claimed, want %d", settled, n)
	}
	done := 0
	for i, got := range r.b.Read(r.Context(), ids) {
		if errors.Is(got.Err, timer.ErrNotFound) {
			done++
		} else if got.Record.State.Seq < 3 || got.Record.State.Attempt != 0 || got.Leased {
			r.Fatalf("timer %d after its pop: %+v", i, got)
		}
	}
	if done != n/3 || r.pending() != int64(n-n/3) {
		r.Errorf("%d done, %d left, want %d, %d", done, r.pending(), n/3, n-n/3)
	}
}

// fireAndSettle fires all claims. Every third timer, by version, is settled as done, every further timer with its
// next pop.
func (r *rig) fireAndSettle(shard string, claims []store.Claimed) {
	r.Helper()
	fences, settlements := make([]store.Fence, len(claims)), make([]store.Settlement, len(claims))
	for i, c := range claims {
		fences[i] = store.Fence{Lease: c.Lease, Pops: 99}
		settlements[i] = store.Settlement{Lease: c.Lease, Outcome: store.OutcomeNext}
		if int((c.Record.State.Version-version(0))>>16)%3 == 0 {
			settlements[i].Outcome = store.OutcomeDone
		}
	}
	for i, f := range r.a.Fire(r.Context(), shard, terms(far, far), fences) {
		if f.Status != store.FencePassed || f.State.Version != claims[i].Record.State.Version || f.State.Seq < 2 {
			r.Fatalf("fence %d: %+v", i, f)
		}
	}
	for i, s := range r.a.Settle(r.Context(), shard, settlements) {
		if !s.Accepted {
			r.Fatalf("settlement %d: %+v", i, s)
		}
	}
}

// checkTwice takes a recurring timer through its life and sends every call a second time, as a node without an
// answer does.
func checkTwice(r *rig) {
	const pops = 3
	asked := recurring(brief, pops)
	start := r.put("k", 1, asked).Due.Add(-brief)
	if again := r.merge(write("k", 1, asked)); again.Status != store.WriteSame || !again.Due.Equal(start.Add(brief)) {
		r.Errorf("merge again: status %d, due moved by %v, want same, unmoved", again.Status, again.Due.Sub(start.Add(brief)))
	}
	for seq := 0; seq < pops; {
		due := start.Add(time.Duration(seq+1) * brief)
		var c store.Claimed
		r.awaits("claimed", due, later(due, r.Now()), func() bool {
			claims := r.claimAll(r.a, request())
			if len(claims) == 1 {
				c = claims[0]
			}
			return len(claims) == 1
		})
		if len(r.claimAll(r.a, request())) != 0 {
			r.Error("claim again got it again")
		}
		first, second := r.pass(c, pops, terms(far, far)), r.pass(c, pops, terms(far, far))
		if first.State != second.State || first.State.Attempt != 1 || first.State.Seq <= seq {
			r.Errorf("after pop %d the fences say %+v and %+v", seq, first.State, second.State)
		}
		seq = first.State.Seq
		o := store.Settlement{Outcome: store.OutcomeNext}
		if seq == pops {
			o.Outcome = store.OutcomeDone
		}
		r.accept(c, o)
		if r.settle(c, o).Accepted {
			r.Error("settle again was accepted")
		}
		if f := r.fence(c, pops, terms(far, far)); f.Status != store.FenceLost {
			r.Errorf("fence after settlement: status %d, want lost", f.Status)
		}
	}
	if n := r.pending(); n != 0 {
		r.Errorf("%d left, want nothing", n)
	}
	r.put("k", 2, nil)
	if w := r.merge(write("k", 2, nil)); w.Status != store.WriteSame {
		r.Errorf("delete again: status %d, want same", w.Status)
	}
}

// putAll merges a version of n timers that are due when putAll returns.
func (r *rig) putAll(version, n int) {
	r.Helper()
	r.putDue(version, keys(n)...)
}

// putDue merges a version of timers with these keys in one call. The timers are due when putDue returns.
func (r *rig) putDue(version int, keys ...string) {
	r.Helper()
	writes := make([]store.Write, len(keys))
	for i, key := range keys {
		writes[i] = write(key, version, oneShot(0))
	}
	for i, w := range r.mergeBy(r.a, writes...) {
		if w.Status != store.WriteStored {
			r.Fatalf("merge %d: %+v, want stored", i, w)
		}
	}
	r.Pass(slack)
}
