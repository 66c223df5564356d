package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func mergeCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"merge answers what it stored": func(r *rig) {
			var w store.Written
			from, to := r.during(func() { w = r.put("k", 1, oneShot(far)) })
			if want := (timer.State{Version: version(1), Seq: 1}); w.State != want {
				r.Errorf("state is %+v, want %+v", w.State, want)
			}
			if w.Due.Before(from.Add(far)) {
				r.Errorf("due %v early", from.Add(far).Sub(w.Due))
			}
			r.between("due", w.Due, from.Add(far), to.Add(far))
			r.between("wait", from.Add(w.Wait), w.Due.Add(-to.Sub(from)), w.Due)
			if !w.New || w.Firing > 0 || w.RF != replicas {
				r.Errorf("new %v, firing %v, replication factor %d; want true, 0, as given", w.New, w.Firing, w.RF)
			}
		},
		"merge of an instant is due then": func(r *rig) {
			asked := oneShot(0)
			asked.At = r.Now().Add(far).Truncate(time.Millisecond).UTC()
			if w := r.put("k", 1, asked); !w.Due.Equal(asked.At) {
				r.Errorf("due %v, want %v", w.Due, asked.At)
			}
			if got := r.live("k"); !got.Look.Equal(asked.At) || !got.Record.Timer.At.Equal(asked.At) {
				r.Errorf("look %v, at %v, want %v", got.Look, got.Record.Timer.At, asked.At)
			}
		},
		"merge of an instant recurs from the instant": func(r *rig) {
			asked := recurring(far, 3)
			asked.At = r.Now().Add(2 * far).Truncate(time.Millisecond).UTC()
			if w := r.put("k", 1, asked); !w.Due.Equal(asked.At) {
				r.Errorf("due %v, want %v", w.Due, asked.At)
			}
			r.toldStored(outcome(store.WriteNext, "k", 1, 2, 0))
			second := r.live("k")
			if want := asked.At.Add(far); !second.Due.Equal(want) || !second.Look.Equal(want.Add(skewed)) || !second.Record.Timer.At.Equal(asked.At) {
				r.Errorf("pop 2 is due %v, look %v, want %v", second.Due, second.Look, want)
			}
			third := second.Record
			third.State.Seq = 3
			r.toldStored(onShard(r.shard(), store.Copy(store.Target{Key: "k", RF: replicas}, &third, store.Times{DueIn: far})))
			if got := r.live("k"); !got.Due.Equal(asked.At.Add(2*far)) || !got.Record.Start.Equal(asked.At.Add(-far)) {
				r.Errorf("a copy of pop 3 is due %v from %v, want the instants of the timer, first %v", got.Due, got.Record.Start, asked.At)
			}
		},
		"merge of an instant that has passed is due at once": func(r *rig) {
			asked := oneShot(0)
			asked.At = r.Now().Add(-far).Truncate(time.Millisecond).UTC()
			if w := r.put("k", 1, asked); w.Wait > -far+brief || !w.Due.Equal(asked.At) {
				r.Errorf("wait is %v, due %v, want about %v, %v", w.Wait, w.Due, -far, asked.At)
			}
			if c := r.claim(r.a, request()); c.DueIn > -far+time.Minute {
				r.Errorf("claimed as due in %v, want about %v", c.DueIn, -far)
			}
		},
		"merge of interval zero is due at once": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
		},
		"merge never rounds down":                   checkRounding,
		"merge of a replace starts anew":            checkReplace,
		"merge of a replace ends a recurrence":      checkReplaceRecurring,
		"merge of one key twice in a call":          checkSameKeyTwice,
		"merge by many at once keeps the newest":    checkConcurrentMerges,
		"merge gives ids that find the timer":       checkIDs,
		"merge answers item by item":                checkItemByItem,
		"calls after their context ended":           checkEndedContext,
		"calls on a shard that isn't there":         checkUnknownShard,
		"shards are the same for all nodes":         checkShards,
		"calls with nothing to do answer nothing":   checkEmptyCalls,
		"merge keeps every field of the timer":      checkFields,
		"merge of a delete that is newer is stored": checkDelete,
	}
}

