package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

func pauseCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"every node hears of a pause with the heartbeat": func(r *rig) {
			p := r.pause("https://api.example.com:443", 0, far)
			r.decides(p, p)
			r.hears(r.b, p)
			r.hears(r.a, p)
		},
		"of two decisions the decision with the higher stamp counts, in any order": func(r *rig) {
			const to = "http://receiver.example:80"
			pause, resume := r.pause(to, time.Millisecond, far), r.resume(to, 2*time.Millisecond)
			longer := r.pause(to, 3*time.Millisecond, 2*far)
			r.decides(resume, resume)
			r.decides(pause, resume)
			r.hears(r.a, resume)
			r.decides(longer, longer)
			r.decides(resume, longer)
			r.decides(longer, longer)
			r.hears(r.b, longer)
		},
		"decisions of one millisecond count by their tags": func(r *rig) {
			const to = "http://receiver.example:80"
			first := r.pause(to, 0, far)
			second := first
			second.Stamp, second.Until = first.Stamp+1, time.Time{}
			r.decides(second, second)
			r.decides(first, second)
		},
		"a pause that is over is still known": func(r *rig) {
			p := r.pause("http://receiver.example:80", 0, -time.Minute)
			r.decides(p, p)
			r.hears(r.a, p)
		},
		"decisions as old as no pause lasts are forgotten": func(r *rig) {
			const to = "http://receiver.example:80"
			r.decides(r.pause(to, -timing.DecisionLife-time.Minute, far), store.Decision{})
			kept := r.pause(to, -timing.DecisionLife+time.Minute, far)
			r.decides(kept, kept)
			r.hears(r.b, kept)
			r.decides(r.pause(to, -timing.DecisionLife-time.Minute, far), kept)
		},
		"decisions by a broken clock are refused": func(r *rig) {
			r.decides(r.pause("http://receiver.example:80", timing.MaxClockAhead+time.Minute, far), store.Decision{})
			r.hears(r.a)
		},
		"pauses and decisions are bounded": checkPausesBounded,
	}
}

// checkPausesBounded: over the bound of pauses only a pause that is in force changes, and the end of a
// pause makes room.
func checkPausesBounded(r *rig) {
	var all []store.Decision
	for i := range store.MaxPauses {
		all = append(all, r.pause(fmt.Sprintf("http://receiver%d.example:80", i), 0, far))
	}
	r.decideAll(all, all)
	more := r.pause("http://more.example:80", time.Second, far)
	r.decides(more, store.Decision{})
	longer := all[7]
	longer.Stamp, longer.Until = longer.Stamp+1, longer.Until.Add(time.Minute)
	r.decides(longer, longer)
	resumed := r.resume(all[0].Destination, time.Second)
	r.decides(resumed, resumed)
	r.decides(more, more)
	var ends []store.Decision
	for i := range store.MaxDecisions - store.MaxPauses - 1 {
		ends = append(ends, r.resume(fmt.Sprintf("http://unpaused%d.example:80", i), 0))
	}
	r.decideAll(ends, ends)
	r.decides(r.resume("http://another.example:80", time.Second), store.Decision{})
	resumed = r.resume(all[1].Destination, time.Second)
	r.decides(resumed, resumed)
	said, err := r.b.Beat(r.Context(), r.shard(), store.Announcement{Clock: r.Now()})
	if err != nil || len(said.Decisions) != store.MaxDecisions {
		r.Errorf("%d decisions are known, %v; want %d", len(said.Decisions), err, store.MaxDecisions)
	}
}

// pause is a decision made in age from now, until a later instant.
func (r *rig) pause(destination string, in, lasts time.Duration) store.Decision {
	now := r.Now()
	return store.Decision{Destination: destination, Stamp: timer.VersionAt(now.Add(in), 7), Until: now.Add(lasts).Truncate(time.Millisecond).UTC()}
}

func (r *rig) resume(destination string, in time.Duration) store.Decision {
	d := r.pause(destination, in, 0)
	d.Until = time.Time{}
	return d
}

func (r *rig) decides(d, want store.Decision) {
	r.Helper()
	r.decideAll([]store.Decision{d}, []store.Decision{want})
}

func (r *rig) decideAll(all, want []store.Decision) {
	r.Helper()
	got, err := r.a.Decide(r.Context(), r.shard(), all)
	if err != nil {
		r.Fatalf("decide: %v", err)
	}
	r.same(got, want)
}

// hears has a node hear the decisions with its heartbeat.
func (r *rig) hears(node store.Store, want ...store.Decision) {
	r.Helper()
	said, err := node.Beat(r.Context(), r.shard(), store.Announcement{Clock: r.Now()})
	if err != nil {
		r.Fatalf("beat: %v", err)
	}
	r.same(said.Decisions, want)
}

func (r *rig) same(got, want []store.Decision) {
	r.Helper()
	now := r.Now() // once: each look at the clock of a Redis is a round trip
	slices.SortFunc(got, func(a, b store.Decision) int { return strings.Compare(a.Destination, b.Destination) })
	want = slices.SortedFunc(slices.Values(want), func(a, b store.Decision) int { return strings.Compare(a.Destination, b.Destination) })
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Decision{}, "Left"), cmpopts.EquateEmpty()); diff != "" {
		r.Errorf("decisions (-want +got):\n%s", diff)
	}
	for i := range got {
		if d := &got[i]; !d.Until.IsZero() {
			r.between("the end of a pause as the node counts", now.Add(d.Left), d.Until, d.Until.Add(10*time.Second))
		}
	}
}
