package redisstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

// The scripts and the model get the same calls at the same instants. Answers and contents must be the same. The
// instant is the time at which the script ran; an observer reads the time from the script's reply. The test
// therefore works on a Redis whose clock nobody can stop.

func TestDifferentialMini(t *testing.T) {
	// Between two milliseconds, where rounding shows.
	d := newDiffer(t, startMini(t, time.UnixMilli(1_790_000_000_000).Add(300*time.Microsecond)))
	testkit.RapidChecks(t, 30)
	rapid.Check(t, func(rt *rapid.T) {
		d.run(rt, rapid.SampledFrom([]time.Duration{time.Millisecond, 200 * time.Millisecond}).Draw(rt, "unit"))
	})
	d.checkBreaks()
}

func TestDifferentialReal(t *testing.T) {
	d := newDiffer(t, startRedis(t))
	testkit.RapidChecks(t, 100)
	rapid.Check(t, func(rt *rapid.T) { d.run(rt, time.Millisecond) })
	d.checkBreaks()
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

	// For one run:
	rt     *rapid.T
	unit   time.Duration
	model  *storetest.Model
	views  []store.Store
	now    time.Time
	leases []leasePair
	sent   []func() // calls that may be sent again
	broken error    // a call was not answered: nobody knows what the call did

	breaks, runs int // in all
}

// leasePair is one lease by the tokens that the store and the model gave the lease.
type leasePair struct {
	node         int
	store, model store.Lease
	grave        bool // of a tombstone
}

func newDiffer(t *testing.T, shard *testRedis) *differ {
	t.Helper()
	d := &differ{T: t, redis: shard, observed: &observer{partition: fmt.Sprintf("{http.%02d}", differPartition)}}
	for n := range 3 {
		s := openStore(t, fmt.Sprint("node", n), "http", shard)
		hook(s.shards()[0], d.observed)
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
	d.keepOne()
	rt.Repeat(map[string]func(*rapid.T){
		"":      d.compare,
		"merge": func(*rapid.T) { d.merge() }, "tell": func(*rapid.T) { d.tell() },
		"claim": func(*rapid.T) { d.claim(d.some("grace")) }, "fire": func(*rapid.T) { d.fire(d.pairs()) },
		"settle": func(*rapid.T) { d.settle(d.pairs()) }, "ask": func(*rapid.T) { d.ask() },
		"pass":              func(*rapid.T) { d.pass() },
		"recount":           func(*rapid.T) { d.recount() },
		"claim to settle 1": func(*rapid.T) { d.claimToSettle() }, "claim to settle 2": func(*rapid.T) { d.claimToSettle() },
		"send again": func(rt *rapid.T) {
			if len(d.sent) == 0 {
				rt.Skip("nothing was sent")
			}
			rapid.SampledFrom(d.sent).Draw(rt, "what")()
		},
	})
}

// keepOne makes a timer that stays, with all tags, to keep every sum above 0.
func (d *differ) keepOne() {
	const far, many = 1000 * time.Hour, 1 << 40
	w := store.Write{
		Kind: store.WritePut, Shard: "a", Key: d.stores[0].keysOf("a", differPartition, 5)[4], State: timer.State{Version: 1, Seq: 1}, RF: 1, DueIn: far,
		Timer: &timer.Timer{Interval: far, ReplicationFactor: 1, Callback: timer.Callback{URI: "http://a"}},
	}
	for _, typ := range []string{"a b", "-", "=,% {", "-x"} {
		w.Timer.Tags = append(w.Timer.Tags, timer.Tag{Type: typ, Count: many})
	}
	d.sendBoth("keep one", 0, []store.Write{w}, func() []store.Written { return d.stores[0].Merge(context.Background(), []store.Write{w}) })
	d.sent = nil
}

// do runs one call on the store and then on the model, at the same instant, and may repeat the call later. A run
// ends when the store gives no answer: on a busy machine this happens now and then.
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
	if !errors.Is(err, timer.ErrUnavailable) {
		d.rt.Fatal(err)
	}
	d.broken = err
	d.breaks++
	d.Logf("run %d: %v", d.runs, err)
	return true
}

