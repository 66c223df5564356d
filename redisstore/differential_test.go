package redisstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"chronos/scheduler"
	"chronos/scheduler/storetest"
)

// The scripts and the model are given the same calls at the same instants, and
// must answer the same and hold the same. The instant is the one at which the
// script ran, which an observer reads from its reply; so it works on a Redis
// whose clock nobody can stop.

func TestDifferentialMini(t *testing.T) {
	// Between two milliseconds, where rounding shows.
	d := newDiffer(t, startMini(t, time.UnixMilli(1_790_000_000_000).Add(300*time.Microsecond)))
	setChecks(t, 30)
	rapid.Check(t, func(rt *rapid.T) {
		d.run(rt, rapid.SampledFrom([]time.Duration{time.Millisecond, 200 * time.Millisecond}).Draw(rt, "unit"))
	})
	d.checkBreaks()
}

func TestDifferentialReal(t *testing.T) {
	d := newDiffer(t, startRedis(t))
	setChecks(t, 100)
	rapid.Check(t, func(rt *rapid.T) { d.run(rt, time.Millisecond) })
	d.checkBreaks()
}

// setChecks sets how many runs rapid makes, unless the command line says it.
func setChecks(t *testing.T, n int) {
	t.Helper()
	const name = "rapid.checks"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	value := flag.Lookup(name).Value
	was := value.String()
	if err := value.Set(fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = value.Set(was) })
}

func (d *differ) checkBreaks() {
	if d.breaks > d.runs/10 {
		d.Errorf("%d of %d runs broke off since the store gave no answer", d.breaks, d.runs)
	}
}

const differPartition = 5

// differ drives some nodes of a store and of the model alike.
type differ struct {
	*testing.T
	redis    *testRedis
	observed *observer
	stores   []*Store
	keys     []string

	// Of one run:
	rt     *rapid.T
	unit   time.Duration
	model  *storetest.Model
	views  []scheduler.Store
	now    time.Time
	leases []leasePair
	sent   []func() // what may be sent again
	broken error    // a call was not answered: nobody knows what it did

	breaks, runs int // in all
}

// leasePair is one lease by the tokens that the store and the model gave it.
type leasePair struct {
	node         int
	store, model scheduler.Lease
}

func newDiffer(t *testing.T, shard *testRedis) *differ {
	t.Helper()
	d := &differ{T: t, redis: shard, observed: &observer{partition: fmt.Sprintf("{http.%02d}", differPartition)}}
	for n := range 3 {
		s := openStore(t, fmt.Sprint("node", n), "http", shard)
		s.topology.shards[0].hook(d.observed)
		d.stores = append(d.stores, s)
	}
	d.keys = d.stores[0].keysOf("a", differPartition, 4)
	return d
}

func (d *differ) run(rt *rapid.T, unit time.Duration) {
	if err := d.redis.client.FlushDB(context.Background()).Err(); err != nil {
		d.Fatalf("flush: %v", err)
	}
	d.rt, d.unit, d.model, d.views, d.leases, d.sent = rt, unit, storetest.NewModel("a"), nil, nil, nil
	d.broken = nil
	d.runs++
	d.model.SetClock(func() time.Time { return d.now })
	for _, s := range d.stores {
		s.learn(d.T, d.redis)
		d.views = append(d.views, d.model.Open(s.node))
	}
	rt.Repeat(map[string]func(*rapid.T){
		"":      d.compare,
		"merge": func(*rapid.T) { d.merge() }, "claim": func(*rapid.T) { d.claim(d.some("grace")) },
		"take": func(*rapid.T) { d.take() }, "fire": func(*rapid.T) { d.fire(d.pairs()) },
		"settle": func(*rapid.T) { d.settle(d.pairs()) }, "ask": func(*rapid.T) { d.ask() },
		"apply": func(*rapid.T) { d.apply() }, "pass": func(*rapid.T) { d.pass() },
		"claim to settle 1": func(*rapid.T) { d.claimToSettle() }, "claim to settle 2": func(*rapid.T) { d.claimToSettle() },
		"send again": func(rt *rapid.T) {
			if len(d.sent) == 0 {
				rt.Skip("nothing was sent")
			}
			rapid.SampledFrom(d.sent).Draw(rt, "what")()
		},
	})
}

