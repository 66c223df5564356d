package storetest

import (
	"fmt"
	"slices"
	"time"

	"chronos/scheduler/store"
)

// retryCases are retries, which are left to other nodes than the node that failed.
func retryCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"a retry is left to other nodes": func(r *rig) {
			r.withinSecond(func(round int) (fault string) {
				r.failed(round, "k")
				if claims := r.claimAll(r.a, leaving()); len(claims) != 0 {
					return "the node that failed claimed it"
				}
				return ""
			})
			if c := r.claim(r.b, leaving()); c.Record.Failure.Node != nodeA || c.Record.State.Attempt != 1 || c.Previous != "" {
				r.Errorf("failed by %q, attempt %d, previous %q, want %q, 1, none", c.Record.Failure.Node, c.Record.State.Attempt, c.Previous, nodeA)
			}
		},
		"a retry is left by the very node that failed": func(r *rig) {
			r.failed(1, "k") // by node-a
			if claims := r.claimAll(r.Open("node"), leaving()); len(claims) != 1 {
				r.Errorf("a node whose id begins the other's claimed %d, want the one that is due", len(claims))
			}
		},
		"a retry is left for a second": func(r *rig) {
			from, to := r.during(func() { r.failed(1, "k") })
			r.awaits("claimed", from.Add(time.Second), to.Add(time.Second), func() bool { return len(r.claimAll(r.a, leaving())) == 1 })
		},
		"a retry is not left right before the next pop": checkRetryBeforeNextPop,
		"a retry is not left if there is nobody else": func(r *rig) {
			r.failed(1, "k")
			r.claim(r.a, request())
		},
		"a first attempt is not left": func(r *rig) {
			r.put("k", 1, oneShot(0))
			r.claim(r.a, leaving())
		},
		"a replaced timer is not left": func(r *rig) {
			r.failed(1, "k")
			r.put("k", 2, oneShot(0))
			r.claim(r.a, leaving())
		},
		"a next pop is not left": func(r *rig) {
			timer := recurring(far, 9)
			r.put("k", 1, timer)
			req := leaving()
			req.Horizon = 9 * far
			r.accept(r.claim(r.a, req), store.Settlement{Outcome: store.OutcomeAgain})
			r.accept(r.claim(r.b, req), store.Settlement{Outcome: store.OutcomeNext})
			r.claim(r.a, req)
		},
		"retries that are left never fill a batch": func(r *rig) {
			const n = 20 // more than the limit; few, since all must fail within a second
			all := r.neighbors(n + 1)
			req := leaving()
			req.Limit = 16
			r.withinSecond(func(round int) (fault string) {
				r.failed(round, all[:n]...)
				r.put(all[n], round, oneShot(0))
				if claims := claimedKeys(r.claimAll(r.a, req)); !slices.Equal(claims, all[n:]) {
					return fmt.Sprintf("claimed %v, want only %v, which is behind all that are left", claims, all[n:])
				}
				return ""
			})
		},
		"a retry that another node died with is not left": func(r *rig) {
			r.failed(1, "k")
			req := leaving()
			req.Grace = brief
			from, to := r.during(func() { r.claim(r.b, req) })
			r.awaits("claimed", from.Add(brief), to.Add(brief), func() bool { return len(r.claimAll(r.a, req)) == 1 })
		},
	}
}

// checkRetryBeforeNextPop fails at the first of several pops 0.9 s apart, or at the only pop, and sees until when
// the retry is left.
func checkRetryBeforeNextPop(r *rig) {
	const interval = 900 * time.Millisecond
	for _, pops := range []int{1, 9} {
		key := fmt.Sprint("pops-", pops)
		from, to := r.during(func() { r.put(key, 1, recurring(interval, pops)) })
		var c store.Claimed
		r.awaits("due", from.Add(interval), to.Add(interval), func() bool {
			claims := r.claimAll(r.a, leaving())
			if len(claims) == 1 {
				c = claims[0]
			}
			return len(claims) == 1
		})
		fenced := r.pass(c, pops, terms(far, far))
		if late := r.Now().Sub(from) >= 2*interval; fenced.State.Seq > 1 && !late {
			r.Fatalf("pop %d was fenced, though pop 2 is not due", fenced.State.Seq)
		}
		r.accept(c, store.Settlement{Outcome: store.OutcomeAgain})
		next := time.Duration(fenced.State.Seq+1)*interval - 500*time.Millisecond
		again, until := from.Add(next), to.Add(next)
		if pops == 1 { // the second is counted from when the retry was due
			again, until = from.Add(interval+time.Second), r.Now().Add(time.Second)
		}
		r.awaits("claimed", again, until, func() bool { return len(r.claimAll(r.a, leaving())) == 1 })
	}
}

func leaving() store.ClaimRequest {
	req := request()
	req.LeaveOwnRetries = true
	return req
}

// withinSecond runs try and reports its fault. A try that took so long that a retry was no longer left is repeated.
func (r *rig) withinSecond(try func(round int) (fault string)) {
	r.Helper()
	for round := 1; round <= 5; round++ {
		var fault string
		from, to := r.during(func() { fault = try(round) })
		if to.Sub(from) > 900*time.Millisecond {
			continue
		}
		if fault != "" {
			r.Error(fault)
		}
		return
	}
	r.Fatal("the machine is too slow for this test")
}

// failed makes timers that wait for their second attempt. The second attempt is due at once, since node a's attempt
// failed.
func (r *rig) failed(n int, keys ...string) {
	r.Helper()
	r.putDue(n, keys...)
	var settlements []store.Settlement
	var fences []store.Fence
	claims := r.claimAll(r.a, request())
	for _, c := range claims {
		fences = append(fences, store.Fence{Lease: c.Lease, Pops: 1})
		settlements = append(settlements, store.Settlement{Lease: c.Lease, Outcome: store.OutcomeAgain})
	}
	if len(claims) != len(keys) {
		r.Fatalf("%d claimed, want %d", len(claims), len(keys))
	}
	shard := claims[0].Lease.Shard
	for i, f := range r.a.Fire(r.Context(), shard, terms(far, far), fences) {
		if f.Status != store.FencePassed {
			r.Fatalf("fence %d: %+v, want passed", i, f)
		}
	}
	for i, s := range r.a.Settle(r.Context(), shard, settlements) {
		if !s.Accepted {
			r.Fatalf("settlement %d: %+v, want accepted", i, s)
		}
	}
}
