package redisstore

import (
	"context"
	"slices"
	"time"

	"chronos/scheduler/store"
)

// The calls of the differential test.

// merge sends writes as clients' requests do.
func (d *differ) merge() {
	n := d.node()
	writes, modelled := d.inOrder()
	d.sendBoth("merge", n, modelled, func() []store.Written { return d.stores[n].Merge(context.Background(), writes) })
}

// tell sends writes as outcomes and repairs do.
func (d *differ) tell() {
	n := d.node()
	writes, modelled := d.inOrder()
	d.sendBoth("tell", n, modelled, func() []store.Written { return d.stores[n].Tell(context.Background(), "a", writes) })
}

// inOrder are writes for the store and for the model. Writes that make no timer go last, as in the store: the order
// within a call does not matter.
func (d *differ) inOrder() (writes, modelled []store.Write) {
	writes, modelled = d.writes()
	makers := func(a, b store.Write) int {
		return map[bool]int{true: -1}[makesTimer(&a)] - map[bool]int{true: -1}[makesTimer(&b)]
	}
	slices.SortStableFunc(writes, makers)
	slices.SortStableFunc(modelled, makers)
	return writes, modelled
}

func (d *differ) sendBoth(what string, n int, modelled []store.Write, send func() []store.Written) {
	var got []store.Written
	d.do(func() error {
		got = send()
		return first(got, func(w store.Written) error { return w.Err })
	}, func() {
		want := d.views[n].Tell(context.Background(), "a", modelled)
		for i := range got {
			got[i].Partition, want[i].Partition = 0, 0 // the model has another hash
		}
		d.same(what, got, want)
	})
}

// first is the first error of some answers.
func first[T any](answers []T, errOf func(T) error) error {
	for _, a := range answers {
		if err := errOf(a); err != nil {
			return err
		}
	}
	return nil
}

// claimToSettle is the way of a timer on a node, or a part of the way.
func (d *differ) claimToSettle() {
	grace, had := d.some("grace"), len(d.leases)
	d.claim(grace)
	got := d.leases[had:]
	if len(got) > 0 && draw(d, "fires", true, true, true, false) {
		d.fire(got)
	}
	if len(got) > 0 && draw(d, "settles", true, true, false) {
		d.settle(got)
	}
}

func (d *differ) claim(grace time.Duration) {
	n, limit := d.node(), draw(d, "limit", 1, 2, 3, 500)
	req := store.ClaimRequest{
		Horizon: d.some("horizon"), Limit: limit, Grace: grace, LeaveOwnRetries: draw(d, "leave", false, true),
	}
	if draw(d, "looks", false, false, true) {
		req.Neglected = time.Millisecond + d.whole("neglected")
	}
	if draw(d, "keeps tombstones", false, false, true) {
		req.KeepTombstones = d.whole("kept")
	}
	all := req
	all.Limit *= Partitions // every partition gets its share
	var got store.ClaimResult
	d.do(func() (err error) {
		got, err = d.stores[n].Claim(context.Background(), "a", all)
		return err
	}, func() {
		want, _ := d.views[n].Claim(context.Background(), "a", req)
		for i := range min(len(got.Claims), len(want.Claims)) {
			d.gained(n, got.Claims[i], want.Claims[i])
			alike(&got.Claims[i], &want.Claims[i])
		}
		d.same("claim", got, want)
	})
}