// do runs one call on the store and then on the model, at the same instant, and
// may do so again later. A run in which the store gave no answer is over: on a
// busy machine that happens now and then.
func (d *differ) do(call func() error, model func()) {
	both := func() {
		if d.broken != nil {
			return
		}
		if d.breaksOff(call()) {
			return
		}
		d.now = time.UnixMicro(d.observed.us.Load())
		model()
	}
	d.sent = append(d.sent, both)
	both()
}

func (d *differ) breaksOff(err error) bool {
	if err == nil {
		return false
	}
	if !errors.Is(err, scheduler.ErrUnavailable) {
		d.rt.Fatal(err)
	}
	d.broken = err
	d.breaks++
	d.Logf("run %d: %v", d.runs, err)
	return true
}

func (d *differ) same(what string, store, model any) {
	d.Helper()
	if reflect.DeepEqual(store, model) {
		return // which is much faster
	}
	if diff := cmp.Diff(model, store, cmpopts.EquateEmpty(), cmpopts.EquateErrors()); diff != "" {
		d.rt.Fatalf("%s (-model +store):\n%s", what, diff)
	}
}

// alike makes the claims of store and model alike but for what must be the same:
// without what names where a timer is, without lease tokens, and without how long
// after the answer a timer is due, which the store can only estimate.
func alike(claims ...*scheduler.Claimed) {
	for _, c := range claims {
		c.Record.ID.Hint, c.Lease.Token, c.Lease.Partition, c.Lease.Found, c.DueIn = 0, "", 0, scheduler.Found{}, 0
	}
}

// compare looks at everything there is.
func (d *differ) compare(*rapid.T) {
	if d.broken != nil {
		return
	}
	var ids []scheduler.ID
	var states []scheduler.KeyState
	for _, key := range d.keys {
		ids, states = append(ids, scheduler.ID{Key: key}), append(states, scheduler.KeyState{Key: key})
	}
	ctx := context.Background()
	got := d.stores[0].Read(ctx, ids)
	if errors.Is(got[0].Err, scheduler.ErrUnavailable) {
		d.breaksOff(got[0].Err)
		return
	}
	d.now = time.UnixMicro(d.observed.us.Load())
	read := d.views[0].Read(ctx, ids)
	for i := range got {
		got[i].Record.ID.Hint, read[i].Record.ID.Hint = 0, 0
	}
	d.same("read", got, read)

	differences, err := d.stores[1].Ask(ctx, "a", states)
	if d.breaksOff(err) {
		return
	}
	d.now = time.UnixMicro(d.observed.us.Load())
	want, _ := d.views[1].Ask(ctx, "a", states)
	d.same("ask", differences, want)

	keys := d.stores[0].keys[differPartition]
	pipe := d.redis.client.Pipeline()
	due, records := pipe.ZCard(ctx, keys.due), pipe.HLen(ctx, keys.timers)
	counter, dead := pipe.HExists(ctx, keys.timers, "#"), pipe.ZRangeWithScores(ctx, keys.dead, 0, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		d.rt.Fatalf("look at the keys: %v", err)
	}
	survey, _ := d.views[0].Survey(ctx, "a")
	d.same("entries of due", due.Val(), survey.Pending)
	wrote := int64(0) // the write counter is a field too
	if counter.Val() {
		wrote = 1
	}
	d.same("records", records.Val()-wrote, survey.Pending)
	d.compareDead(dead.Val())
}

// compareDead reads "key reason record" for each dead letter.
func (d *differ) compareDead(letters []redis.Z) {
	type letter struct {
		At          int64
		Key, Reason string
		State       scheduler.State
	}
	store, model := []letter{}, []letter{}
	for _, z := range letters {
		text, _ := z.Member.(string)
		words := strings.SplitN(text, " ", 3)
		rec, err := parseRecord(words[2])
		if err != nil {
			d.rt.Fatalf("dead letter %q: %v", text, err)
		}
		store = append(store, letter{At: int64(z.Score), Key: words[0], Reason: words[1], State: rec.state})
	}
	for _, l := range d.model.DeadLetters("a") {
		model = append(model, letter{At: l.At.UnixMilli(), Key: l.Key, Reason: field(l.Reason), State: l.State})
	}
	order := func(a, b letter) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	slices.SortFunc(store, order)
	slices.SortFunc(model, order)
	d.same("dead letters", store, model)
}

// observer notes the instant at which a script ran on one partition.
type observer struct {
	partition string
	us        atomic.Int64
}