// A start before the write would make every pop early.
func checkRounding(r *rig) {
	for n := range 20 {
		r.Pass(137 * time.Microsecond)
		var w store.Written
		from, _ := r.during(func() { w = r.put("k", n+1, oneShot(far)) })
		if w.Due.Before(from.Add(far)) {
			r.Errorf("due %v before the interval has passed", from.Add(far).Sub(w.Due))
		}
		if got := r.live("k"); !got.Due.Equal(w.Due) || !got.Look.Equal(w.Due) {
			r.Errorf("read as due %v, look %v; answered %v", got.Due, got.Look, w.Due)
		}
	}
}

func checkReplace(r *rig) {
	c := r.leased("k", recurring(brief, 9), far)
	due := c.Record.Start.Add(brief)
	r.awaits("fence passes", due, due, func() bool { return r.fence(c, 9, terms(far, far)).Status == store.FencePassed })
	r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: 0})
	from, to := r.during(func() { r.put("k", 2, recurring(far, 3)) })
	got := r.live("k")
	if want := (timer.State{Version: version(2), Seq: 1}); got.Record.State != want {
		r.Errorf("state is %+v, want %+v", got.Record.State, want)
	}
	if diff := cmp.Diff(*recurring(far, 3), got.Record.Timer); diff != "" {
		r.Errorf("timer (-want +got):\n%s", diff)
	}
	r.between("start", got.Record.Start, from, to)
	r.between("due", got.Due, from.Add(far), to.Add(far))
	if got.Record.Failure.Node != "" {
		r.Errorf("failed by %q, want nobody", got.Record.Failure.Node)
	}
}

func checkReplaceRecurring(r *rig) {
	r.put("k", 1, recurring(brief, 5))
	r.put("k", 2, oneShot(far))
	r.Pass(2 * brief)
	if claims := r.claimAll(r.a, request()); len(claims) != 0 {
		r.Errorf("a pop of the replaced timer was claimed: %+v", claims[0].Record.State)
	}
}

func checkDelete(r *rig) {
	r.put("k", 1, oneShot(0))
	w := r.put("k", 2, nil)
	if !w.State.Ended || w.State.Version != version(2) || w.Firing > 0 {
		r.Errorf("state is %+v, in flight %v; want ended, version 2, not in flight", w.State, w.Firing > 0)
	}
	if got := r.read("k"); !errors.Is(got.Err, timer.ErrNotFound) {
		r.Errorf("read after delete: %v, want not found", got.Err)
	}
	if claims := r.claimAll(r.b, request()); len(claims) != 0 {
		r.Error("a deleted timer was claimed")
	}
}

func checkSameKeyTwice(r *rig) {
	answers := r.mergeBy(r.a,
		write("k", 1, oneShot(far)), write("k", 3, recurring(far, 2)), write("k", 2, nil), write("k", 3, recurring(far, 2)),
	)
	var got []store.WriteStatus
	for _, a := range answers {
		got = append(got, a.Status)
	}
	want := []store.WriteStatus{store.WriteStored, store.WriteStored, store.WriteNewer, store.WriteSame}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("statuses (-want +got):\n%s", diff)
	}
	if v := r.live("k").Record.State.Version; v != version(3) {
		r.Errorf("version %v is there, want %v", v, version(3))
	}
}

func checkConcurrentMerges(r *rig) {
	const writers, each = 4, 25
	var wg sync.WaitGroup
	for w := range writers {
		node := []store.Store{r.a, r.b}[w%2]
		wg.Go(func() {
			for n := range each {
				answer := r.mergeBy(node, write("k", n*writers+w+1, oneShot(far)))[0]
				if answer.Err != nil {
					r.Errorf("merge: %v", answer.Err)
				}
			}
		})
	}
	wg.Wait()
	if v := r.live("k").Record.State.Version; v != version(writers*each) {
		r.Errorf("version %v is there, want the newest, %v", v, version(writers*each))
	}
}

