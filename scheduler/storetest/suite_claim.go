package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func claimCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"claim gets what is due within the horizon": func(r *rig) {
			r.put("now", 1, oneShot(0))
			r.put("soon", 1, oneShot(far))
			r.put("later", 1, oneShot(3*far))
			req := request()
			req.Horizon = 2 * far
			if diff := cmp.Diff([]string{"now", "soon"}, claimedKeys(r.claimAll(r.a, req))); diff != "" {
				r.Errorf("claimed (-want +got):\n%s", diff)
			}
		},
		"claim leaves what is not due yet":         checkClaimWhenDue,
		"claim tells all about the timer":          checkClaimed,
		"claim leases to one node only":            checkClaimOnce,
		"claim changes no state":                   checkClaimKeepsState,
		"claim lasts until due and grace":          checkLeaseEnd,
		"claim of what is overdue lasts its grace": checkOverdueLeaseEnd,
		"claim within the horizon leaves leases that last": func(r *rig) {
			r.pass(r.leased("fired", oneShot(0), far), 1, terms(brief, far/2))
			r.put("waits", 1, oneShot(far/2))
			req := request()
			req.Horizon = far
			if claims := claimedKeys(r.claimAll(r.b, req)); slices.Contains(claims, "fired") || !slices.Contains(claims, "waits") {
				r.Errorf("claimed %v, want waits and not fired, whose hold lasts", claims)
			}
		},
		"claim takes no more than its limit":              checkLimit,
		"claims of partitions get what is in them":        checkPartitions,
		"claim brings about as many bytes as it may":      checkBytes,
		"claim takes the earliest first":                  checkOrder,
		"claim without more has left nothing that is due": checkMore,
		"claim stops when it has brought enough bytes":    checkMaxBytes,
		"claim of none claims none": func(r *rig) {
			r.put("k", 1, oneShot(0))
			for _, shard := range r.a.Shards() {
				result, err := r.a.Claim(r.Context(), shard, store.ClaimRequest{Grace: far})
				if err != nil || len(result.Claims) != 0 {
					r.Errorf("claim with limit 0: %+v, %v", result, err)
				}
			}
			r.claim(r.a, request())
		},
		"claim by many at once gives each timer once": checkConcurrentClaims,
	}
}

func claimedKeys(claims []store.Claimed) []string {
	got := make([]string, len(claims))
	for i, c := range claims {
		got[i] = c.Lease.Key
	}
	slices.Sort(got)
	return got
}

func checkClaimWhenDue(r *rig) {
	due := r.put("k", 1, oneShot(brief)).Due
	r.awaits("claimed", due, due, func() bool { return len(r.claimAll(r.a, request())) == 1 })

	due = r.put("ahead", 1, oneShot(2*brief)).Due.Add(-brief)
	req := request()
	req.Horizon = brief
	r.awaits("claimed ahead", due, due, func() bool { return len(r.claimAll(r.a, req)) == 1 })
}

func checkClaimed(r *rig) {
	asked := recurring(far, 7)
	asked.Tags = []timer.Tag{{Type: "call", Count: 2}}
	asked.Callback.Opaque = "body"
	w := r.put("k", 1, asked)
	req := request()
	req.Horizon = 2 * far
	var c store.Claimed
	from, to := r.during(func() { c = r.claim(r.b, req) })
	want := store.Record{
		ID: timer.ID{Key: "k", RF: replicas}, State: timer.State{Version: version(1), Seq: 1}, Timer: *asked, Start: w.Due.Add(-far),
	}
	if diff := cmp.Diff(want, c.Record); diff != "" {
		r.Errorf("record (-want +got):\n%s", diff)
	}
	r.between("due in", from.Add(c.DueIn), w.Due.Add(-to.Sub(from)), w.Due)
	if c.Previous != "" || c.Err != nil {
		r.Errorf("previous %q, err %v, want none", c.Previous, c.Err)
	}
	if c.Lease.Key != "k" || c.Lease.Shard != r.shard() || c.Lease.Token == "" {
		r.Errorf("lease is %+v", c.Lease)
	}
}

