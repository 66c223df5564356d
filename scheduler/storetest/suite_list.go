package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
)

// listCases are the calls of resynchronisation.
func listCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"heads tell what copies stand for":                                 checkHeads,
		"list goes on behind a place, in the order of keys at one instant": checkListPages,
		"list tells of what is leased wherever it is":                      checkListLeased,
		"list of an empty shard is at its end": func(r *rig) {
			if heads, until := r.list(store.Place{}, 9, 0); len(heads) != 0 || until != nil {
				r.Errorf("%v until %v, want nothing", heads, until)
			}
		},
	}
}

func (r *rig) list(after store.Place, n int, hot time.Duration) ([]store.Head, *store.Place) {
	r.Helper()
	heads, until, err := r.a.List(r.Context(), r.shard(), after, n, hot)
	if err != nil {
		r.Fatalf("list: %v", err)
	}
	return heads, until
}

func (r *rig) heads(keys ...string) []store.Head {
	r.Helper()
	heads, err := r.a.Heads(r.Context(), r.shard(), keys)
	if err != nil {
		r.Fatalf("heads: %v", err)
	}
	return heads
}

func checkHeads(r *rig) {
	w := write("backup", 3, recurring(far, 3))
	w.Rank, w.Offset = 1, time.Minute
	stored := r.merge(w)
	r.put("gone", 4, nil)
	heads := r.heads("none", "backup", "gone", "backup")
	if diff := cmp.Diff(store.Head{Key: "none"}, heads[0]); diff != "" {
		r.Errorf("of what isn't there (-want +got):\n%s", diff)
	}
	want := store.Head{
		Key: "backup", State: stored.State, Rank: 1, RF: replicas, Look: stored.Due.Add(time.Minute), Due: stored.Due, Bytes: heads[1].Bytes,
	}
	if diff := cmp.Diff([]store.Head{want, want}, []store.Head{heads[1], heads[3]}); diff != "" || want.Bytes < len("http://receiver.example/pop") {
		r.Errorf("of a backup of %d bytes (-want +got):\n%s", want.Bytes, diff)
	}
	if h := heads[2]; h.Key != "gone" || !h.State.Ended || h.State.Version != version(4) {
		r.Errorf("of a tombstone: %+v", h)
	}
	c := r.leased("leased", oneShot(0), far)
	var fenced store.Fenced
	r.during(func() { fenced = r.pass(c, 1, terms(far, far)) })
	if h := r.heads("leased")[0]; h.State != fenced.State || h.Taken.IsZero() || h.Taken.After(r.Now()) || !h.Due.Equal(fenced.Due) || !h.Look.After(h.Due) {
		r.Errorf("while firing: %+v, want %+v, due %v", h, fenced.State, fenced.Due)
	}
}

// checkListPages reads timers, many due at one instant, a few at a time.
func checkListPages(r *rig) {
	var want []store.Place
	var writes []store.Write
	begin := r.Now().Add(far).Truncate(time.Millisecond).UTC()
	for i := range 120 {
		timer := oneShot(0)
		timer.At = begin.Add(time.Duration(max(i-100, 0)) * time.Millisecond)
		// Keys that most locales sort in another order.
		key := fmt.Sprintf("%c%d", []rune("aB-.~_Az")[i%8], i)
		want = append(want, store.Place{At: timer.At, Key: key})
		writes = append(writes, write(key, 1, timer))
	}
	for i, w := range r.mergeBy(r.a, writes...) {
		if w.Status != store.WriteStored {
			r.Fatalf("merge %d: %+v", i, w)
		}
	}
	slices.SortFunc(want, store.Place.Compare)
	for _, n := range []int{1, 3, 120} {
		var got []store.Place
		after := &store.Place{}
		for after != nil {
			heads, until := r.list(*after, n, 0)
			var page []store.Place
			for _, h := range heads {
				if p := (store.Place{At: h.Look, Key: h.Key}); until == nil || p.Compare(*until) <= 0 {
					page = append(page, p)
				}
			}
			if until != nil && until.Compare(*after) <= 0 {
				r.Fatalf("%d at a time: from %v until %v", n, after, until)
			}
			slices.SortFunc(page, store.Place.Compare)
			got, after = append(got, page...), until
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Errorf("%d at a time (-want +got):\n%s", n, diff)
		}
	}
	half := want[len(want)/2]
	if heads, _ := r.list(half, 120, 0); len(heads) != len(want)-len(want)/2-1 {
		r.Errorf("%d behind the middle of %d", len(heads), len(want))
	}
	instant := store.Place{At: begin.Add(time.Millisecond)}
	if heads, _ := r.list(instant, 120, 0); len(heads) != 19 {
		r.Errorf("%d from an instant on, want 19", len(heads))
	}
}

func checkListLeased(r *rig) {
	c := r.leased("leased", oneShot(0), far)
	r.put("waiting", 1, oneShot(2*far))
	keys := func(after time.Time, hot time.Duration) (all []string) {
		heads, _ := r.list(store.Place{At: after}, 9, hot)
		for _, h := range heads {
			all = append(all, h.Key)
		}
		slices.Sort(all)
		return all
	}
	now := r.Now()
	for name, tc := range map[string]struct {
		after time.Time
		hot   time.Duration
		want  []string
	}{
		"from the begin":    {time.Time{}, 0, []string{"leased", "waiting"}},
		"from an hour ago":  {now.Add(-far), 0, []string{"leased", "waiting"}},
		"ahead, but hot":    {now.Add(far / 2), far, []string{"leased", "waiting"}},
		"ahead":             {now.Add(far / 2), time.Minute, []string{"waiting"}},
		"behind everything": {now.Add(9 * far), time.Minute, nil},
	} {
		if got := keys(tc.after, tc.hot); !slices.Equal(got, tc.want) {
			r.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	r.accept(c, store.Settlement{Outcome: store.OutcomeRelease})
	if got := keys(time.Time{}, 0); !slices.Equal(got, []string{"leased", "waiting"}) {
		r.Errorf("once it is released: %v", got)
	}
}