func (o *observer) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (o *observer) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (o *observer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		for _, command := range commands {
			script, ok := command.(*redis.Cmd)
			if !ok || len(script.Args()) < 4 || !strings.Contains(fmt.Sprint(script.Args()[3]), o.partition) {
				continue
			}
			if reply, err := script.Slice(); err == nil && len(reply) > 0 {
				if us, ok := reply[0].(int64); ok {
					o.us.Store(us)
				}
			}
		}
		return err
	}
}

// Draws.

func draw[T any](d *differ, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(d.rt, what)
}

func (d *differ) node() int   { return rapid.IntRange(0, len(d.stores)-1).Draw(d.rt, "node") }
func (d *differ) key() string { return draw(d, "key", d.keys...) }

// some is a small multiple of the run's unit, now and then with half a
// millisecond that is to be rounded.
func (d *differ) some(what string) time.Duration {
	return d.whole(what) + draw(d, what+" and", 0, 0, 0, time.Millisecond/2)
}

func (d *differ) whole(what string) time.Duration {
	return time.Duration(draw(d, what, 0, 0, 1, 1, 2, 2, 3, 5, 10, 100)) * d.unit
}

// version is near that of the stored timer, mostly above it; else one of a few
// that differ in all kinds of bits.
func (d *differ) version(key string) scheduler.Version {
	stored := d.stored(key).Version
	switch draw(d, "version", "above", "above", "above", "same", "by tag", "below", "any") {
	case "above":
		return stored + 1<<16
	case "same":
		return stored
	case "by tag":
		return stored + 1
	case "below":
		return stored - min(stored, 1<<16)
	}
	return scheduler.VersionAt(time.UnixMilli(draw(d, "ms", int64(0x99a), 0x99f, 0x9a0, 0xa00)), draw(d, "tag", uint16(9), 0xa, 0xaa, 0xff))
}

// stored is the state that the model has of a timer or its tombstone.
func (d *differ) stored(key string) scheduler.State {
	return d.views[0].Read(context.Background(), []scheduler.ID{{Key: key}})[0].Record.State
}

func (d *differ) timer() *scheduler.Timer {
	t := &scheduler.Timer{ReplicationFactor: 2, Callback: scheduler.Callback{URI: draw(d, "uri", "http://a", "http://b")}}
	switch draw(d, "kind", "one-shot", "one-shot", "recurring", "recurring", "instant") {
	case "one-shot":
		t.Interval = d.whole("interval")
	case "recurring":
		t.Interval = max(d.whole("interval"), d.unit)
		t.RepeatFor = t.Interval * time.Duration(draw(d, "pops", 1, 2, 3, 50))
	case "instant":
		t.At = d.now.Truncate(time.Millisecond).Add(d.whole("ahead") - 3*d.unit).UTC()
	}
	if draw(d, "tagged", false, true) {
		t.Tags = []scheduler.Tag{{Type: "a b", Count: 2}}
	}
	return t
}

// pairs are some leases, of the past too, and now and then the same twice.
func (d *differ) pairs() []leasePair {
	if len(d.leases) == 0 {
		d.rt.Skip("no lease yet")
	}
	recent := d.leases[max(0, len(d.leases)-2):]
	var pairs []leasePair
	for range draw(d, "leases", 1, 1, 2, 3) {
		from := d.leases
		if draw(d, "recent", true, true, true, false) {
			from = recent
		}
		pairs = append(pairs, from[rapid.IntRange(0, len(from)-1).Draw(d.rt, "lease")])
	}
	return pairs
}

// gained remembers the leases that both got.
func (d *differ) gained(node int, store, model scheduler.Lease) {
	d.leases = append(d.leases, leasePair{node: node, store: store, model: model})
}

// Actions.

