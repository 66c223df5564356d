package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

func askCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"ask answers nothing about what is the same and idle": func(r *rig) {
			w := r.put("k", 1, oneShot(0))
			r.sameAt(r.shard(), "k", w.State)
			c := r.claim(r.a, request())
			r.sameAt(r.shard(), "k", w.State)
			r.accept(c, store.Settlement{Outcome: store.OutcomeAgain})
			r.sameAt(r.shard(), "k", w.State)
		},
		"ask answers what differs": func(r *rig) {
			w := r.put("k", 5, oneShot(far))
			for _, other := range []timer.State{
				{}, {Version: version(4), Seq: 1}, {Version: version(6), Seq: 1}, {Version: version(5), Seq: 2},
				{Version: version(5), Seq: 1, Attempt: 1}, {Version: version(5), Seq: 1, Ended: true}, {Version: version(5), Ended: true},
			} {
				d, differs := r.ask(r.shard(), "k", other)
				if !differs || d.State != w.State || d.Firing != 0 || d.LookIn > far+time.Second || d.LookIn < far-time.Minute {
					r.Errorf("asked about %+v: %+v, %v, want %+v, looked at in nearly %v", other, d, differs, w.State, far)
				}
			}
		},
		"ask answers what is missing": func(r *rig) {
			if d, differs := r.ask(r.a.Shards()[0], "k", timer.State{Version: version(1), Seq: 1}); !differs || d != (store.Difference{Missing: true}) {
				r.Errorf("got %+v, %v, want missing and nothing else", d, differs)
			}
		},
		"ask answers what is firing": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			f := r.pass(c, 1, terms(brief, far))
			d, differs := r.ask(c.Lease.Shard, "k", f.State)
			if differs && (d.State != f.State || d.Firing <= 0 || d.Firing > brief) {
				r.Errorf("got %+v, want %+v firing for at most %v", d, f.State, brief)
			}
			from, to := r.during(func() { f = r.pass(c, 1, terms(brief, far)) })
			r.awaits("idle", from.Add(brief), to.Add(brief), func() bool {
				_, differs := r.ask(c.Lease.Shard, "k", f.State)
				return !differs
			})
		},
		"ask knows a tombstone": func(r *rig) {
			w := r.put("k", 5, nil)
			r.sameAt(r.shard(), "k", w.State)
			r.sameAt(r.shard(), "k", timer.State{Version: version(5), Seq: 7, Attempt: 2, Ended: true})
			for _, other := range []timer.State{{Version: version(5)}, {Version: version(5), Seq: 1}, {Version: version(4), Ended: true}, {}} {
				if d, differs := r.ask(r.shard(), "k", other); !differs || !d.State.Ended || d.State.Version != version(5) {
					r.Errorf("asked about %+v: %+v, %v, want the tombstone", other, d, differs)
				}
			}
		},
		"ask answers in the order of the states": checkAskOrder,
		"ask tells a copy of a later rank":       checkAskRank,
		"ask tells how a better copy stands":     checkAskBetter,
	}
}

func (r *rig) sameAt(shard, key string, state timer.State) {
	r.Helper()
	if d, differs := r.ask(shard, key, state); differs {
		r.Errorf("asked about %+v: %+v, want no difference", state, d)
	}
}

// checkAskBetter: a node that would leave a pop to a copy hears of the copy, and when the copy is looked at, even if
// the states are the same.
func checkAskBetter(r *rig) {
	stands := func(key string, state timer.State, least, most time.Duration) {
		r.Helper()
		got, err := r.b.Ask(r.Context(), r.shard(), []store.KeyState{{Key: key, State: state, Better: true}})
		if err != nil || len(got) != 1 || got[0].State != state || got[0].LookIn < least || got[0].LookIn > most {
			r.Errorf("%s: %+v, %v, want %+v, looked at in %v to %v", key, got, err, state, least, most)
		}
		r.sameAt(r.shard(), key, state)
	}
	w := r.put("waits", 1, oneShot(far))
	stands("waits", w.State, far-time.Minute, far+time.Second)
	w = r.put("due", 1, oneShot(0))
	stands("due", w.State, 0, time.Millisecond)
	r.claim(r.a, request())
	stands("due", w.State, far-time.Minute, far+time.Second)
	r.put("ended", 1, nil)
	got, err := r.b.Ask(r.Context(), r.shard(), []store.KeyState{{Key: "ended", State: timer.State{Version: version(1), Ended: true}, Better: true}})
	if err != nil || len(got) > 0 {
		r.Errorf("a tombstone: %+v, %v, want no difference", got, err)
	}
}