// An ID leads to every shard that may have a copy.
func checkIDs(r *rig) {
	ranked := r.a.Rank("k")
	if diff := cmp.Diff(r.b.Rank("k"), ranked); diff != "" {
		r.Errorf("nodes rank shards differently:\n%s", diff)
	}
	var all timer.Hint
	for _, name := range ranked {
		hint := r.a.HintOf(name)
		if got := r.b.Hinted(hint); !slices.Contains(got, name) {
			r.Errorf("the filter of %s means %v", name, got)
		}
		all |= hint
	}
	if got := len(r.a.Hinted(all)); got != len(r.a.Shards()) || got != len(ranked) {
		r.Errorf("the filter of all %d shards means %d; %d are ranked", len(r.a.Shards()), got, len(ranked))
	}
	if got := r.a.Hinted(0); len(got) != 0 {
		r.Errorf("an empty filter means %v", got)
	}
}

func checkItemByItem(r *rig) {
	r.put("same", 1, oneShot(far))
	r.put("newer", 2, oneShot(far))
	r.put("conflict", 1, oneShot(2*far))
	answers := r.mergeBy(r.a,
		write("conflict", 1, oneShot(far)), write("fresh", 1, oneShot(far)), write("newer", 1, oneShot(far)),
		write("same", 1, oneShot(far)), write("gone", 1, nil),
	)
	want := []store.WriteStatus{
		store.WriteConflict, store.WriteStored, store.WriteNewer, store.WriteSame, store.WriteStored,
	}
	for i, a := range answers {
		if a.Status != want[i] || a.Err != nil {
			r.Errorf("answer %d: status %d, err %v, want %d", i, a.Status, a.Err, want[i])
		}
	}
}

func checkEndedContext(r *rig) {
	c := r.leased("k", oneShot(0), far)
	var errs []error
	errs = append(errs,
		r.a.Merge(ended(), []store.Write{onShard(r.shard(), write("other", 1, oneShot(far)))})[0].Err,
		r.a.Tell(ended(), r.shard(), []store.Write{write("other", 1, oneShot(far))})[0].Err,
		r.a.Read(ended(), r.spots([]string{"k"}))[0].Err,
		r.a.Fire(ended(), c.Lease.Shard, terms(far, far), []store.Fence{{Lease: c.Lease}})[0].Err,
		r.a.Settle(ended(), c.Lease.Shard, []store.Settlement{{Lease: c.Lease}})[0].Err,
		r.a.Leave(ended(), c.Lease.Shard))
	_, err := r.a.Claim(ended(), c.Lease.Shard, request())
	errs = append(errs, err)
	_, err = r.a.Ask(ended(), c.Lease.Shard, []store.KeyState{{Key: "k"}})
	errs = append(errs, err)
	_, err = r.a.Beat(ended(), c.Lease.Shard, store.Announcement{Clock: r.Now()})
	errs = append(errs, err)
	_, err = r.a.Survey(ended(), c.Lease.Shard)
	errs = append(errs, err)
	for i, err := range errs {
		if !errors.Is(err, timer.ErrUnavailable) {
			r.Errorf("call %d: %v, want store unavailable", i, err)
		}
	}
}

func checkUnknownShard(r *rig) {
	const shard = "nowhere"
	lease := store.Lease{Shard: shard, Key: "k", Token: nodeA + ":1:1"}
	errs := []error{
		r.a.Merge(r.Context(), []store.Write{onShard(shard, write("k", 1, oneShot(far)))})[0].Err,
		r.a.Tell(r.Context(), shard, []store.Write{write("k", 1, oneShot(far))})[0].Err,
		r.a.Read(r.Context(), []store.Spot{{Shard: shard, Key: "k"}})[0].Err,
		r.a.Fire(r.Context(), shard, terms(far, far), []store.Fence{{Lease: lease}})[0].Err,
		r.a.Settle(r.Context(), shard, []store.Settlement{{Lease: lease}})[0].Err,
		r.a.Leave(r.Context(), shard),
	}
	_, err := r.a.Claim(r.Context(), shard, request())
	errs = append(errs, err)
	_, err = r.a.Survey(r.Context(), shard)
	errs = append(errs, err)
	for i, err := range errs {
		if !errors.Is(err, timer.ErrUnavailable) {
			r.Errorf("call %d: %v, want store unavailable", i, err)
		}
	}
}