// fire fences no tombstone: a node that claimed a tombstone knows so.
func (d *differ) fire(pairs []leasePair) {
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(p leasePair) bool { return p.grave })
	if len(pairs) == 0 {
		return
	}
	terms := store.FenceTerms{Limit: d.some("limit"), Hold: d.some("hold"), CatchUp: draw(d, "catch up", 1, 2, 10)}
	fences, modelled := make([]store.Fence, len(pairs)), make([]store.Fence, len(pairs))
	for i, p := range pairs {
		fences[i] = store.Fence{Lease: p.store, Pops: draw(d, "pops", 1, 2, 3, 50), ExpiresAfter: draw(d, "expires", 0, 0, d.unit, 5*d.unit)}
		if draw(d, "late", false, false, false, true) {
			fences[i].Age = terms.Limit + time.Hour
		}
		modelled[i] = fences[i]
		modelled[i].Lease = p.model
	}
	var got []store.Fenced
	d.do(func() error {
		got = d.stores[pairs[0].node].Fire(context.Background(), "a", terms, fences)
		return first(got, func(f store.Fenced) error { return f.Err })
	}, func() {
		asked := slices.Clone(modelled) // a change for this time must not stay for the next time
		for i := range got {
			// The call may have run too late by the clock that no test can stop.
			if got[i].Status == store.FenceTooLate && d.redis.mini == nil {
				asked[i].Age = terms.Limit + time.Hour
			}
		}
		want := d.views[pairs[0].node].Fire(context.Background(), "a", terms, asked)
		for i := range got {
			if got[i].Status == store.FenceLost { // a lost fence says little more
				got[i] = store.Fenced{Status: store.FenceLost, Free: got[i].Free, Err: got[i].Err}
			}
		}
		d.same("fire", got, want)
	})
}

func (d *differ) settle(pairs []leasePair) {
	settlements, modelled := make([]store.Settlement, len(pairs)), make([]store.Settlement, len(pairs))
	for i, p := range pairs {
		settlements[i] = store.Settlement{
			Lease: p.store, Delay: d.some("delay"), Offset: d.some("offset"),
			Reason: draw(d, "reason", "", "no - reason", "-"), Keep: draw(d, "keep", 0, 0, d.unit, 10*d.unit),
			Outcome: draw(d, "outcome", store.OutcomeRelease, store.OutcomeDone, store.OutcomeNext,
				store.OutcomeNext, store.OutcomeAgain, store.OutcomeAgain, store.OutcomeDead, store.OutcomeLetter),
			Untold: d.away("untold"),
		}
		modelled[i] = settlements[i]
		modelled[i].Lease = p.model
	}
	var got []store.Settled
	d.do(func() error {
		got = d.stores[pairs[0].node].Settle(context.Background(), "a", settlements)
		return first(got, func(s store.Settled) error { return s.Err })
	}, func() {
		d.same("settle", got, d.views[pairs[0].node].Settle(context.Background(), "a", modelled))
	})
}

func (d *differ) ask() {
	n := d.node()
	states := make([]store.KeyState, draw(d, "states", 1, 2, 5))
	for i := range states {
		states[i].Key = d.key()
		states[i].State = d.state(states[i].Key)
		states[i].RankFrom = draw(d, "rank from", 0, 1, 2)
		states[i].Better = draw(d, "better", false, true)
	}
	var got []store.Difference
	d.do(func() (err error) {
		got, err = d.stores[n].Ask(context.Background(), "a", states)
		return err
	}, func() {
		want, _ := d.views[n].Ask(context.Background(), "a", states)
		d.same("ask", got, want)
	})
}

// recount has spoilt sums be right again.
func (d *differ) recount() {
	ctx, tags := context.Background(), d.stores[0].keys[differPartition].tags
	for _, field := range draw(d, "spoils", nil, []string{"a%20b"}, []string{"a%20b", "none", "-x"}) {
		if err := d.redis.client.HIncrBy(ctx, tags, field, draw(d, "by", int64(1), -3, 1<<40)).Err(); err != nil {
			d.rt.Fatalf("spoil the sum of %s: %v", field, err)
		}
	}
	if draw(d, "loses all", false, false, true) {
		if err := d.redis.client.Del(ctx, tags).Err(); err != nil {
			d.rt.Fatalf("lose the sums: %v", err)
		}
	}
	node := d.stores[d.node()]
	off, err := node.Recount(ctx, "a", differPartition, nil)
	if d.breaksOff(err) {
		return
	}
	if off, err = node.Recount(ctx, "a", differPartition, off); !d.breaksOff(err) && len(off) > 0 {
		d.rt.Fatalf("a second recount leaves %v, though nobody else is there", off)
	}
}

func (d *differ) pass() {
	d.redis.pass(d.T, time.Duration(draw(d, "tenths", 1, 10, 20, 30, 50, 100))*d.unit/10)
	if d.redis.mini != nil {
		for _, s := range d.stores {
			s.learn(d.T, d.redis)
		}
	}
}