func (d *differ) merge() {
	n := d.node()
	var writes []scheduler.Write
	for range draw(d, "writes", 1, 1, 2) {
		w := scheduler.Write{
			ID: scheduler.ID{Key: d.key(), RF: draw(d, "rf", 2, 2, 2, 3)}, Skew: d.some("skew"), Life: d.some("life"),
			Keep: d.some("keep"),
		}
		w.Version = d.version(w.ID.Key)
		if draw(d, "live", true, true, true, false) {
			w.Timer = d.timer()
			w.Timer.ReplicationFactor = w.ID.RF
			w.BodyHash = draw(d, "body hash", "", "", "", "aa", "bb")
		}
		writes = append(writes, w)
	}
	// What ends timers goes last in a batch: the order of a call is none.
	slices.SortStableFunc(writes, func(a, b scheduler.Write) int {
		return map[bool]int{true: 1}[a.Timer == nil] - map[bool]int{true: 1}[b.Timer == nil]
	})
	var got []scheduler.Written
	d.do(func() error {
		got = d.stores[n].Merge(context.Background(), writes)
		return first(got, func(w scheduler.Written) error { return w.Err })
	}, func() {
		want := d.views[n].Merge(context.Background(), writes)
		for i := range got {
			got[i].ID.Hint, want[i].ID.Hint = 0, 0
			got[i].Partition, want[i].Partition = 0, 0 // the model's hash is another
		}
		d.same("merge", got, want)
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

// claimToSettle is the way of a timer as a node goes it, or a part of it.
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
	req := scheduler.ClaimRequest{
		Horizon: d.some("horizon"), Limit: limit, Grace: grace, LeaveOwnRetries: draw(d, "leave", false, true),
	}
	if draw(d, "looks", false, false, true) {
		req.Neglected = time.Millisecond + d.whole("neglected")
	}
	all := req
	all.Limit *= Partitions // each gets its share
	var got scheduler.ClaimResult
	d.do(func() (err error) {
		got, err = d.stores[n].Claim(context.Background(), "a", all)
		return err
	}, func() {
		want, _ := d.views[n].Claim(context.Background(), "a", req)
		for i := range min(len(got.Claims), len(want.Claims)) {
			d.gained(n, got.Claims[i].Lease, want.Claims[i].Lease)
			alike(&got.Claims[i], &want.Claims[i])
		}
		d.same("claim", got, want)
	})
}

func (d *differ) take() {
	n, grace := d.node(), d.some("grace")
	keys := []string{d.key(), d.key(), d.key()}[:draw(d, "keys", 1, 2, 3)]
	var got []scheduler.Taken
	d.do(func() error {
		got = d.stores[n].Take(context.Background(), "a", grace, keys)
		return first(got, func(t scheduler.Taken) error { return t.Err })
	}, func() {
		want := d.views[n].Take(context.Background(), "a", grace, keys)
		for i := range got {
			if got[i].Status == scheduler.TakeGot {
				d.gained(n, got[i].Lease, want[i].Lease)
			}
			alike(&got[i].Claimed, &want[i].Claimed)
		}
		d.same("take", got, want)
	})
}

func (d *differ) fire(pairs []leasePair) {
	terms := scheduler.FenceTerms{Limit: d.some("limit"), Hold: d.some("hold")}
	fences, modelled := make([]scheduler.Fence, len(pairs)), make([]scheduler.Fence, len(pairs))
	for i, p := range pairs {
		fences[i] = scheduler.Fence{Lease: p.store, Pops: draw(d, "pops", 1, 2, 3, 50)}
		if draw(d, "late", false, false, false, true) {
			fences[i].Age = terms.Limit + time.Hour
		}
		modelled[i] = fences[i]
		modelled[i].Lease = p.model
	}
	var got []scheduler.Fenced
	d.do(func() error {
		got = d.stores[pairs[0].node].Fire(context.Background(), "a", terms, fences)
		return first(got, func(f scheduler.Fenced) error { return f.Err })
	}, func() {
		for i := range got {
			// It may have run too late by the clock that no test can stop.
			if got[i].Status == scheduler.FenceTooLate && d.redis.mini == nil {
				modelled[i].Age = terms.Limit + time.Hour
			}
		}
		want := d.views[pairs[0].node].Fire(context.Background(), "a", terms, modelled)
		for i := range got {
			if got[i].Status == scheduler.FenceLost { // says nothing else
				got[i] = scheduler.Fenced{Status: scheduler.FenceLost, Err: got[i].Err}
			}
		}
		d.same("fire", got, want)
	})
}

func (d *differ) settle(pairs []leasePair) {
	settlements, modelled := make([]scheduler.Settlement, len(pairs)), make([]scheduler.Settlement, len(pairs))
	for i, p := range pairs {
		settlements[i] = scheduler.Settlement{
			Lease: p.store, Delay: d.some("delay"), Pops: draw(d, "pops", 1, 2, 3, 50), Skew: d.some("skew"),
			Reason: draw(d, "reason", "", "no - reason", "-"), Keep: draw(d, "keep", 0, 0, d.unit, 10*d.unit),
			Outcome: draw(d, "outcome", scheduler.OutcomeRelease, scheduler.OutcomeDone, scheduler.OutcomeNext,
				scheduler.OutcomeNext, scheduler.OutcomeAgain, scheduler.OutcomeAgain, scheduler.OutcomeDead),
		}
		modelled[i] = settlements[i]
		modelled[i].Lease = p.model
	}
	var got []scheduler.Settled
	d.do(func() error {
		got = d.stores[pairs[0].node].Settle(context.Background(), "a", settlements)
		return first(got, func(s scheduler.Settled) error { return s.Err })
	}, func() {
		d.same("settle", got, d.views[pairs[0].node].Settle(context.Background(), "a", modelled))
	})
}

// state is that of the stored timer, one near it, or another.
func (d *differ) state(key string) scheduler.State {
	state := d.stored(key)
	switch draw(d, "state", "stored", "near", "near", "any") {
	case "near":
		state.Seq += draw(d, "seq ahead", 0, 0, 1)
		state.Attempt += draw(d, "attempts ahead", 0, 0, 1)
	case "any":
		state = scheduler.State{
			Version: d.version(key), Seq: draw(d, "seq", 1, 1, 2, 3), Attempt: draw(d, "attempt", 0, 0, 1), Ended: draw(d, "ended", false, true),
		}
	}
	return state
}

func (d *differ) ask() {
	n := d.node()
	states := make([]scheduler.KeyState, draw(d, "states", 1, 2, 5))
	for i := range states {
		states[i].Key = d.key()
		states[i].State = d.state(states[i].Key)
	}
	var got []scheduler.Difference
	d.do(func() (err error) {
		got, err = d.stores[n].Ask(context.Background(), "a", states)
		return err
	}, func() {
		want, _ := d.views[n].Ask(context.Background(), "a", states)
		d.same("ask", got, want)
	})
}

// apply is what merge can do and no method asks for yet: done, other seqs,
// attempts and ranks, leased writes.
func (d *differ) apply() {
	var changes, modelled []storetest.Change
	for range draw(d, "changes", 1, 1, 2) {
		c := storetest.Change{
			Kind: draw(d, "change", storetest.Live, storetest.Live, storetest.Put, storetest.Once, storetest.Done, storetest.Done, storetest.Gone),
			Key:  d.key(), RF: draw(d, "rf", 2, 2, 3), Rank: draw(d, "rank", 0, 1, 2), DueIn: d.some("due in"), Skew: d.some("skew"), Life: d.some("life"),
			Keep: d.some("keep"), BodyHash: draw(d, "body hash", "", "", "aa", "bb"),
		}
		if c.Kind != storetest.Done && c.Kind != storetest.Gone {
			c.Timer = *d.timer()
			c.Timer.ReplicationFactor = c.RF
		}
		c.State = d.state(c.Key)
		m := c
		if len(d.leases) > 0 && draw(d, "leased", false, true) {
			p := d.leases[rapid.IntRange(max(0, len(d.leases)-2), len(d.leases)-1).Draw(d.rt, "lease")]
			c.Key, c.Token, m.Key, m.Token = p.store.Key, p.store.Token, p.model.Key, p.model.Token
		}
		changes, modelled = append(changes, c), append(modelled, m)
	}
	var got []storetest.Changed
	d.do(func() (err error) {
		got, err = d.stores[0].apply(d.T, changes)
		return err
	}, func() { d.same("apply", got, d.model.Apply("a", modelled)) })
}

func (d *differ) pass() {
	d.redis.pass(d.T, time.Duration(draw(d, "tenths", 1, 10, 20, 30, 50, 100))*d.unit/10)
	if d.redis.mini != nil {
		for _, s := range d.stores {
			s.learn(d.T, d.redis)
		}
	}
}

// apply sends changes to the merge script.
func (s *Store) apply(t testing.TB, changes []storetest.Change) ([]storetest.Changed, error) {
	t.Helper()
	home := s.topology.shards[0]
	items := make([]*item, len(changes))
	for i, c := range changes {
		head := appendHead(nil, c.State, c.Rank, c.RF)
		it := &item{partition: partitionOf(c.Key)}
		if c.Kind == storetest.Done || c.Kind == storetest.Gone {
			it.args = endArgs(string(c.Kind), c.Key, head, tailOfEnd(c.BodyHash), moreOf(c.Life, c.Keep, c.Token))
		} else {
			tail, err := appendTail(nil, &c.Timer, c.BodyHash)
			if err != nil {
				t.Fatal(err)
			}
			from := startOf(&c.Timer, c.State.Seq)
			if c.Timer.At.IsZero() {
				from.text = fmt.Sprint(wholeMs(c.DueIn) - from.look)
			}
			from.look += int64(c.Rank) * c.Skew.Milliseconds()
			more := ""
			if c.Token != "" {
				more = "- - " + c.Token
			}
			it.args = liveArgs(string(c.Kind), c.Key, head, tail, from, more)
		}
		items[i] = it
	}
	home.evalItems(context.Background(), home.front, &s.keys, itemScript{
		name: "merge", keys: partitionKeys.three, replies: 1, head: func() []any { return []any{home.clock.in(notAfter)} },
	}, items)
	answers := make([]storetest.Changed, len(items))
	for i, it := range items {
		if it.err != nil {
			return nil, it.err
		}
		r := reader{text: it.reply[0]}
		answers[i].Status = storetest.ChangeStatus(r.word())
		if answers[i].Status == "new" {
			state := changes[i].State
			state.Ended = false
			answers[i] = storetest.Changed{
				Status: "stored", State: state, RF: changes[i].RF, BodyHash: changes[i].BodyHash,
				DueMs: r.int64() + int64(changes[i].State.Seq)*wholeMs(changes[i].Timer.Interval),
			}
			continue
		}
		answers[i].State, answers[i].Firing = r.state(), milliseconds(r.int64())
		answers[i].DueMs, answers[i].RF = r.int64(), int(r.int64())
		if hash := r.word(); hash != "-" {
			answers[i].BodyHash = hash
		}
		if r.err != nil && !errors.Is(r.err, errReply) {
			t.Fatalf("merge answered %q: %v", it.reply[0], r.err)
		}
	}
	return answers, nil
}

// What merge does beyond what a Write can ask for, said in full: the model and
// the scripts must do it both.

type applier interface {
	apply(t testing.TB, changes []storetest.Change) ([]storetest.Changed, error)
}

type modelApplier struct{ *storetest.Model }

func (m modelApplier) apply(_ testing.TB, changes []storetest.Change) ([]storetest.Changed, error) {
	return m.Apply("a", changes), nil
}

// onEach runs a check on the model and on both kinds of Redis.
func onEach(t *testing.T, check func(t *testing.T, s scheduler.Store, a applier)) {
	t.Helper()
	t.Run("model", func(t *testing.T) {
		model := storetest.NewModel("a")
		check(t, model.Open("node"), modelApplier{model})
	})
	for name, start := range map[string]func(testing.TB) *testRedis{
		"mini": startSwift, "real": func(t testing.TB) *testRedis { t.Helper(); return startRedis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, "node", "http", start(t))
			check(t, s, s)
		})
	}
}

