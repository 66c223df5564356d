package storetest

import (
	"errors"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// graveCases are rule "tombstones outlive what was missed": a tombstone that names copies stays until the named
// copies have heard. Tombstones that a silent shard may need stay, too.
func graveCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"a settlement names who must still hear of it":       checkUntold,
		"a tombstone that names copies is claimed":           checkGrave,
		"what is made in place of a claimed tombstone stays": checkGraveReplaced,
		"tombstones are kept for so long past their life":    checkKeepTombstones,
		"tombstones that ended before that are buried": func(r *rig) {
			r.grave("k")
			r.Pass(2 * brief)
			req := request()
			req.KeepTombstones = brief
			r.claimAll(r.a, req)
			if n := r.pending(); n != 0 {
				r.Errorf("%d are left, want none", n)
			}
		},
		"keeping tombstones keeps no timer": func(r *rig) {
			r.put("k", 1, oneShot(0))
			req := request()
			req.KeepTombstones = far
			r.claim(r.a, req)
		},
	}
}

// grave makes a tombstone whose life is over.
func (r *rig) grave(key string, away ...store.Away) {
	r.Helper()
	w := write(key, 5, nil)
	w.Life, w.Away = 0, away
	if got := r.merge(w); got.Status != store.WriteStored {
		r.Fatalf("delete: %+v, want stored", got)
	}
	r.Pass(slack)
}

// checkUntold: done and dead leave a tombstone that names the copies which missed the end.
func checkUntold(r *rig) {
	for i, outcome := range []store.Outcome{store.OutcomeDone, store.OutcomeDead} {
		for _, fires := range []bool{false, true} {
			key := keys(4)[2*i+map[bool]int{true: 1}[fires]]
			r.put(key, 5, oneShot(0))
			r.Pass(slack)
			c := r.claim(r.a, request())
			if fires {
				r.pass(c, 1, terms(far, far))
			}
			from, to := r.during(func() {
				r.accept(c, store.Settlement{Outcome: outcome, Reason: "status 500", Keep: far, Untold: []store.Away{second(), first()}})
			})
			got := r.read(key)
			if !errors.Is(got.Err, timer.ErrNotFound) || !got.Record.State.Ended || got.Record.State.Version != version(5) || got.Leased {
				r.Errorf("%s: %+v, want a tombstone", outcome, got)
			}
			r.between("its end", got.Look, from.Add(far), to.Add(far))
			r.checkUnheard(key, first(), second())
			if late := r.merge(write(key, 5, oneShot(0))); late.Status != store.WriteNewer {
				r.Errorf("a late create: %+v, want newer", late)
			}
		}
	}
}

// checkGrave: a tombstone that names copies is leased when the tombstone's life is over, and comes again until
// settled as done.
func checkGrave(r *rig) {
	w := write("k", 5, nil)
	w.Life, w.Away = brief, []store.Away{first()}
	from, to := r.during(func() { r.merge(w) })
	claim := func(node store.Store, from, to time.Time) (c store.Claimed) {
		r.Helper()
		r.awaits("claimed", from, to, func() bool {
			claims := r.claimAll(node, request())
			if len(claims) == 1 {
				c = claims[0]
			}
			return len(claims) == 1
		})
		return c
	}
	c := claim(r.a, from.Add(brief), to.Add(brief))
	if !c.Record.State.Ended || c.Record.State.Version != version(5) || !sameAway(c.Record.Away, first()) || c.Err != nil || c.Record.ID.RF != replicas {
		r.Errorf("claimed %+v, want the tombstone", c)
	}
	if late := r.merge(write("k", 4, oneShot(0))); late.Status != store.WriteNewer {
		r.Errorf("a late create while it is leased: status %d, want newer", late.Status)
	}
	if claims := r.claimAll(r.b, request()); len(claims) != 0 {
		r.Error("it was claimed twice")
	}
	from, to = r.during(func() { r.settle(c, store.Settlement{Outcome: store.OutcomeRelease, Delay: brief}) })
	c = claim(r.b, from.Add(brief), later(to.Add(brief), r.Now()))
	r.checkUnheard("k", first())
	r.settledBy(r.b, c, store.Settlement{Outcome: store.OutcomeDone})
	if n := r.pending(); n != 0 {
		r.Errorf("%d left, want nothing", n)
	}
	if d, _ := r.ask(r.shard(), "k", timer.State{}); !d.Missing {
		r.Errorf("ask says %+v, want missing", d)
	}
}

func (r *rig) settledBy(node store.Store, c store.Claimed, o store.Settlement) {
	r.Helper()
	o.Lease = c.Lease
	if got := node.Settle(r.Context(), o.Lease.Shard, []store.Settlement{o})[0]; got.Err != nil || !got.Accepted {
		r.Fatalf("settle %s: %+v, want accepted", o.Outcome, got)
	}
}

// checkGraveReplaced: a create ends the lease on a tombstone, so that the node that removes the tombstone removes no
// timer.
func checkGraveReplaced(r *rig) {
	r.grave("k", first())
	c := r.claim(r.a, request())
	r.put("k", 6, oneShot(far))
	if s := r.settle(c, store.Settlement{Outcome: store.OutcomeDone}); s.Accepted {
		r.Error("the burial was accepted")
	}
	if got := r.live("k").Record.State; got != (timer.State{Version: version(6), Seq: 1}) {
		r.Errorf("there is %+v, want the timer", got)
	}
	r.checkUnheard("k")
}

// checkKeepTombstones: kept tombstones are looked at again later, and not claimed meanwhile, whether they name
// copies or not.
func checkKeepTombstones(r *rig) {
	r.grave("plain")
	r.grave("named", first())
	req := request()
	req.KeepTombstones = far
	from, to := r.during(func() {
		if claims := r.claimAll(r.a, req); len(claims) != 0 {
			r.Errorf("%d were claimed, want none", len(claims))
		}
	})
	for _, key := range []string{"plain", "named"} {
		got := r.read(key)
		if !got.Record.State.Ended || got.Leased {
			r.Errorf("%s: %+v, want the tombstone, unleased", key, got)
		}
		r.between("next look", got.Look, from.Add(lookAgainMs*time.Millisecond), to.Add(lookAgainMs*time.Millisecond))
		if late := r.merge(write(key, 4, oneShot(0))); late.Status != store.WriteNewer {
			r.Errorf("%s, a late create: status %d, want newer", key, late.Status)
		}
	}
	if claims := r.claimAll(r.a, request()); len(claims) != 0 || r.pending() != 2 {
		r.Errorf("%d claimed, %d left before the next look, want none, 2", len(claims), r.pending())
	}
}
