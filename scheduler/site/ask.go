package site

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/replica"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	// hesitation is how long a copy waits if a site that can be reached gave no answer.
	hesitation = 250 * time.Millisecond
	// patience is how long the answers of other sites are waited for.
	patience = timing.RoundPatience
)

// Question is about a copy that may call back, and that is to be compared with the copies of other sites.
type Question struct {
	Shard   string // of the copy
	Record  *store.Record
	Overdue time.Duration
}

// Verdict says what the copies of other sites mean for a copy. At most one field is set; without any the copy may call
// back.
type Verdict struct {
	Wait    time.Duration // look again after so long
	Adopted bool          // the copies of the own site have a newer state by now
	Over    bool          // the timer is over
}

// view is what one other site says of a timer.
type view struct {
	other *Other
	replica.Seen
}

// opinion is what the other sites together say of a copy.
type opinion struct {
	newer   *view         // the newest state that the copy lacks; nil if no site has a newer state
	wait    time.Duration // for an equal copy, or for an answer; 0 for none
	unknown *Other        // the home, which does not know the timer
}

// Ask compares copies with the copies of other sites: a copy that is not at its home with the sites before its own in the
// timer's order, a copy at its home with all sites. Sites that can't be reached are left out (rule "compare with the other sites").
func (s *Sites) Ask(ctx context.Context, questions []Question) []Verdict {
	verdicts := make([]Verdict, len(questions))
	newer, unknown, alike := map[*Other][]int{}, map[*Other][]int{}, map[*Other][]*store.Record{}
	all := make([]opinion, len(questions))
	for i, views := range s.look(ctx, questions) {
		q, said := &questions[i], &all[i]
		*said = s.weigh(q, views)
		for _, v := range views {
			if v.Newest.Record.State == q.Record.State {
				alike[v.other] = append(alike[v.other], q.Record)
			}
		}
		switch {
		case said.newer != nil:
			newer[said.newer.other] = append(newer[said.newer.other], i)
		case said.wait > 0:
			verdicts[i].Wait = said.wait
		case said.unknown != nil:
			unknown[said.unknown] = append(unknown[said.unknown], i)
		}
	}
	for o, indexes := range newer {
		reads := make([]store.ReadResult, len(indexes))
		for n, i := range indexes {
			reads[n] = all[i].newer.Newest
		}
		for n, adopted := range s.adopt(ctx, o, reads) {
			if !adopted {
				verdicts[indexes[n]].Wait = hesitation
				continue
			}
			verdicts[indexes[n]].Adopted = true
			alike[o] = append(alike[o], &reads[n].Record)
		}
	}
	for o, indexes := range unknown {
		asked := make([]*Question, len(indexes))
		for n, i := range indexes {
			asked[n] = &questions[i]
		}
		over, answered := s.areOver(ctx, &s.own, &o.Site, asked)
		for n, i := range indexes {
			if verdicts[i].Over = over[n]; !over[n] && !answered && questions[i].Overdue < timing.LeftToOthers {
				verdicts[i].Wait = hesitation
			}
		}
	}
	for o, records := range alike {
		if o.touch.anyMark() {
			o.clear(ctx, s.wholly(ctx, records))
		}
	}
	return verdicts
}

// wholly are those of the copies that all owners of the own site have.
func (s *Sites) wholly(ctx context.Context, records []*store.Record) (whole []*store.Record) {
	ids := make([]timer.ID, len(records))
	for i, r := range records {
		ids[i] = r.ID.WithoutHint()
	}
	for i, seen := range s.own.Copies.See(ctx, ids) {
		if seen.Alike && seen.Newest.Record.State == records[i].State {
			whole = append(whole, records[i])
		}
	}
	return whole
}

// look reads the copies of the sites that the questions ask, each site once.
func (s *Sites) look(ctx context.Context, questions []Question) [][]view {
	bounded, cancel := s.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	sites, others := s.own.Shards.Store.Sites(), s.all()
	about := map[*Other][]int{}
	for i := range questions {
		r := questions[i].Record
		order := sites.Order(r.ID.Key, r.Site)
		if own := slices.Index(order, sites.Own); own > 0 {
			order = order[:own]
		}
		for _, name := range order {
			if o := others[name]; o != nil && o.reached() {
				about[o] = append(about[o], i)
			}
		}
	}
	views := make([][]view, len(questions))
	var mu sync.Mutex
	var looks sync.WaitGroup
	for o, indexes := range about {
		looks.Go(func() {
			ids := make([]timer.ID, len(indexes))
			for n, i := range indexes {
				ids[n] = questions[i].Record.ID.WithoutHint()
			}
			seen := o.Copies.See(bounded, ids)
			mu.Lock()
			defer mu.Unlock()
			for n, i := range indexes {
				views[i] = append(views[i], view{o, seen[n]})
			}
		})
	}
	looks.Wait()
	return views
}

// weigh sums up what the other sites say: a newer state counts most, then a copy that may call back.
func (s *Sites) weigh(q *Question, views []view) (said opinion) {
	mine := q.Record.State
	for i := range views {
		v := &views[i]
		if theirs := v.Newest.Record.State; mine.Lacks(theirs) && (said.newer == nil || said.newer.Newest.Record.State.Lacks(theirs)) {
			said.newer = v
		}
	}
	homeName := s.home(q.Record)
	home := homeName == s.ownName()
	for i := range views {
		v := &views[i]
		switch theirs := v.Newest.Record.State; {
		case theirs.Version != 0 && !theirs.Lacks(mine): // the same state
			said.wait = max(said.wait, s.yield(q, v, home))
		case !v.Whole && q.Overdue < timing.LeftToOthers:
			said.wait = max(said.wait, hesitation)
		case theirs.Version == 0 && v.Whole && v.other.Name == homeName:
			said.unknown = v.other
		}
	}
	return said
}