func at(version scheduler.Version, seq, attempt int) scheduler.State {
	return scheduler.State{Version: version, Seq: seq, Attempt: attempt}
}

func change(kind storetest.ChangeKind, state scheduler.State) storetest.Change {
	c := storetest.Change{Kind: kind, Key: "k", State: state, RF: 2, Life: time.Hour, DueIn: time.Hour}
	if kind == storetest.Live {
		c.Timer = scheduler.Timer{
			Interval: time.Hour, RepeatFor: 9 * time.Hour, ReplicationFactor: 2, Callback: scheduler.Callback{URI: "http://receiver.example/"},
		}
	}
	return c
}

// Rule P2: done removes exactly its predecessor; onto anything older, or
// nothing, it leaves a tombstone, so that an outcome that overtakes its own
// create still wins.
func TestP2DoneRemovesExactlyItsPredecessor(t *testing.T) {
	tomb := func(version scheduler.Version) *scheduler.State {
		return &scheduler.State{Version: version, Ended: true}
	}
	live := func(s scheduler.State) *scheduler.State { return &s }
	for _, c := range []struct {
		name   string
		there  []storetest.Change
		status storetest.ChangeStatus
		after  *scheduler.State // nil for nothing
	}{
		{"its predecessor", []storetest.Change{change(storetest.Live, at(5, 3, 0))}, storetest.ChangeStored, nil},
		{"its predecessor, fewer attempts", []storetest.Change{change(storetest.Live, at(5, 3, 1))}, storetest.ChangeStored, nil},
		{"its predecessor, more attempts", []storetest.Change{change(storetest.Live, at(5, 3, 4))}, storetest.ChangeStored, nil},
		{"nothing", nil, storetest.ChangeStored, tomb(5)},
		{"an earlier pop", []storetest.Change{change(storetest.Live, at(5, 2, 0))}, storetest.ChangeStored, tomb(5)},
		{"a later pop", []storetest.Change{change(storetest.Live, at(5, 4, 0))}, storetest.ChangeStored, tomb(5)},
		{"an older version", []storetest.Change{change(storetest.Live, at(4, 3, 0))}, storetest.ChangeStored, tomb(5)},
		{"an older tombstone", []storetest.Change{change(storetest.Gone, at(4, 0, 0))}, storetest.ChangeStored, tomb(5)},
		{"a newer version", []storetest.Change{change(storetest.Live, at(6, 3, 0))}, storetest.ChangeNewer, live(at(6, 3, 0))},
		{"a newer tombstone", []storetest.Change{change(storetest.Gone, at(6, 0, 0))}, storetest.ChangeNewer, tomb(6)},
		{"its own tombstone", []storetest.Change{change(storetest.Done, at(5, 3, 2))}, storetest.ChangeSame, tomb(5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s scheduler.Store, a applier) {
				applyAll(t, a, c.there...)
				if got := applyAll(t, a, change(storetest.Done, at(5, 3, 2)))[0]; got.Status != c.status {
					t.Errorf("status %s, want %s", got.Status, c.status)
				}
				if c.after == nil {
					checkMissing(t, s)
					return
				}
				if differences, err := s.Ask(t.Context(), "a", []scheduler.KeyState{{Key: "k", State: *c.after}}); err != nil || len(differences) != 0 {
					t.Errorf("it is now %+v, %v, want %+v", differences, err, *c.after)
				}
				if c.after.Version == 5 {
					if got := applyAll(t, a, change(storetest.Live, at(5, 1, 0)))[0]; got.Status != storetest.ChangeNewer {
						t.Errorf("the create that was overtaken: %s, want newer", got.Status)
					}
				}
			})
		})
	}
}

