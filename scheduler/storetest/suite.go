package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Fixture is an empty store for one test.
type Fixture struct {
	// Open gives a node its view of the store: all views share the data. The maker of the fixture closes the views.
	Open func(node string) store.Store
	// Now is the clock of all shards.
	Now func() time.Time
	// Pass returns when at least d has passed on the clock of all shards.
	Pass func(d time.Duration)
	// Neighbors makes n keys that are claimed in order of due; a store may claim further keys in another order. Nil
	// if all keys are claimed in order.
	Neighbors func(n int) []string
	// The stores keep KeptDeliveries entries of the log of deliveries for each partition, or up to a hundred more.

	// DeadLetters are the timers that were given up on a shard.
	DeadLetters func(shard string) []DeadLetter
}

// Run checks that the stores of open keep the contract of store.Store. Run calls open for each subtest, and runs
// subtests in parallel. On a real clock Run takes some seconds, mostly waiting.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	for _, cases := range []map[string]func(*rig){
		mergeCases(), conditionCases(), amendCases(), hastenCases(), stateCases(), onceCases(), anewCases(), markCases(), tombstoneCases(), claimCases(), retryCases(), neglectedCases(),
		fireCases(), overdueCases(), catchUpCases(), expireCases(), settleCases(), releaseCases(), askCases(), readCases(), nodeCases(), batchCases(), outcomeCases(), letterCases(), unheardCases(), graveCases(), listCases(),
		tagCases(), pauseCases(), logCases(), countCases(), siteCases(),
	} {
		for name, check := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				check(newRig(t, open(t)))
			})
		}
	}
}

// rig is a fixture with two nodes, and the vocabulary of the checks. A method ends the test when a step that the
// check builds on fails.
type rig struct {
	*testing.T
	Fixture
	a, b store.Store
}

func newRig(t *testing.T, f Fixture) *rig {
	t.Helper()
	return &rig{T: t, Fixture: f, a: f.Open(nodeA), b: f.Open(nodeB)}
}

const (
	nodeA = "node-a"
	nodeB = "node-b"

	// far does not come within a test; tests wait for brief.
	far   = time.Hour
	brief = 40 * time.Millisecond

	replicas = 2
)

// version makes versions that rise with n.
func version(n int) timer.Version {
	return timer.VersionAt(time.UnixMilli(1_800_000_000_000+int64(n)), 0xbeef)
}

// oneShot fires once, after the interval.
func oneShot(interval time.Duration) *timer.Timer {
	return &timer.Timer{
		Interval: interval, ReplicationFactor: replicas, Callback: timer.Callback{URI: "http://receiver.example/pop"},
	}
}

// recurring pops the given number of times.
func recurring(interval time.Duration, pops int) *timer.Timer {
	t := oneShot(interval)
	t.RepeatFor = time.Duration(pops) * interval
	return t
}

// write makes a timer's version n; a nil timer ends the timer, with a tombstone that outlives the test.
func write(key string, n int, t *timer.Timer) store.Write {
	w := store.Write{
		Kind: store.WriteGone, Key: key, State: timer.State{Version: version(n)}, RF: replicas, Life: far,
	}
	if t != nil {
		w.Kind, w.State.Seq, w.Timer, w.DueIn = store.WritePut, 1, t, t.Interval
	}
	return w
}

func onShard(shard string, w store.Write) store.Write {
	w.Shard = shard
	return w
}

// merge sends one write by node a.
func (r *rig) merge(w store.Write) store.Written {
	r.Helper()
	answers := r.mergeBy(r.a, w)
	if len(answers) != 1 {
		r.Fatalf("merge of one write: %d answers", len(answers))
	}
	if answers[0].Err != nil {
		r.Fatalf("merge: %v", answers[0].Err)
	}
	return answers[0]
}

// shard is the shard of all checks.
func (r *rig) shard() string { return r.a.Shards()[0] }

// mergeBy sends writes to the shard.
func (r *rig) mergeBy(node store.Store, writes ...store.Write) []store.Written {
	r.Helper()
	for i := range writes {
		writes[i].Shard = r.shard()
	}
	return node.Merge(r.Context(), writes)
}