func (d *differ) same(what string, backend, model any) {
	d.Helper()
	if reflect.DeepEqual(backend, model) {
		return // much faster than cmp.Diff
	}
	if diff := cmp.Diff(model, backend, cmpopts.EquateEmpty(), cmpopts.EquateErrors()); diff != "" {
		d.rt.Fatalf("%s (-model +store):\n%s", what, diff)
	}
}

// alike clears the fields in which claims of store and model may differ: the names of a timer's place, lease tokens,
// and the time until a timer is due, which the store can only estimate.
func alike(claims ...*store.Claimed) {
	for _, c := range claims {
		c.Lease.Token, c.Lease.Partition, c.Lease.Found, c.DueIn = "", 0, store.Found{}, 0
	}
}

// compare compares all contents of store and model.
func (d *differ) compare(*rapid.T) {
	if d.broken != nil {
		return
	}
	var states []store.KeyState
	for _, key := range d.keys {
		states = append(states, store.KeyState{Key: key})
	}
	ctx := context.Background()
	got := d.stores[0].Read(ctx, spots(d.keys...))
	if errors.Is(got[0].Err, timer.ErrUnavailable) {
		d.breaksOff(got[0].Err)
		return
	}
	d.now = time.UnixMicro(d.observed.us.Load())
	read := d.views[0].Read(ctx, spots(d.keys...))
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
	dead := pipe.ZRangeWithScores(ctx, keys.dead, 0, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		d.rt.Fatalf("look at the keys: %v", err)
	}
	survey, _ := d.views[0].Survey(ctx, "a")
	d.same("entries of due", due.Val(), survey.Pending+survey.Tombstones)
	d.same("records", records.Val(), survey.Pending+survey.Tombstones)
	d.compareTags(survey.Tombstones)
	d.compareDead(dead.Val())
}

// compareTags compares the sums of tags, and the number of tombstones, with the sums and the number in the model.
func (d *differ) compareTags(tombstones int64) {
	ctx := context.Background()
	got, err := d.stores[0].Tags(ctx, "a", 99)
	if d.breaksOff(err) {
		return
	}
	want, _ := d.views[0].Tags(ctx, "a", 99)
	d.same("sums of tags", got, want)
	fields, err := d.redis.client.HGetAll(ctx, d.stores[0].keys[differPartition].tags).Result()
	if err != nil {
		d.rt.Fatalf("look at the tags: %v", err)
	}
	counted := int64(0) // a number of 0 is not kept
	if text, is := fields[tombstonesField]; is {
		delete(fields, tombstonesField)
		if counted, err = strconv.ParseInt(text, 10, 64); err != nil {
			d.rt.Fatal(err)
		}
	}
	d.same("types", len(fields), len(want.ByType))
	d.same("tombstones", counted, tombstones)
}

// compareDead compares the dead letters.
func (d *differ) compareDead(found []redis.Z) {
	var letters []storetest.DeadLetter
	for _, z := range found {
		letters = append(letters, readLetter(d.T, z))
	}
	d.same("dead letters", lastLetters(letters), lastLetters(d.model.DeadLetters("a")))
}

// lastLetters are the letters in one order, with only the last letter of a state that was given up for one reason.
// The model has only the last letter. The shard has a letter for every record that it then had: meanwhile the mark
// may have ended, or copies that missed the end may have been noted.
func lastLetters(letters []storetest.DeadLetter) []storetest.DeadLetter {
	last := map[storetest.DeadLetter]time.Time{}
	for _, l := range letters {
		at := l.At
		l.At = time.Time{}
		if at.After(last[l]) {
			last[l] = at
		}
	}
	all := []storetest.DeadLetter{}
	for l, at := range last {
		l.At = at.UTC()
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b storetest.DeadLetter) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
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
			if !ok || !strings.Contains(fmt.Sprint(script.Args()...), o.partition) {
				continue
			}
			reply, err := script.Slice()
			if err == nil && len(reply) > 0 {
				if first, several := reply[0].([]any); several {
					reply = first // of several partitions, at the same instant
				}
				if us, ok := reply[0].(int64); ok {
					o.us.Store(us)
				}
			}
		}
		return err
	}
}