// A retry never runs past the timer's next pop: at its very instant it is that
// pop.
func TestRetryAtTheNextPopIsTheNextPop(t *testing.T) {
	shard := startMini(t, time.UnixMilli(1_790_000_000_000))
	s := openStore(t, "node", "http", shard)
	model := storetest.NewModel("a")
	model.SetClock(func() time.Time { return shard.now(t) })
	for name, store := range map[string]scheduler.Store{"model": model.Open("node"), "mini": s} {
		w := oneWrite("k", 1)
		w.Timer.Interval, w.Timer.RepeatFor = time.Hour, 5*time.Hour
		next := store.Merge(t.Context(), []scheduler.Write{w})[0].Due.Add(time.Hour)
		for i, early := range []time.Duration{time.Millisecond, 0} {
			want := i + 1
			claims, err := store.Claim(t.Context(), "a", scheduler.ClaimRequest{Horizon: 9 * time.Hour, Limit: 99, Grace: time.Hour})
			if err != nil || len(claims.Claims) != 1 {
				t.Fatalf("%s: %+v, %v", name, claims, err)
			}
			delay := next.Sub(shard.now(t)) - early
			settled := store.Settle(t.Context(), "a", []scheduler.Settlement{
				{Lease: claims.Claims[0].Lease, Outcome: scheduler.OutcomeAgain, Delay: delay, Pops: 5},
			})
			got := store.Read(t.Context(), []scheduler.ID{{Key: "k"}})[0]
			if !settled[0].Accepted || got.Record.State.Seq != want || !got.Look.Equal(next.Add(-early)) {
				t.Errorf("%s: a retry %v before the next pop: pop %d at %v, want %d at %v", name, early, got.Record.State.Seq, got.Look, want, next.Add(-early))
			}
		}
	}
}

