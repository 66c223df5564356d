package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// listCases are the calls of resynchronisation.
func listCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"heads tell what copies stand for":                                 checkHeads,
		"list goes on behind a place, in the order of keys at one instant": checkListPages,
		"list tells of what is leased wherever it is":                      checkListLeased,
		"list picks copies that meet conditions, and says more of them":    checkListPicks,
		"list counts what it has looked at":                                checkListLooked,
		"list of an empty shard is at its end": func(r *rig) {
			if heads, until := r.list(store.Place{}, 9, 0); len(heads) != 0 || until != nil {
				r.Errorf("%v until %v, want nothing", heads, until)
			}
		},
	}
}

func (r *rig) list(after store.Place, n int, hot time.Duration) ([]store.Head, *store.Place) {
	r.Helper()
	page, err := r.a.List(r.Context(), r.shard(), store.ListQuery{After: after, N: n, Hot: hot})
	if err != nil {
		r.Fatalf("list: %v", err)
	}
	return page.Heads, page.Until
}

func (r *rig) heads(keys ...string) []store.Head {
	r.Helper()
	heads, err := r.a.Heads(r.Context(), r.shard(), keys, store.Pick{})
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
		Brief: &store.Brief{Picked: true, URI: "http://receiver.example/pop", Interval: far, RepeatFor: 3 * far},
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
		asked := oneShot(0)
		asked.At = begin.Add(time.Duration(max(i-100, 0)) * time.Millisecond)
		// Keys that most locales sort in another order.
		key := fmt.Sprintf("%c%d", []rune("aB-.~_Az")[i%8], i)
		want = append(want, store.Place{At: asked.At, Key: key})
		writes = append(writes, write(key, 1, asked))
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

// checkListPicks picks among copies whose texts look like parts of a record.
func checkListPicks(r *rig) {
	uris := map[string]string{
		"plain":   "http://api.example/orders",
		"host":    "https://API.example:8443/orders",
		"user":    "http://ann:secret@api.example/",
		"quotes":  `http://b.example/"quoted"\\,"repeat_for_ms":77`,
		"unicode": "http://c.example/\u00e4\u4e16?q=<&>",
	}
	want := map[string]*store.Brief{}
	for name, uri := range uris {
		t := recurring(far, 3)
		t.Callback.URI, t.Callback.Opaque = uri, `needle \" \\ ,"repeat_for_ms":99,"uri":"http://other.example" tags=call=5 `
		t.Tags = []timer.Tag{{Type: "a b=,", Count: 2}, {Type: "of " + name, Count: 1}}
		r.put("key."+name, 1, t)
		want["key."+name] = &store.Brief{Picked: true, URI: uri, Tags: t.Tags, Interval: far, RepeatFor: 3 * far}
	}
	r.put("gone", 1, nil)
	late := r.leased("leased", oneShot(0), far)
	again := r.leased("again", oneShot(0), far)
	r.during(func() { r.pass(again, 1, terms(far, far)) })
	r.accept(again, store.Settlement{Outcome: store.OutcomeAgain, Delay: far, Reason: "status 500"})
	want["leased"] = &store.Brief{Picked: true, URI: late.Record.Timer.Callback.URI}
	want["again"] = &store.Brief{Picked: true, URI: late.Record.Timer.Callback.URI}
	for name, tc := range map[string]struct {
		pick store.Pick
		want []string
	}{
		"all":                {store.Pick{}, []string{"again", "key.host", "key.plain", "key.quotes", "key.unicode", "key.user", "leased"}},
		"waiting":            {store.Pick{State: store.CopyWaiting, KeyPrefix: "key.p"}, []string{"key.plain"}},
		"leased":             {store.Pick{State: store.CopyLeased}, []string{"leased"}},
		"retrying":           {store.Pick{State: store.CopyRetrying}, []string{"again"}},
		"a prefix":           {store.Pick{KeyPrefix: "key."}, []string{"key.host", "key.plain", "key.quotes", "key.unicode", "key.user"}},
		"a part of keys":     {store.Pick{Text: "ey.u"}, []string{"key.unicode", "key.user"}},
		"a part of URIs":     {store.Pick{Text: "/orders"}, []string{"key.host", "key.plain"}},
		"quotes in a URI":    {store.Pick{Text: `"quoted"\\,"`}, []string{"key.quotes"}},
		"an umlaut":          {store.Pick{Text: "\u00e4\u4e16?q=<"}, []string{"key.unicode"}},
		"not in the opaque":  {store.Pick{Text: "needle"}, nil},
		"not the other URI":  {store.Pick{Text: "other.example"}, nil},
		"no UTF-8":           {store.Pick{Text: "\xff\xfe\xfd"}, nil},
		"no pattern of Lua":  {store.Pick{Text: "key%.h"}, nil},
		"a host in any case": {store.Pick{Host: "api.example"}, []string{"key.host", "key.plain", "key.user"}},
		"a tag":              {store.Pick{Tag: "of plain"}, []string{"key.plain"}},
		"a tag to escape":    {store.Pick{Tag: "a b=,", KeyPrefix: "key.q"}, []string{"key.quotes"}},
		"no part of a tag":   {store.Pick{Tag: "of"}, nil},
		"all conditions":     {store.Pick{State: store.CopyWaiting, KeyPrefix: "key", Text: "orders", Host: "api", Tag: "of host"}, []string{"key.host"}},
	} {
		page, err := r.a.List(r.Context(), r.shard(), store.ListQuery{N: 100, Hot: far, Pick: tc.pick})
		if err != nil {
			r.Fatalf("%s: %v", name, err)
		}
		got := map[string]*store.Brief{}
		var keys []string
		for _, h := range page.Heads {
			keys, got[h.Key] = append(keys, h.Key), h.Brief
		}
		slices.Sort(keys)
		if !slices.Equal(keys, tc.want) {
			r.Errorf("%s: picked %v, want %v", name, keys, tc.want)
		}
		for _, key := range keys {
			if diff := cmp.Diff(want[key], got[key]); diff != "" {
				r.Errorf("%s: %s (-want +got):\n%s", name, key, diff)
			}
		}
	}
	checkBriefHeads(r)
}

// checkBriefHeads asks for copies by their keys, whether or not the copies meet the conditions.
func checkBriefHeads(r *rig) {
	amended := recurring(far, 3)
	amended.Callback.URI = "http://amended.example/"
	w := write("key.plain", 1, amended)
	w.Kind, w.State.Rev = store.WriteAmend, version(7)
	r.merge(w)
	heads, err := r.a.Heads(r.Context(), r.shard(), []string{"none", "gone", "key.plain", "key.host"}, store.Pick{Text: "amended"})
	if err != nil {
		r.Fatalf("heads: %v", err)
	}
	if heads[0].Brief != nil || heads[1].Brief != nil || !heads[1].State.Ended {
		r.Errorf("of what isn't there, and of a tombstone: %+v", heads[:2])
	}
	if b := heads[2].Brief; b == nil || !b.Picked || b.URI != amended.Callback.URI || heads[2].State.Rev != version(7) {
		r.Errorf("of an amended timer: %+v, %+v", heads[2], b)
	}
	if b := heads[3].Brief; b == nil || b.Picked || heads[3].State.Rev != 0 {
		r.Errorf("of what does not meet the conditions: %+v, %+v", heads[3], b)
	}
}

func checkListLooked(r *rig) {
	for i := range 50 {
		r.put(fmt.Sprint("k", i), 1, oneShot(far))
	}
	for _, pick := range []store.Pick{{}, {KeyPrefix: "other"}} {
		looked, found := 0, 0
		for after := (&store.Place{}); after != nil; {
			page, err := r.a.List(r.Context(), r.shard(), store.ListQuery{After: *after, N: 2, Pick: pick})
			if err != nil || page.Until != nil && page.Until.Compare(*after) <= 0 {
				r.Fatalf("behind %v: %+v, %v", after, page, err)
			}
			looked, found, after = looked+page.Looked, found+len(page.Heads), page.Until
		}
		if looked < 50 || looked > 50*16 || (pick == store.Pick{}) != (found > 0) {
			r.Errorf("picked %v: looked at %d, found %d, want to look at 50 or some more", pick, looked, found)
		}
	}
}