func (r *rig) spots(keys []string) []store.Spot {
	spots := make([]store.Spot, len(keys))
	for i, key := range keys {
		spots[i] = store.Spot{Shard: r.shard(), Key: key}
	}
	return spots
}

// put merges version n of a timer; the version must be stored. A timer that is due at once is due when put returns.
func (r *rig) put(key string, n int, t *timer.Timer) store.Written {
	r.Helper()
	answer := r.merge(write(key, n, t))
	if answer.Status != store.WriteStored {
		r.Fatalf("merge of version %d: status %d, want stored", n, answer.Status)
	}
	if t != nil && t.Interval == 0 {
		r.Pass(slack)
	}
	return answer
}

// read reads one timer.
func (r *rig) read(key string) store.ReadResult {
	r.Helper()
	results := r.b.Read(r.Context(), r.spots([]string{key}))
	if len(results) != 1 {
		r.Fatalf("read of one timer: %d results", len(results))
	}
	return results[0]
}

// live reads one timer that must exist.
func (r *rig) live(key string) store.ReadResult {
	r.Helper()
	result := r.read(key)
	if result.Err != nil {
		r.Fatalf("read %s: %v", key, result.Err)
	}
	return result
}

// request claims the timers that are due now, with a grace that outlives the test.
func request() store.ClaimRequest {
	return store.ClaimRequest{Limit: 1000, Grace: far}
}

// claimAll claims on all shards until no timer is left to claim.
func (r *rig) claimAll(node store.Store, req store.ClaimRequest) []store.Claimed {
	r.Helper()
	var all []store.Claimed
	for _, shard := range node.Shards() {
		for more := true; more; {
			result, err := node.Claim(r.Context(), shard, req)
			if err != nil {
				r.Fatalf("claim on %s: %v", shard, err)
			}
			if len(result.Claims) > req.Limit {
				r.Fatalf("claim with limit %d got %d", req.Limit, len(result.Claims))
			}
			all, more = append(all, result.Claims...), result.More
		}
	}
	return all
}

// claim claims the single due timer.
func (r *rig) claim(node store.Store, req store.ClaimRequest) store.Claimed {
	r.Helper()
	claims := r.claimAll(node, req)
	if len(claims) != 1 {
		r.Fatalf("%d timers claimed, want the one that is due", len(claims))
	}
	return claims[0]
}

// leased is the only due timer of the store, with version 1, claimed by node a.
func (r *rig) leased(key string, t *timer.Timer, grace time.Duration) store.Claimed {
	r.Helper()
	r.put(key, 1, t)
	req := request()
	req.Horizon, req.Grace = t.Interval+time.Second, grace
	return r.claim(r.a, req)
}

// terms fit request's grace.
func terms(limit, hold time.Duration) store.FenceTerms {
	return store.FenceTerms{Limit: limit, Hold: hold}
}

// fence asks for a timer with the given number of pops whether the callback may start. A fence that was too late
// because the machine is slow has done nothing, and is asked for again.
func (r *rig) fence(c store.Claimed, pops int, terms store.FenceTerms) store.Fenced {
	r.Helper()
	var fenced store.Fenced
	for range 20 {
		if fenced = r.fire(store.Fence{Lease: c.Lease, Pops: pops}, terms); fenced.Status != store.FenceTooLate {
			break
		}
	}
	return fenced
}

func (r *rig) fire(f store.Fence, terms store.FenceTerms) store.Fenced {
	r.Helper()
	answers := r.a.Fire(r.Context(), f.Lease.Shard, terms, []store.Fence{f})
	if len(answers) != 1 {
		r.Fatalf("one fence: %d answers", len(answers))
	}
	if answers[0].Err != nil {
		r.Fatalf("fence: %v", answers[0].Err)
	}
	return answers[0]
}

