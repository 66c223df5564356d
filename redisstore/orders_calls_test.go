package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"chronos/redisstore/record"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// order is a call of the alphabet.
type order struct {
	name   string
	node   int  // the node that calls
	leases bool // gets a lease
	lease  bool // with the lease that the node got last
	at     int  // shard 0 or 1; for a call with a lease the lease's shard, or if other is set the other shard
	other  bool
	do     func(s store.Store, shard string, h *hand) answers // nil if a minute passes
}

func (o *order) shard(h *hand) int {
	switch {
	case !o.lease:
		return o.at
	case (h.store.Shard == "a") == o.other:
		return 1
	}
	return 0
}

// Pops come every half minute; leases, holds and marks are over in a minute.
const orderInterval = 30 * time.Second

func orderTimer(version int) *timer.Timer {
	t := &timer.Timer{
		Interval: orderInterval, RepeatFor: 9 * orderInterval, ReplicationFactor: 2,
		Callback: timer.Callback{URI: fmt.Sprintf("http://receiver.example/%d", version)},
	}
	if version == 1 {
		t.Tags = []timer.Tag{{Type: "a b", Count: 2}, {Type: "c", Count: 1}}
	}
	return t
}

// alphabet is all calls.
func alphabet() []order {
	return slices.Concat(clientCalls(), leaseCalls(), fenceCalls(), toldCalls(), []order{{name: "a minute passes"}})
}

// clientCalls are a create, its update, its change by a PATCH, and a delete, of either copy. The first copy decides about
// the PATCH.
func clientCalls() (all []order) {
	patched := orderTimer(1)
	patched.Callback.URI, patched.Tags = "http://receiver.example/patched", []timer.Tag{{Type: "c", Count: 5}}
	read := store.Record{State: timer.State{Version: 1, Seq: 1, Rev: 5}, Timer: *patched}
	for at, shard := range []string{"a", "b"} {
		patch := store.Amend(store.Target{Key: orderKey, RF: 2, Rank: at}, &read, store.Times{DueIn: orderInterval, Offset: time.Duration(at) * time.Second})
		if at == 0 {
			patch = patch.If(store.Newest{Version: 1})
		}
		hasten := store.Hasten(store.Target{Key: orderKey, RF: 2, Rank: at}, timer.State{Version: 1, Seq: 1}, time.Duration(at)*time.Second)
		all = append(all,
			order{name: "hasten v1 on " + shard, at: at, do: writing(func(*hand) store.Write { return hasten })},
			order{name: "patch v1 on " + shard, at: at, do: writing(func(*hand) store.Write { return patch })})
		for _, c := range []struct {
			name    string
			kind    store.WriteKind
			version int
		}{{"put v1", store.WritePut, 1}, {"put v2", store.WritePut, 2}, {"gone v3", store.WriteGone, 3}} {
			w := store.Write{
				Kind: c.kind, Key: orderKey, State: timer.State{Version: timer.Version(c.version)}, RF: 2, Rank: at,
				Offset: time.Duration(at) * time.Second, Life: orderInterval,
			}
			if c.kind == store.WritePut {
				w.State.Seq, w.Timer = 1, orderTimer(c.version)
			}
			all = append(all, order{name: c.name + " on " + shard, at: at, do: writing(func(*hand) store.Write { return w })})
		}
	}
	return all
}

// writing returns a call that tells the write.
func writing(of func(h *hand) store.Write) func(store.Store, string, *hand) answers {
	return func(s store.Store, shard string, h *hand) answers {
		w := of(h)
		w.Shard = shard
		got := s.Tell(context.Background(), shard, []store.Write{w})
		got[0].Partition = 0 // the model has another hash
		return answers{all: got}
	}
}

// leaseCalls are claims, by node 1 of the first copy, by node 2 of the two copies.
func leaseCalls() []order {
	claim := func(s store.Store, shard string, _ *hand) answers {
		req := store.ClaimRequest{Horizon: time.Second, Limit: 9, Grace: orderInterval}
		if _, ours := s.(*Store); ours {
			req.Partitions = []int{partitionOf(orderKey)}
		}
		got, err := s.Claim(context.Background(), shard, req)
		if err != nil || len(got.Claims) == 0 {
			return answers{all: []any{got, err}}
		}
		return gained(&got.Claims[0], []any{&got, err})
	}
	return []order{
		{name: "node 1 claims on a", leases: true, do: claim},
		{name: "node 2 claims on a", node: 1, leases: true, do: claim},
		{name: "node 2 claims on b", node: 1, at: 1, leases: true, do: claim},
	}
}