// yield is how long a copy waits for an equal copy of another site: a copy at the home for a callback that another site
// has leased, any other copy as long as a node works on the shards of the other site.
func (s *Sites) yield(q *Question, v *view, home bool) time.Duration {
	switch lease := max(v.Newest.LookIn, 0) + time.Millisecond; {
	case v.Newest.Fired, v.Newest.Leased && !home:
		return lease
	case v.Newest.Leased: // the other site compares, and then calls back or yields
		return min(lease, hesitation)
	case home || !v.other.works():
		return 0
	}
	return max(s.own.Shards.Spacing(q.Record).Skew, q.Overdue)
}

// works reports whether a node of the site has announced itself lately, and calls back: while a site that has lost its
// timers is filled, the nodes of that site call nothing.
func (o *Other) works() bool {
	if o.empty.Load() {
		return false
	}
	for _, sh := range o.Shards.All() {
		if sh.Worked() {
			return true
		}
	}
	return false
}

// adopt brings the copies of the own site up to newer copies of another site, and reports for each whether all owners have it.
func (s *Sites) adopt(ctx context.Context, from *Other, newer []store.ReadResult) []bool {
	all := make([]replica.Foreign, len(newer))
	for i := range newer {
		all[i] = s.foreign(&from.Site, &s.own, newer[i], false)
	}
	before, errs := s.own.Copies.BringUp(ctx, all)
	adopted := make([]bool, len(newer))
	var replaced []timer.ID
	for i, err := range errs {
		adopted[i] = err == nil
		if r := &newer[i].Record; adopted[i] && replaces(r.State, before[i]) {
			replaced = append(replaced, r.ID)
		}
	}
	from.countLost(ctx, &s.own, from.Name, replaced)
	return adopted
}

// clear ends the marks at another site for the own site about copies that all owners of the own site have (rule "tell the
// present state"). Without marks there, clear asks nobody.
func (o *Other) clear(ctx context.Context, whole []*store.Record) {
	if len(whole) == 0 || !o.touch.anyMark() {
		return
	}
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	own, marks := o.s.ownName(), map[*shard.Shard][]store.ToldMark{}
	for _, r := range whole {
		m := store.Mark{Site: own, Key: r.ID.Key}
		outcome := m
		outcome.Outcome = true
		for _, p := range o.Shards.Homes(r.ID.WithoutHint()) {
			if !p.Shard.Away() {
				marks[p.Shard] = append(marks[p.Shard], store.ToldMark{Mark: m, State: r.State}, store.ToldMark{Mark: outcome, State: r.State})
			}
		}
	}
	var ends sync.WaitGroup
	for sh, all := range marks {
		ends.Go(func() {
			if err := o.Shards.Store.Unmark(bounded, sh.Name, all); err != nil {
				sh.Log.Debug("marks could not be ended", "err", err)
			}
		})
	}
	ends.Wait()
}

// areOver reports which timers of a site, that another site does not know, are over: the owners there have all that the
// first site knew, and the other site needs not be told of this copy. answered is false if a shard did not say.
func (s *Sites) areOver(ctx context.Context, from, at *Site, questions []*Question) (over []bool, answered bool) {
	bounded, cancel := s.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	over = make([]bool, len(questions))
	filled, answered := s.filledFrom(bounded, from, at, questions)
	keys, of := map[*shard.Shard][]string{}, map[*shard.Shard][]int{}
	for i, q := range questions {
		id := q.Record.ID.WithoutHint()
		homes := at.Shards.Homes(id)
		over[i] = len(homes) > 0 && !slices.ContainsFunc(homes, func(p shard.Place) bool { return !filled[p.Shard] })
		for _, p := range from.Shards.Homes(id) {
			if over[i] && (!p.Shard.Away() || p.Shard.Name == q.Shard) {
				keys[p.Shard], of[p.Shard] = append(keys[p.Shard], q.Record.ID.Key), append(of[p.Shard], i)
			}
		}
	}
	for sh, wanted := range keys {
		marked, err := from.Shards.Store.Marked(bounded, sh.Name, s.nameOf(at), wanted)
		answered = answered && err == nil
		for n, i := range of[sh] {
			over[i] = over[i] && err == nil && !marked[n]
		}
	}
	return over, answered
}

// filledFrom asks the owners of timers at a site, all at the same time, whether another site has filled the owner. answered is
// false if an owner did not say.
func (s *Sites) filledFrom(ctx context.Context, from, at *Site, questions []*Question) (filled map[*shard.Shard]bool, answered bool) {
	filled, answered = map[*shard.Shard]bool{}, true
	for _, q := range questions {
		for _, p := range at.Shards.Homes(q.Record.ID.WithoutHint()) {
			filled[p.Shard] = false
		}
	}
	var mu sync.Mutex
	var asks sync.WaitGroup
	for _, sh := range slices.Collect(maps.Keys(filled)) {
		asks.Go(func() {
			noted, err := at.Shards.Store.Filled(ctx, sh.Name)
			mu.Lock()
			defer mu.Unlock()
			filled[sh], answered = slices.Contains(noted, s.nameOf(from)), answered && err == nil
		})
	}
	asks.Wait()
	return filled, answered
}