// Rule P2: a merge never ends a firing mark.
func TestP2DoneKeepsAMark(t *testing.T) {
	onEach(t, func(t *testing.T, s scheduler.Store, a applier) {
		lease := fire(t, s, a)
		if got := applyAll(t, a, change(storetest.Done, at(5, 1, 1)))[0]; got.Status != storetest.ChangeStored || got.Firing <= 0 {
			t.Errorf("done: %+v, want stored, firing", got)
		}
		differences, err := s.Ask(t.Context(), "a", []scheduler.KeyState{{Key: "k"}})
		if err != nil || len(differences) != 1 || !differences[0].State.Ended || differences[0].Firing <= 0 {
			t.Errorf("it is now %+v, %v, want a tombstone that is firing", differences, err)
		}
		if settled := s.Settle(t.Context(), "a", []scheduler.Settlement{{Lease: lease, Outcome: scheduler.OutcomeDone}})[0]; settled.Accepted {
			t.Error("the lease survived")
		}
	})
}

// Rule P2: adopting a newer state seen elsewhere is a leased write, which does
// nothing when the lease is gone.
func TestP2LeasedWriteNeedsItsLease(t *testing.T) {
	onEach(t, func(t *testing.T, s scheduler.Store, a applier) {
		adopt := func(token string, state scheduler.State) storetest.ChangeStatus {
			c := change(storetest.Live, state)
			c.Token = token
			return applyAll(t, a, c)[0].Status
		}
		expect := func(what string, got, want storetest.ChangeStatus) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		expect("without a timer", adopt("node:1:1", at(6, 1, 0)), storetest.ChangeNone)
		checkMissing(t, s)
		lease := fire(t, s, a)
		expect("another's lease", adopt("other:1:1", at(6, 1, 0)), storetest.ChangeLost)
		expect("a part of the lease", adopt(lease.Token[:len(lease.Token)-1], at(6, 1, 0)), storetest.ChangeLost)
		expect("an older state", adopt(lease.Token, at(5, 1, 0)), storetest.ChangeNewer)
		expect("the same state", adopt(lease.Token, at(5, 1, 1)), storetest.ChangeSame)
		if got := s.Read(t.Context(), []scheduler.ID{{Key: "k"}})[0]; !got.Leased || got.Record.State != at(5, 1, 1) {
			t.Errorf("what was refused changed the timer into %+v", got)
		}
		expect("a newer state", adopt(lease.Token, at(5, 2, 0)), storetest.ChangeStored)
		got := s.Read(t.Context(), []scheduler.ID{{Key: "k"}})[0]
		if got.Err != nil || got.Leased || got.Record.State != at(5, 2, 0) {
			t.Errorf("it is now %+v, want the adopted state, unleased", got)
		}
		expect("once more, newer", adopt(lease.Token, at(5, 3, 0)), storetest.ChangeLost)
		if differences, err := s.Ask(t.Context(), "a", []scheduler.KeyState{{Key: "k"}}); err != nil || len(differences) != 1 || differences[0].Firing <= 0 {
			t.Errorf("it is now %+v, %v, want the mark kept", differences, err)
		}
	})
}