func gained(c *store.Claimed, all any) answers {
	lease, state := c.Lease, c.Record.State
	alike(c)
	return answers{all: all, lease: &lease, state: &state}
}

// fenceCalls are fences and settlements with a lease.
func fenceCalls() []order {
	fence := func(s store.Store, shard string, h *hand) answers {
		var a answers
		if h.state.Ended { // a node that claimed a tombstone knows so
			return a
		}
		got := s.Fire(context.Background(), shard, store.FenceTerms{Limit: orderInterval, Hold: orderInterval, CatchUp: 2}, []store.Fence{{Lease: h.store, Pops: 9}})
		switch got[0].Status {
		case store.FencePassed, store.FenceExpired:
			a.state = &got[0].State
		case store.FenceLost: // a lost fence says nothing more
			got[0] = store.Fenced{Status: store.FenceLost, Err: got[0].Err}
		case store.FenceFailed, store.FenceEarly, store.FenceTooLate:
		}
		a.all = got
		return a
	}
	settle := func(o store.Settlement) func(store.Store, string, *hand) answers {
		return func(s store.Store, shard string, h *hand) answers {
			o := o
			o.Lease = h.store
			return answers{all: s.Settle(context.Background(), shard, []store.Settlement{o})}
		}
	}
	all := []order{
		{name: "node 1 fires", lease: true, do: fence},
		{name: "node 2 fires", lease: true, node: 1, do: fence},
	}
	for _, c := range []struct {
		name  string
		o     store.Settlement
		nodes int
	}{
		{"settles done", store.Settlement{Outcome: store.OutcomeDone}, 2},
		{"settles done, untold", store.Settlement{Outcome: store.OutcomeDone, Keep: orderInterval, Untold: []store.Away{{Shard: "b", Rank: 1}}}, 1},
		{"settles next", store.Settlement{Outcome: store.OutcomeNext, Offset: time.Second}, 2},
		{"settles again", store.Settlement{Outcome: store.OutcomeAgain, Delay: time.Second, Reason: "status 500"}, 1},
		{"settles release", store.Settlement{Outcome: store.OutcomeRelease}, 1},
		{"settles letter", store.Settlement{Outcome: store.OutcomeLetter, Reason: "status 500"}, 1},
		{"settles dead", store.Settlement{Outcome: store.OutcomeDead, Reason: "status 500", Keep: orderInterval}, 1},
	} {
		for node := range c.nodes {
			all = append(all, order{
				name: fmt.Sprintf("node %d %s", node+1, c.name), lease: true, node: node, do: settle(c.o),
			})
		}
	}
	return all
}

// toldCalls are the outcomes that the holder of a lease tells the second copy.
func toldCalls() (all []order) {
	for _, c := range []struct {
		kind  store.WriteKind
		nodes int
	}{
		{store.WriteDone, 2}, {store.WriteNext, 2}, {store.WriteAgain, 1}, {store.WriteDrop, 1},
		{store.WriteLook, 1}, {store.WriteLive, 2},
	} {
		told := writing(func(h *hand) store.Write { return outcomeOf(c.kind, h) })
		for node := range c.nodes {
			all = append(all, order{
				name: fmt.Sprintf("node %d tells %s", node+1, c.kind), lease: true, other: true, node: node, do: told,
			})
		}
	}
	return all
}

// outcomeOf is the outcome that a node tells after a callback under its lease.
func outcomeOf(kind store.WriteKind, h *hand) store.Write {
	w := store.Write{
		Kind: kind, Key: orderKey, State: h.state, RF: 2, Rank: 1, Offset: time.Second, Life: orderInterval, Retry: 2 * time.Second,
	}
	switch kind {
	case store.WriteDone:
		w.Away = []store.Away{{Shard: "c", Rank: 0}}
	case store.WriteNext:
		w.State.Seq, w.State.Attempt, w.Timer = w.State.Seq+1, 0, orderTimer(int(h.state.Version))
	case store.WriteAgain:
		w.Failure = store.Failure{Node: "node1", Reason: "status 500"}
	case store.WriteLive:
		w.Timer = orderTimer(int(h.state.Version))
	case store.WritePut, store.WriteOnce, store.WriteAnew, store.WriteAmend, store.WriteOnto, store.WriteGone, store.WriteBury,
		store.WriteDrop, store.WriteLook, store.WriteLeave, store.WriteRank, store.WriteHasten:
	}
	return w
}