func checkClaimOnce(r *rig) {
	for i, key := range keys(20) {
		r.put(key, i, oneShot(0))
	}
	first := r.claimAll(r.a, request())
	if len(first) != 20 {
		r.Errorf("%d claimed, want 20", len(first))
	}
	if again := r.claimAll(r.a, request()); len(again) != 0 {
		r.Errorf("the same node claimed %d again", len(again))
	}
	req := request()
	req.Horizon = far / 2
	if again := r.claimAll(r.b, req); len(again) != 0 {
		r.Errorf("another node claimed %d again", len(again))
	}
	for _, c := range first {
		if !r.live(c.Lease.Key).Leased {
			r.Errorf("%s is not read as leased", c.Lease.Key)
		}
	}
}

func checkClaimKeepsState(r *rig) {
	r.put("k", 1, recurring(far, 3))
	before := r.live("k")
	req := request()
	req.Horizon = 2 * far
	r.claim(r.a, req)
	after := r.live("k")
	if diff := cmp.Diff(before.Record, after.Record); diff != "" {
		r.Errorf("record (-before +after):\n%s", diff)
	}
	if !after.Leased || !after.Due.Equal(before.Due) || !after.Look.Equal(before.Due.Add(far)) {
		r.Errorf("leased %v, due %v, look %v; want leased, due as before, looked at a grace after due", after.Leased, after.Due, after.Look)
	}
}

// A claim ahead of due: the grace begins with the due time.
func checkLeaseEnd(r *rig) {
	due := r.put("k", 1, oneShot(2*brief)).Due
	req := request()
	req.Horizon, req.Grace = far, brief
	var first, second store.Claimed
	_, to := r.during(func() { first = r.claim(r.a, req) })
	if to.Before(due) {
		to = due
	}
	r.awaits("claimed again", due.Add(brief), to.Add(brief), func() bool {
		claims := r.claimAll(r.b, req)
		if len(claims) == 1 {
			second = claims[0]
		}
		return len(claims) == 1
	})
	if second.Previous != nodeA {
		r.Errorf("previous is %q, want %q", second.Previous, nodeA)
	}
	if second.Lease.Token == first.Lease.Token {
		r.Error("two leases have one token")
	}
	if second.DueIn > slack {
		r.Errorf("due in %v, want overdue", second.DueIn)
	}
	if f := r.fence(first, 1, terms(far, far)); f.Status != store.FenceLost {
		r.Errorf("fence of the lease that ended: status %d, want lost", f.Status)
	}
	if s := r.settle(first, store.Settlement{Outcome: store.OutcomeDone}); s.Accepted {
		r.Error("a settlement of the lease that ended was accepted")
	}
}

func checkOverdueLeaseEnd(r *rig) {
	asked := oneShot(0)
	asked.At = r.Now().Add(-far).Truncate(time.Millisecond).UTC()
	r.put("k", 1, asked)
	req := request()
	req.Grace = brief
	from, to := r.during(func() { r.claim(r.a, req) })
	r.awaits("claimed again", from.Add(brief), to.Add(brief), func() bool { return len(r.claimAll(r.b, req)) == 1 })
}

func checkLimit(r *rig) {
	const n = 120
	r.putAll(1, n)
	for _, limit := range []int{1, 3, 17, 40} {
		for _, shard := range r.a.Shards() {
			req := request()
			req.Limit = limit
			result, err := r.a.Claim(r.Context(), shard, req)
			if err != nil || len(result.Claims) > limit {
				r.Errorf("claim with limit %d got %d, %v", limit, len(result.Claims), err)
			}
			if len(result.Claims) == limit && !result.More {
				r.Errorf("claim with limit %d reached it, and says there is no more", limit)
			}
		}
	}
}

func checkPartitions(r *rig) {
	const n, parts = 200, 4
	of := make(map[string]int)
	for _, key := range keys(n) {
		of[key] = r.put(key, 1, oneShot(0)).Partition
	}
	got := 0
	for part := range parts {
		req := request()
		for p := part; p < store.Partitions; p += parts {
			req.Partitions = append(req.Partitions, p)
		}
		for _, c := range r.claimAll(r.a, req) {
			if p := of[c.Lease.Key]; p != c.Lease.Partition || p%parts != part {
				r.Errorf("%s was put into partition %d and claimed from %d by a claim of %v", c.Lease.Key, p, c.Lease.Partition, req.Partitions)
			}
			got++
		}
	}
	if got != n {
		r.Errorf("all claims have %d timers, want %d", got, n)
	}
	req := request()
	req.Partitions = []int{}
	if claims := r.claimAll(r.a, req); len(claims) != 0 {
		r.Errorf("a claim of no partition got %d timers", len(claims))
	}
}