func applyAll(t *testing.T, a applier, changes ...storetest.Change) []storetest.Changed {
	t.Helper()
	got, err := a.apply(t, changes)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// fire makes a timer of version 5 whose first pop is firing under a lease.
func fire(t *testing.T, s scheduler.Store, a applier) scheduler.Lease {
	t.Helper()
	c := change(storetest.Live, at(5, 1, 0))
	c.DueIn = 0
	applyAll(t, a, c)
	var taken scheduler.Taken
	await(t, 10*time.Second, "the timer to be due", func() bool {
		taken = s.Take(t.Context(), "a", time.Minute, []string{"k"})[0]
		return taken.Status == scheduler.TakeGot
	})
	terms := scheduler.FenceTerms{Limit: time.Minute, Hold: time.Minute}
	if fenced := s.Fire(t.Context(), "a", terms, []scheduler.Fence{{Lease: taken.Lease, Pops: 9}})[0]; fenced.Status != scheduler.FencePassed {
		t.Fatalf("fence: %+v", fenced)
	}
	return taken.Lease
}

func checkMissing(t *testing.T, s scheduler.Store) {
	t.Helper()
	differences, err := s.Ask(t.Context(), "a", []scheduler.KeyState{{Key: "k"}})
	if err != nil || len(differences) != 1 || !differences[0].Missing {
		t.Errorf("it is now %+v, %v, want nothing", differences, err)
	}
}