// plant puts a shard into a state.
func (w *walk) plant(shard int, c contents) {
	w.Helper()
	mini, keys := w.shards[shard].mini, w.stores[0].keys[partitionOf(orderKey)]
	for _, key := range []string{keys.due, keys.timers, keys.leases, keys.dead, keys.tags} {
		mini.Del(key)
	}
	add := func(key, score, member string) {
		n, err := strconv.ParseFloat(score, 64)
		if err == nil {
			_, err = mini.ZAdd(key, n, member)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	if c.record != "" {
		mini.HSet(keys.timers, orderKey, c.record)
	}
	if c.score != "" {
		add(keys.due, c.score, orderKey)
	}
	if c.lease != "" {
		mini.HSet(keys.leases, orderKey, c.lease)
	}
	for sum := range strings.FieldsSeq(c.tags) {
		field, n, _ := strings.Cut(sum, "=")
		mini.HSet(keys.tags, field, n)
	}
	for line := range strings.Lines(c.letters) {
		score, member, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		add(keys.dead, score, member)
	}
}

// dig reads the contents that plant wrote and a call has changed, and fails on any further contents.
func (w *walk) dig(shard int) (c contents) {
	w.Helper()
	mini, keys := w.shards[shard].mini, w.stores[0].keys[partitionOf(orderKey)]
	for _, key := range mini.Keys() {
		if !slices.Contains([]string{keys.due, keys.timers, keys.leases, keys.dead, keys.tags}, key) {
			w.Fatalf("there is a key %s", key)
		}
	}
	c.record, c.lease, c.tags = mini.HGet(keys.timers, orderKey), mini.HGet(keys.leases, orderKey), w.digTags(keys.tags, mini)
	if mini.Exists(keys.due) {
		score, err := mini.ZScore(keys.due, orderKey)
		if err != nil {
			w.Fatal(err)
		}
		c.score = strconv.FormatFloat(score, 'f', -1, 64)
	}
	if mini.Exists(keys.dead) {
		letters, err := mini.SortedSet(keys.dead)
		if err != nil {
			w.Fatal(err)
		}
		var lines []string
		for member, score := range letters {
			lines = append(lines, strconv.FormatFloat(score, 'f', -1, 64)+" "+member+"\n")
		}
		slices.Sort(lines)
		c.letters = strings.Join(lines, "")
	}
	if (c.record == "") != (c.score == "") || c.lease != "" && c.record == "" {
		w.Fatalf("a half of a timer is there: %+v", c)
	}
	return c
}

// digTags reads the sums of tags, as words in one order.
func (w *walk) digTags(key string, mini *miniredis.Miniredis) string {
	w.Helper()
	if !mini.Exists(key) {
		return ""
	}
	fields, err := mini.HKeys(key)
	if err != nil {
		w.Fatal(err)
	}
	for i, field := range fields {
		fields[i] += "=" + mini.HGet(key, field)
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

// otherTags are the tags and the number of tombstones of the partition's further timers, to keep every sum above 0.
const otherTags = tombstonesField + "=1000 a%20b=1000 c=1000"

// tombstones is how many tombstones of the timer are counted.
func (c *contents) tombstones() int64 {
	for sum := range strings.FieldsSeq(c.tags) {
		if field, text, _ := strings.Cut(sum, "="); field == tombstonesField {
			n, err := strconv.ParseInt(text, 10, 64)
			if err == nil {
				return n - 1000
			}
		}
	}
	return -1000
}

// sums are the sums of the timer's tags by type.
func (c *contents) sums() map[string]int64 {
	sums := map[string]int64{}
	for sum := range strings.FieldsSeq(c.tags) {
		field, text, _ := strings.Cut(sum, "=")
		n, err := strconv.ParseInt(text, 10, 64)
		if n -= 1000; field != tombstonesField && (n != 0 || err != nil) {
			sums[tagType(field)] = n
		}
	}
	return sums
}

// firing is how long the copy's mark lasts.
func (c *contents) firing(now time.Time) time.Duration {
	if c.record == "" {
		return 0
	}
	rec, err := record.Parse(c.record)
	if err == nil {
		rec, err = rec.NoteLease(c.lease)
	}
	if err != nil {
		return -1
	}
	return max(0, time.UnixMilli(rec.Found(0).FiringUntilMs).Sub(now))
}

func (c *contents) dead(t testing.TB) (letters []storetest.DeadLetter) {
	t.Helper()
	for line := range strings.Lines(c.letters) {
		at, member, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		score, err := strconv.ParseFloat(at, 64)
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, readLetter(t, redis.Z{Score: score, Member: member}))
	}
	return letters
}
