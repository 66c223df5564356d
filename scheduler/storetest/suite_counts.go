package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"chronos/scheduler/store"
)

// countCases are the calls that count timers, and what nodes tell of themselves.
func countCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"copies are counted by when somebody must look at them": checkDueCounts,
		"a sample tells how many timers there are":              checkSample,
		"nodes tell of themselves, and are forgotten":           checkTold,
	}
}

func checkDueCounts(r *rig) {
	counts := func(from time.Time, step time.Duration, buckets int) []int64 {
		r.Helper()
		found, err := r.a.DueCounts(r.Context(), r.shard(), from, step, buckets)
		if err != nil {
			r.Fatalf("count: %v", err)
		}
		return found
	}
	begin := r.Now().Add(far).Truncate(time.Second)
	if got := counts(begin, time.Second, 3); !slices.Equal(got, []int64{0, 0, 0}) {
		r.Errorf("%v in an empty store", got)
	}
	for i, after := range []time.Duration{-time.Millisecond, 0, 999 * time.Millisecond, time.Second, 2999 * time.Millisecond, 3 * time.Second} {
		t := oneShot(0)
		t.At = begin.Add(after)
		r.put(fmt.Sprint("k", i), 1, t)
	}
	if got := counts(begin, time.Second, 3); !slices.Equal(got, []int64{2, 1, 1}) {
		r.Errorf("%v, want a bucket to have its first instant and not its last", got)
	}
	if got := counts(begin.Add(-time.Second), 10*time.Second, 1); !slices.Equal(got, []int64{6}) {
		r.Errorf("%v in one bucket, want all", got)
	}
}

func checkSample(r *rig) {
	sample := func() store.Sample {
		r.Helper()
		found, err := r.a.Sample(r.Context(), r.shard())
		if err != nil {
			r.Fatalf("sample: %v", err)
		}
		return found
	}
	if got := sample(); got != (store.Sample{}) {
		r.Errorf("%+v of an empty store", got)
	}
	for i := range 20 {
		w := write(fmt.Sprint("k", i), 1, oneShot(far))
		w.Rank = i % 2
		r.merge(w)
	}
	r.put("gone", 1, nil)
	// So few copies are all looked at.
	if got := sample(); got.Copies != 21 || got.Looked != 21 || got.Timers < 9.99 || got.Timers > 10.01 {
		r.Errorf("%+v, want 10 timers among 21 copies", got)
	}
}

func checkTold(r *rig) {
	shard := r.shard()
	beat := func(node store.Store, text string) {
		r.Helper()
		if _, err := node.Beat(r.Context(), shard, store.Announcement{Clock: r.Now(), Text: text}); err != nil {
			r.Fatalf("beat: %v", err)
		}
	}
	told := func() map[string]store.Told {
		r.Helper()
		all, err := r.a.Told(r.Context(), shard)
		if err != nil {
			r.Fatalf("told: %v", err)
		}
		return all
	}
	beat(r.a, "")
	if all := told(); len(all) != 0 {
		r.Errorf("%v of nodes that tell nothing", all)
	}
	from, to := r.during(func() { beat(r.a, `"host":"a"}`) })
	beat(r.b, `"host":"b"}`)
	var at int64
	if _, err := fmt.Sscanf(told()[nodeA].Text, `{"at_ms":%d,"host":"a"}`, &at); err != nil || at < from.UnixMilli() || at > to.UnixMilli() {
		r.Errorf("%q at %d: %v, want an instant of the shard between %d and %d", told()[nodeA], at, err, from.UnixMilli(), to.UnixMilli())
	}
	beat(r.a, `"host":"other"}`)
	if all := told(); len(all) != 2 || !strings.HasSuffix(all[nodeA].Text, `,"host":"other"}`) || all[nodeB].Ago < 0 || all[nodeB].Ago > 5*time.Second {
		r.Errorf("%v, want the latest of each node", all)
	}
	if err := r.b.Leave(r.Context(), shard); err != nil {
		r.Fatalf("leave: %v", err)
	}
	if _, there := told()[nodeB]; there {
		r.Errorf("a node that has left still tells: %v", told())
	}
	from, to = r.during(func() { beat(r.b, `"host":"b"}`) })
	r.awaits("forgotten", from.Add(9*time.Second), to.Add(11*time.Second), func() bool {
		beat(r.a, `"host":"a"}`)
		_, there := told()[nodeB]
		return !there
	})
	if _, there := told()[nodeA]; !there {
		r.Errorf("a node that goes on is forgotten: %v", told())
	}
}
