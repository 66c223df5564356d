package storetest

import (
	"fmt"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func takeCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"take leases what is due": func(r *rig) {
			w := r.put("k", 1, oneShot(0))
			var got store.Taken
			from, to := r.during(func() { got = r.take(r.shard(), "k", far) })
			if got.Status != store.TakeGot || got.Lease.Key != "k" || got.Lease.Shard != r.shard() || got.Previous != "" {
				r.Fatalf("taken is %+v, want got", got)
			}
			if got.Record.ID.Key != "k" || got.Record.State != w.State || got.Record.Timer.Callback != oneShot(0).Callback {
				r.Errorf("record is %+v", got.Record)
			}
			r.between("due in", from.Add(got.DueIn), w.Due.Add(-to.Sub(from)), w.Due)
			if claims := r.claimAll(r.a, request()); len(claims) != 0 {
				r.Error("what was taken was claimed")
			}
			r.pass(got.Claimed, 1, terms(far, far))
			r.accept(got.Claimed, store.Settlement{Outcome: store.OutcomeDone})
		},
		"take of what is leased waits for the lease": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			for range 2 {
				if got := r.take(c.Lease.Shard, "k", far); got.Status != store.TakeLeased || got.Wait > far || got.Wait < far-time.Minute {
					r.Errorf("status %d, wait %v, want leased, nearly %v", got.Status, got.Wait, far)
				}
			}
			r.pass(c, 1, terms(brief, far/2))
			if got := r.take(c.Lease.Shard, "k", far); got.Status != store.TakeLeased || got.Wait > far/2 || got.Wait < far/2-time.Minute {
				r.Errorf("fired: status %d, wait %v, want leased, nearly %v", got.Status, got.Wait, far/2)
			}
		},
		"take of what is not due tells when it is": func(r *rig) {
			w := r.put("k", 1, oneShot(far))
			var got store.Taken
			from, to := r.during(func() { got = r.take(r.shard(), "k", far) })
			if got.Status != store.TakeWaiting {
				r.Errorf("status %d, want waiting", got.Status)
			}
			r.between("wait", from.Add(got.Wait), w.Due.Add(-to.Sub(from)), w.Due)
			if r.live("k").Leased {
				r.Error("it was leased")
			}
		},
		"take of a tombstone": func(r *rig) {
			r.put("k", 1, nil)
			r.takes(r.shard(), "k", store.TakeEnded)
		},
		"take of what isn't there": func(r *rig) { r.takes(r.a.Shards()[0], "k", store.TakeMissing) },
		"take of what is due later": func(r *rig) {
			w := r.put("k", 1, oneShot(brief))
			r.awaits("taken", w.Due, w.Due, func() bool { return r.take(r.shard(), "k", far).Status == store.TakeGot })
		},
		"take after the lease ended names who had it": func(r *rig) {
			r.put("k", 1, oneShot(0))
			req := request()
			req.Grace = brief
			var c store.Claimed
			from, to := r.during(func() { c = r.claim(r.b, req) })
			r.awaits("taken", from.Add(brief), to.Add(brief), func() bool {
				got := r.take(r.shard(), "k", far)
				if got.Status == store.TakeGot && got.Previous != nodeB {
					r.Errorf("previous is %q, want %q", got.Previous, nodeB)
				}
				return got.Status == store.TakeGot
			})
			if f := r.fence(c, 1, terms(far, far)); f.Status != store.FenceLost {
				r.Errorf("fence of the lease that ended: status %d, want lost", f.Status)
			}
		},
		"take lasts its grace": func(r *rig) {
			r.put("k", 1, oneShot(0))
			from, to := r.during(func() { r.take(r.shard(), "k", brief) })
			r.awaits("claimed", from.Add(brief), to.Add(brief), func() bool { return len(r.claimAll(r.b, request())) == 1 })
		},
		"take answers in the order of its keys":  checkTakeOrder,
		"take tells the state of what isn't got": checkTakenState,
		"take does not leave retries": func(r *rig) {
			r.failed(1, "k")
			r.takes(r.shard(), "k", store.TakeGot)
		},
	}
}

func (r *rig) take(shard, key string, grace time.Duration) store.Taken {
	r.Helper()
	got := r.a.Take(r.Context(), shard, grace, []string{key})
	if len(got) != 1 || got[0].Err != nil {
		r.Fatalf("take of one key: %+v", got)
	}
	return got[0]
}

// checkTakenState: who doesn't get a copy is told how it stands.
func checkTakenState(r *rig) {
	state := func(key string) timer.State {
		r.Helper()
		return r.take(r.shard(), key, far).Record.State
	}
	r.put("later", 3, oneShot(far))
	if got, want := state("later"), (timer.State{Version: version(3), Seq: 1}); got != want {
		r.Errorf("waiting: %+v, want %+v", got, want)
	}
	r.put("fired", 1, oneShot(0))
	f := r.pass(r.claim(r.a, request()), 1, terms(far, far))
	if got := state("fired"); got != f.State {
		r.Errorf("leased: %+v, want %+v", got, f.State)
	}
	r.put("gone", 5, nil)
	if got := state("gone"); !got.Ended || got.Version != version(5) {
		r.Errorf("ended: %+v", got)
	}
	if got := state("none"); got != (timer.State{}) {
		r.Errorf("missing: %+v", got)
	}
}

func (r *rig) takes(shard, key string, want store.TakeStatus) {
	r.Helper()
	if got := r.take(shard, key, far); got.Status != want {
		r.Errorf("status %d, want %d", got.Status, want)
	}
}

func checkTakeOrder(r *rig) {
	const n = 30
	for i, key := range keys(n) {
		switch i % 3 {
		case 0:
			r.put(key, 1, oneShot(0))
		case 1:
			r.put(key, 1, oneShot(far))
		}
	}
	for i, got := range r.a.Take(r.Context(), r.shard(), far, append(keys(n), keys(1)...)) {
		want := []store.TakeStatus{store.TakeGot, store.TakeWaiting, store.TakeMissing}[i%3]
		if i == n {
			want = store.TakeLeased // the first key once more
		}
		// A key whose home is another of several shards is missing on this one.
		if got.Status != want && (len(r.a.Shards()) == 1 || got.Status != store.TakeMissing) {
			r.Errorf("answer %d: status %d, want %d", i, got.Status, want)
		}
		if got.Status == store.TakeGot && got.Lease.Key != fmt.Sprintf("timer-%04d", i) {
			r.Errorf("answer %d is about %s", i, got.Lease.Key)
		}
	}
}