// pass passes the fence of a claim.
func (r *rig) pass(c store.Claimed, pops int, terms store.FenceTerms) store.Fenced {
	r.Helper()
	fenced := r.fence(c, pops, terms)
	if fenced.Status != store.FencePassed {
		r.Fatalf("fence: status %d, want passed", fenced.Status)
	}
	return fenced
}

// settle sends an outcome of a claim whose grace was far.
func (r *rig) settle(c store.Claimed, o store.Settlement) store.Settled {
	r.Helper()
	o.Lease = c.Lease
	answers := r.a.Settle(r.Context(), o.Lease.Shard, []store.Settlement{o})
	if len(answers) != 1 {
		r.Fatalf("one settlement: %d answers", len(answers))
	}
	if answers[0].Err != nil {
		r.Fatalf("settle: %v", answers[0].Err)
	}
	return answers[0]
}

// accept sends an outcome that must be accepted.
func (r *rig) accept(c store.Claimed, o store.Settlement) {
	r.Helper()
	if !r.settle(c, o).Accepted {
		r.Fatalf("settlement of %s was not accepted", c.Lease.Key)
	}
}

// ask asks one shard about one state.
func (r *rig) ask(shard, key string, state timer.State) (d store.Difference, differs bool) {
	r.Helper()
	differences, err := r.b.Ask(r.Context(), shard, []store.KeyState{{Key: key, State: state}})
	if err != nil {
		r.Fatalf("ask: %v", err)
	}
	if len(differences) == 0 {
		return store.Difference{}, false
	}
	if len(differences) != 1 || differences[0].Index != 0 {
		r.Fatalf("ask about one state answered %+v", differences)
	}
	return differences[0], true
}

// firing is how long the firing mark of a timer lasts.
func (r *rig) firing(shard, key string) time.Duration {
	r.Helper()
	d, _ := r.ask(shard, key, timer.State{})
	return d.Firing
}

// pending is how many timers and tombstones the store has.
func (r *rig) pending() int64 {
	r.Helper()
	var n int64
	for _, shard := range r.a.Shards() {
		survey, err := r.a.Survey(r.Context(), shard)
		if err != nil {
			r.Fatalf("survey %s: %v", shard, err)
		}
		n += survey.Pending + survey.Tombstones
	}
	return n
}

// during is the shards' time before and after do, in whole microseconds.
func (r *rig) during(do func()) (from, to time.Time) {
	from = r.Now().Truncate(time.Microsecond)
	do()
	return from, r.Now().Truncate(time.Microsecond)
}

// slack is the rounding of instants to milliseconds.
const slack = time.Millisecond

// between checks an instant that was rounded to milliseconds.
func (r *rig) between(what string, got, from, to time.Time) {
	r.Helper()
	if got.Before(from.Add(-slack)) || got.After(to.Add(slack)) {
		r.Errorf("%s is %v after the earliest right instant, want 0 to %v", what, got.Sub(from), to.Sub(from))
	}
}

// awaits waits until cond holds. By the shards' clock, cond must begin to hold between from and to. cond may hold
// only once.
func (r *rig) awaits(what string, from, to time.Time, cond func() bool) {
	r.Helper()
	for {
		var held bool
		asked, answered := r.during(func() { held = cond() })
		switch {
		case held && answered.Before(from.Add(-slack)):
			r.Fatalf("%s %v too soon", what, from.Sub(answered))
		case held:
			return
		case asked.After(to.Add(slack)):
			r.Fatalf("%s not yet, %v after its time", what, asked.Sub(to))
		}
		r.Pass(max(from.Sub(asked)/4, time.Millisecond))
	}
}

// awaitsEmpty waits until the last tombstone is removed.
func (r *rig) awaitsEmpty(from, to time.Time) {
	r.Helper()
	r.awaits("buried", from, to, func() bool {
		r.claimAll(r.a, request())
		return r.pending() == 0
	})
}

// neighbors makes n keys that are claimed in order of due.
func (r *rig) neighbors(n int) []string {
	if r.Neighbors != nil {
		return r.Neighbors(n)
	}
	return keys(n)
}

func keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("timer-%04d", i)
	}
	return all
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