func checkAskRank(r *rig) {
	shard := r.a.Shards()[0]
	w := write("k", 1, oneShot(far))
	w.Rank = 2
	r.mergeBy(r.a, w)
	for from, want := range map[int]bool{0: false, 1: true, 2: true, 3: false, 12: false} {
		got, err := r.b.Ask(r.Context(), shard, []store.KeyState{{Key: "k", State: w.State, RankFrom: from}})
		if err != nil {
			r.Fatalf("ask: %v", err)
		}
		if differs := len(got) > 0; differs != want || differs && got[0].State != w.State {
			r.Errorf("asked about rank %d and on of a copy of rank 2: %+v, want one of the same state: %t", from, got, want)
		}
	}
	w = write("k", 2, nil)
	w.Rank = 2
	r.mergeBy(r.a, w)
	tombstone := timer.State{Version: w.State.Version, Ended: true}
	got, err := r.b.Ask(r.Context(), shard, []store.KeyState{{Key: "k", State: tombstone, RankFrom: 1}})
	if err != nil || len(got) > 0 {
		r.Errorf("asked about the tombstone that is there: %+v, %v; want no difference, whatever its rank", got, err)
	}
}

func checkAskOrder(r *rig) {
	all := append(r.neighbors(600), keys(600)...)
	writes, states := make([]store.Write, len(all)), make([]store.KeyState, len(all))
	for i, key := range all {
		writes[i] = write(key, 1, oneShot(far))
	}
	var want []int
	shard := r.a.Shards()[0]
	for i, w := range r.mergeBy(r.a, writes...) {
		states[i] = store.KeyState{Key: all[i], State: w.State}
		if i%7 == 0 {
			states[i].State.Seq = 2
		}
		if i%11 == 0 {
			states[i].Key = "unknown-" + all[i]
		}
		if i%7 == 0 || i%11 == 0 {
			want = append(want, i)
		}
	}
	differences, err := r.b.Ask(r.Context(), shard, states)
	if err != nil {
		r.Fatalf("ask: %v", err)
	}
	got := make([]int, len(differences))
	for i, d := range differences {
		got[i] = d.Index
		if d.Index%11 == 0 && !d.Missing {
			r.Errorf("state %d: %+v, want missing", d.Index, d)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("indexes (-want +got):\n%s", diff)
	}
}

// stood is the result without the times that depend on when the result was read.
func stood(result store.ReadResult) store.ReadResult {
	result.LookIn, result.DueIn = 0, 0
	return result
}

func readCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"read of what isn't there is not found": func(r *rig) {
			if got := r.read("k"); !errors.Is(got.Err, timer.ErrNotFound) {
				r.Errorf("%v, want not found", got.Err)
			}
		},
		"read tells how a timer stands": func(r *rig) {
			asked := recurring(far, 3)
			w := r.put("k", 1, asked)
			want := store.ReadResult{
				Record: store.Record{ID: timer.ID{Key: "k", RF: replicas}, State: w.State, Timer: *asked, Start: w.Due.Add(-far)}, Look: w.Due, Due: w.Due,
			}
			var got store.ReadResult
			from, to := r.during(func() { got = r.live("k") })
			r.between("look in", from.Add(got.LookIn), w.Due.Add(-to.Sub(from)), w.Due)
			r.between("due in", from.Add(got.DueIn), w.Due.Add(-to.Sub(from)), w.Due)
			if diff := cmp.Diff(want, stood(got)); diff != "" {
				r.Errorf("read (-want +got):\n%s", diff)
			}
		},
		"read changes nothing": func(r *rig) {
			r.put("k", 1, oneShot(far))
			first := r.live("k")
			r.Pass(2 * time.Millisecond)
			if diff := cmp.Diff(stood(first), stood(r.live("k"))); diff != "" {
				r.Errorf("read again (-first +second):\n%s", diff)
			}
		},
		"read answers in the order of its ids": func(r *rig) {
			r.put("one", 1, oneShot(far))
			r.put("two", 2, oneShot(far))
			r.put("gone", 3, nil)
			ids := r.spots([]string{"two", "none", "one", "gone", "two"})
			for i, got := range r.a.Read(r.Context(), ids) {
				missing := ids[i].Key == "none" || ids[i].Key == "gone"
				if errors.Is(got.Err, timer.ErrNotFound) != missing || !missing && got.Record.ID.Key != ids[i].Key {
					r.Errorf("answer %d: %v, %v", i, got.Record.ID, got.Err)
				}
			}
		},
	}
}

func nodeCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"nodes that announced themselves are named for 3 s": checkBeat,
		"the fastest clock of all nodes is known to all":    checkFastest,
		"survey counts what waits": func(r *rig) {
			if n := r.pending(); n != 0 {
				r.Errorf("%d pending in an empty store", n)
			}
			r.put("live", 1, oneShot(far))
			r.put("tomb", 1, nil)
			r.leased("leased", oneShot(0), far)
			if n := r.pending(); n != 3 {
				r.Errorf("%d pending, want the timer, the tombstone and the leased one", n)
			}
		},
		"survey tells how overdue the oldest is": func(r *rig) {
			for _, shard := range r.a.Shards() {
				if s, err := r.a.Survey(r.Context(), shard); err != nil || s.Overdue != 0 {
					r.Errorf("overdue %v, %v, in an empty store", s.Overdue, err)
				}
			}
			r.put("later", 1, oneShot(far))
			shard := r.shard()
			if s, err := r.a.Survey(r.Context(), shard); err != nil || s.Overdue != 0 {
				r.Errorf("overdue %v, %v, where all is due later", s.Overdue, err)
			}
			asked := oneShot(0)
			asked.At = r.Now().Add(-far).Truncate(time.Millisecond)
			r.put("overdue", 1, asked)
			s, err := r.a.Survey(r.Context(), shard)
			if err != nil || s.Overdue < far || s.Overdue > far+time.Minute || s.Due != 1 {
				r.Errorf("%d overdue by %v, %v, want one by about %v", s.Due, s.Overdue, err, far)
			}
			r.claim(r.a, request())
			if s, err := r.a.Survey(r.Context(), shard); err != nil || s.Overdue != 0 || s.Due != 0 {
				r.Errorf("%d overdue by %v, %v, after it was claimed", s.Due, s.Overdue, err)
			}
		},
	}
}

// checkFastest: a node's clock is known to all nodes, and goes on when the node is gone.
func checkFastest(r *rig) {
	shard := r.a.Shards()[0]
	var slowest time.Duration // the clock is known as of the announcement
	beat := func(what string, node store.Store, clock, want time.Duration) {
		r.Helper()
		var shows time.Time
		from, to := r.during(func() {
			said, err := node.Beat(r.Context(), shard, store.Announcement{Clock: r.Now().Add(clock)})
			if err != nil {
				r.Fatalf("beat: %v", err)
			}
			shows = said.Fastest
		})
		slowest = max(slowest, to.Sub(from))
		// The time since the announcement is rounded, too.
		r.between("the fastest clock, "+what, shows, from.Add(want-slowest-slack), to.Add(want))
	}
	beat("its own", r.a, -time.Minute, -time.Minute)
	beat("its own", r.b, time.Minute, time.Minute)
	beat("the other's", r.a, -time.Minute, time.Minute)
	if err := r.b.Leave(r.Context(), shard); err != nil {
		r.Fatalf("leave: %v", err)
	}
	beat("that of one that left", r.a, -time.Minute, time.Minute)
	beat("its own again", r.b, -2*time.Minute, -time.Minute)
	const ahead = timing.MaxClockAhead
	beat("a broken one", r.b, ahead, ahead)
	beat("not a broken one", r.a, -time.Second, -time.Second)
	beat("one that is not", r.a, time.Second, ahead)
}

func checkBeat(r *rig) {
	shard := r.a.Shards()[0]
	announce := func(node store.Store, lacks ...string) (names []string, lacked map[string][]string) {
		said, err := node.Beat(r.Context(), shard, store.Announcement{Clock: r.Now(), Lacks: lacks})
		if err != nil {
			r.Fatalf("beat: %v", err)
		}
		lacked = make(map[string][]string)
		for _, node := range said.Nodes {
			names, lacked[node.Name] = append(names, node.Name), node.Lacks
		}
		return names, lacked
	}
	beat := func(node store.Store) []string {
		names, _ := announce(node)
		return names
	}
	var first []string
	from, to := r.during(func() { first = beat(r.a) })
	if !slices.Contains(first, nodeA) || slices.Contains(first, nodeB) {
		r.Errorf("live are %v, want %q and not %q", first, nodeA, nodeB)
	}
	if r.Now().Before(from.Add(2 * time.Second)) {
		both, lacked := announce(r.b, "one", "another.one")
		if !slices.Contains(both, nodeA) || !slices.Contains(both, nodeB) {
			r.Errorf("live are %v, want both", both)
		}
		if len(lacked[nodeA]) != 0 || !slices.Equal(lacked[nodeB], []string{"one", "another.one"}) {
			r.Errorf("said to be lacking is %v, want what each node has said", lacked)
		}
	}
	const alive = 3 * time.Second
	// A node may know the shard's clock by the shard's last answers only.
	r.awaits("dead", from.Add(alive-time.Second), to.Add(alive+time.Second), func() bool { return !slices.Contains(beat(r.b), nodeA) })
	beat(r.a)
	if err := r.b.Leave(r.Context(), shard); err != nil {
		r.Fatalf("leave: %v", err)
	}
	if left := beat(r.a); slices.Contains(left, nodeB) || !slices.Contains(left, nodeA) {
		r.Errorf("live are %v, want %q and not %q, which left", left, nodeA, nodeB)
	}
	if err := r.b.Leave(r.Context(), shard); err != nil {
		r.Errorf("leave twice: %v", err)
	}
}