func checkShards(r *rig) {
	a, b := r.a.Shards(), r.b.Shards()
	if diff := cmp.Diff(a, b); diff != "" || len(a) == 0 {
		r.Errorf("shards differ between nodes, or there are none:\n%s", diff)
	}
}

func checkEmptyCalls(r *rig) {
	shard := r.a.Shards()[0]
	n := len(r.a.Merge(r.Context(), nil)) + len(r.a.Read(r.Context(), nil)) +
		len(r.a.Fire(r.Context(), shard, terms(far, far), nil)) + len(r.a.Settle(r.Context(), shard, nil))
	differences, err := r.a.Ask(r.Context(), shard, nil)
	if n+len(differences) != 0 || err != nil {
		r.Errorf("%d answers to empty calls, err %v", n+len(differences), err)
	}
	if claims := r.claimAll(r.a, request()); len(claims) != 0 {
		r.Errorf("an empty store gave %d claims", len(claims))
	}
}

// headers are headers of names and values in turn.
func headers(t *testing.T, texts ...string) (all timer.Headers) {
	t.Helper()
	for i := 0; i < len(texts); i += 2 {
		with, err := all.With(texts[i], texts[i+1])
		if err != nil {
			t.Fatal(err)
		}
		all = with
	}
	return all
}

func checkFields(r *rig) {
	full := timer.Timer{
		Interval: 100 * 365 * 24 * time.Hour, RepeatFor: 0, ReplicationFactor: 16,
		Callback: timer.Callback{URI: "https://user@[2001:db8::1]:8443/a%20b?x=<1>&y=%22#f", Opaque: "{\"µ\": \"\\n \u2028 <&> '\"}\n\x00 - "},
		Tags:     []timer.Tag{{Type: "call, leg=1", Count: 3}, {Type: "-", Count: 1}, {Type: "bücher 100%", Count: 1 << 40}},
	}
	many := timer.Timer{
		Interval: 1001 * time.Millisecond, RepeatFor: 100 * 365 * 24 * time.Hour, ReplicationFactor: 1,
		Callback: timer.Callback{URI: "http://localhost/"},
	}
	instant := timer.Timer{
		At: time.UnixMilli(1).UTC(), ReplicationFactor: 3, Callback: timer.Callback{URI: "http://localhost/", Opaque: "{"},
	}
	later := timer.Timer{
		Interval: far, ReplicationFactor: 2, ExpiresAfter: 1001 * time.Millisecond,
		Callback: timer.Callback{
			URI: "http://localhost/", Method: "PATCH", Headers: headers(r.T, "Authorization", `a "b" <\\> {`, "X-Empty", ""), Timeout: 30 * time.Second,
			Retry: timer.Retry{Attempts: 100, First: 100 * time.Millisecond, Factor: 1.001, Longest: 24 * time.Hour},
		},
	}
	expiring := timer.Timer{Interval: far, ReplicationFactor: 2, ExpiresAfter: time.Second, Callback: timer.Callback{URI: "http://localhost/"}}
	for key, asked := range map[string]timer.Timer{"full": full, "many": many, "instant": instant, "later": later, "expiring": expiring} {
		r.Run(key, func(t *testing.T) {
			w := write(key, 1, &asked)
			w.RF = asked.ReplicationFactor
			if answer := r.merge(w); answer.Status != store.WriteStored {
				t.Fatalf("merge: %+v", answer)
			}
			got := r.live(key)
			if diff := cmp.Diff(asked, got.Record.Timer); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			for _, c := range r.claimAll(r.a, request()) {
				if diff := cmp.Diff(asked, c.Record.Timer); c.Lease.Key == key && diff != "" {
					t.Errorf("claimed (-want +got):\n%s", diff)
				}
			}
			if r.merge(w).Status != store.WriteSame {
				t.Error("sent again it is not the same")
			}
		})
	}
}
