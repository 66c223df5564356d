package storetest

import (
	"time"

	"chronos/scheduler/store"
)

// neglectedCases are claims in partitions that another node polls.
func neglectedCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"what is overdue is neglected": func(r *rig) {
			long, lately := oneShot(0), oneShot(0)
			long.At = r.Now().Add(-2 * far).Truncate(time.Millisecond)
			lately.At = r.Now().Add(-time.Second).Truncate(time.Millisecond)
			r.put("long", 1, long)
			r.put("lately", 1, lately)
			if c := r.claim(r.a, neglected()); c.Lease.Key != "long" {
				r.Errorf("claimed %s, want what is overdue for longer", c.Lease.Key)
			}
		},
		"what is ahead is not neglected": func(r *rig) {
			r.put("k", 1, oneShot(far/2))
			req := neglected()
			req.Horizon = far
			r.claimsNone(r.a, req)
		},
		"what becomes overdue is neglected": func(r *rig) {
			from, to := r.during(func() { r.put("k", 1, oneShot(0)) })
			req := neglected()
			req.Neglected = brief
			r.awaits("claimed", from.Add(brief), to.Add(brief+slack), func() bool { return len(r.claimAll(r.a, req)) == 1 })
		},
		"a retry is for others than the node that failed": func(r *rig) {
			r.failed(1, "k") // by node a
			r.claimsNone(r.a, neglected())
			r.claim(r.b, neglected())
		},
		"an ended lease is neglected": func(r *rig) {
			r.put("k", 1, oneShot(0))
			req := request()
			req.Grace = brief
			from, to := r.during(func() { r.claim(r.a, req) })
			r.awaits("claimed", from.Add(brief), to.Add(brief), func() bool { return len(r.claimAll(r.b, neglected())) == 1 })
		},
		"tombstones are buried beside": func(r *rig) {
			w := write("k", 1, nil)
			w.Life = brief
			from, to := r.during(func() { r.merge(w) })
			r.awaits("buried", from.Add(brief), to.Add(brief), func() bool {
				r.claimsNone(r.b, neglected())
				return r.pending() == 0
			})
		},
	}
}

func neglected() store.ClaimRequest {
	req := request()
	req.Neglected = far
	return req
}

func (r *rig) claimsNone(node store.Store, req store.ClaimRequest) {
	r.Helper()
	if claims := r.claimAll(node, req); len(claims) != 0 {
		r.Errorf("%d claimed, want none", len(claims))
	}
}