func checkBytes(r *rig) {
	const n, size, most = 80, 50 << 10, 200 << 10
	for i := range n {
		asked := oneShot(0)
		asked.Callback.Opaque = strings.Repeat("x", size)
		r.put(fmt.Sprintf("large-%d", i), 1, asked)
	}
	for got, calls := 0, 0; got < n; calls++ {
		if calls > 2*n {
			r.Fatalf("%d claimed in %d calls, want all %d", got, calls, n)
		}
		for _, shard := range r.a.Shards() {
			req := request()
			req.MaxBytes = most
			result, err := r.a.Claim(r.Context(), shard, req)
			// Each of 16 partitions may exceed its share by one timer.
			if err != nil || len(result.Claims) > most/size+16 {
				r.Fatalf("claim of %d bytes got %d timers of %d, %v", most, len(result.Claims), size, err)
			}
			if len(result.Claims) > most/size && !result.More {
				r.Error("claim reached its bytes, and says there is no more")
			}
			got += len(result.Claims)
		}
	}
}

func checkMore(r *rig) {
	const n = 60
	for _, limit := range []int{2, 7, 16, 33, 500} {
		r.putAll(limit, n)
		req := request()
		req.Limit = limit
		if claims := r.claimAll(r.a, req); len(claims) != n {
			r.Errorf("limit %d: %d claimed until there was no more, want %d", limit, len(claims), n)
		}
		if claims := r.claimAll(r.a, req); len(claims) != 0 {
			r.Errorf("limit %d: %d claimed twice", limit, len(claims))
		}
	}
}

func checkMaxBytes(r *rig) {
	const n, size = 90, 1 << 10
	for _, key := range keys(n) {
		asked := oneShot(0)
		asked.Callback.Opaque = strings.Repeat("x", size)
		r.put(key, 1, asked)
	}
	req := request()
	req.MaxBytes = 4 * size
	result, err := r.a.Claim(r.Context(), r.a.Shards()[0], req)
	// A store may divide the bound, and exceed each part by one timer.
	if err != nil || !result.More || len(result.Claims) == 0 || len(result.Claims) > 30 {
		r.Errorf("%d claimed, more %v, %v, want a few, and more", len(result.Claims), result.More, err)
	}
	if rest := r.claimAll(r.a, req); len(rest)+len(result.Claims) != n {
		r.Errorf("%d claimed until there was no more, want %d", len(rest)+len(result.Claims), n)
	}
}

func checkOrder(r *rig) {
	const n = 6
	all := r.neighbors(n)
	for i, key := range all {
		asked := oneShot(0)
		asked.At = r.Now().Add(-far).Add(time.Duration((i*5)%n) * time.Second).Truncate(time.Millisecond)
		r.put(key, 1, asked)
	}
	var got []string
	shard := r.shard()
	r.merge(write(all[0], 2, nil)) // the earliest is gone
	for len(got) < n-1 {
		req := request()
		req.Limit = 1
		result, err := r.a.Claim(r.Context(), shard, req)
		if err != nil || len(result.Claims) == 0 {
			r.Fatalf("claim: %v, %d timers, after %v", err, len(result.Claims), got)
		}
		got = append(got, result.Claims[0].Lease.Key)
	}
	want := []string{all[5], all[4], all[3], all[2], all[1]}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("order (-want +got):\n%s", diff)
	}
}

func checkConcurrentClaims(r *rig) {
	const n, claimers = 300, 4
	r.putAll(1, n)
	got := make(chan []string, claimers)
	for i := range claimers {
		node := []store.Store{r.a, r.b}[i%2]
		go func() {
			var mine []string
			for _, shard := range node.Shards() {
				for more := true; more; {
					result, err := node.Claim(r.Context(), shard, store.ClaimRequest{Limit: 32, Grace: far})
					if err != nil {
						r.Errorf("claim: %v", err)
					}
					mine, more = append(mine, claimedKeys(result.Claims)...), result.More && err == nil
				}
			}
			got <- mine
		}()
	}
	var all []string
	for range claimers {
		all = append(all, <-got...)
	}
	slices.Sort(all)
	if diff := cmp.Diff(keys(n), all); diff != "" {
		r.Errorf("claimed in all (-want +got):\n%s", diff)
	}
}
